package demo

// report is the result for programs to read.
type report struct {
	Held     bool            `json:"held"`
	Name     string          `json:"name"`
	Server   string          `json:"server"`
	Workers  int             `json:"workers"`
	Limit    int64           `json:"limit"`
	TookMS   int64           `json:"took_ms"`
	Events   []reportEvent   `json:"events"`
	Promises []reportPromise `json:"promises"`
}

type reportEvent struct {
	AfterMS int64  `json:"after_ms"`
	Text    string `json:"text"`
}

type reportPromise struct {
	Promise    string   `json:"promise"`
	Held       bool     `json:"held"`
	Found      string   `json:"found"`
	Violations []string `json:"violations,omitempty"`
}

func (d *demo) report(verdicts []verdict) report {
	r := report{
		Held:    broken(verdicts) == nil,
		Name:    d.sem.Name(),
		Server:  d.server.address,
		Workers: Workers,
		Limit:   Limit,
		TookMS:  d.ended.Sub(d.began).Milliseconds(),
	}
	for _, e := range d.events {
		r.Events = append(r.Events, reportEvent{e.after.Milliseconds(), e.text})
	}
	r.Promises = reportPromises(verdicts)
	return r
}

func reportPromises(verdicts []verdict) (all []reportPromise) {
	for _, v := range verdicts {
		p := reportPromise{Promise: v.promise, Held: !v.broken, Found: v.found}
		for _, violation := range v.details {
			p.Violations = append(p.Violations, violation.String())
		}
		all = append(all, p)
	}
	return all
}
