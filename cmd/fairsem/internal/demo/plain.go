package demo

import (
	"fmt"
	"strings"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// plain writes a line when the holders or the waiters have changed.
type plain struct {
	logWriter
	last     string
	reported int
	titled   bool
}

func (p *plain) show(f frame) {
	if !p.titled {
		p.titled = true
		p.line("fairsem demo: %d processes share %d units\n%s\n", Workers, Limit, text.Clean(f.place))
	}
	for ; p.reported < len(f.events); p.reported++ {
		p.line("%s * %s", f.events[p.reported].when(), f.events[p.reported].Text)
	}
	now := fmt.Sprintf("%d of %d used by %s; queue: %s", f.used(), Limit, names(f.Holders, f.dead), names(f.Waiters, f.dead))
	if now != p.last {
		p.last = now
		p.line("%s", text.Cut(fmt.Sprintf("%5.1f s   %s", f.elapsed.Seconds(), now), logWidth, "…"))
	}
}

// logWidth is that of a line of the log, as of a terminal that is not wide.
const logWidth = 80

// names is short enough for all workers to fit in a line, mostly: their numbers, several units, and death.
func names(tickets []fairsem.Ticket, dead string) string {
	if len(tickets) == 0 {
		return "no worker"
	}
	all := make([]string, len(tickets))
	for i, t := range tickets {
		all[i] = strings.TrimPrefix(render.Label(t), "worker ")
		if t.Weight > 1 {
			all[i] += fmt.Sprintf(" (%d units)", t.Weight)
		}
		if t.ID == dead {
			all[i] += " (dead)"
		}
	}
	return strings.Join(all, ", ")
}
