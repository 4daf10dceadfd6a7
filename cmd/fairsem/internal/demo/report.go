package demo

import (
	"io"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// report is the result of any demo, for programs to read.
type report struct {
	Held     bool         `json:"held"`
	Name     string       `json:"name,omitempty"`
	Server   string       `json:"server"`
	Workers  int          `json:"workers,omitempty"`
	Limit    int64        `json:"limit"`
	TookMS   int64        `json:"took_ms"`
	Events   []event      `json:"events,omitempty"`
	Sides    []sideReport `json:"sides,omitempty"`
	Promises []verdict    `json:"promises"`
}

func newReport(s *server, took time.Duration, verdicts []verdict) report {
	return report{Held: broken(verdicts) == nil, Server: s.address, Limit: Limit, TookMS: took.Milliseconds(), Promises: verdicts}
}

func (d *demo) report(verdicts []verdict) report {
	r := newReport(d.server, d.ended.Sub(d.began), verdicts)
	r.Name, r.Workers, r.Events = d.sem.Name(), Workers, d.events
	return r
}

// write writes the report as JSON, or a summary for people. The error is that of broken.
func (r report) write(out io.Writer, o Options, header string, events []event) error {
	if o.JSON {
		_, _ = out.Write(text.JSON(r)) // an error cannot be reported anywhere
	} else {
		summarize(out, header, events, r.Promises)
	}
	return broken(r.Promises)
}
