package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/history"
)

// neighbourFrame is the state of both sides at one moment.
type neighbourFrame struct {
	elapsed time.Duration
	place   string
	sides   [2]sideFrame
}

// sideFrame is one side: the units and the waiting calls of each customer, and the waits of the latest jobs of the quiet one.
type sideFrame struct {
	title         string
	used, waiting map[string]int64
	waited        []time.Duration
}

func (n *neighbours) frame(ctx context.Context) (f neighbourFrame, err error) {
	f.elapsed, f.place = time.Since(n.began), n.server.address
	for i, s := range n.sides {
		asked := history.Now()
		d, err := inspect.PollDetail(ctx, s.clients[0], s.sem.Name(), maxTickets)
		if err != nil {
			return f, n.server.stateError(s.sem, err)
		}
		s.most = max(s.most, d.Used)
		s.see(asked, d.Waiters)
		f.sides[i] = sideFrame{title: s.title, used: unitsByLabel(d.Holders), waiting: unitsByLabel(d.Waiters), waited: s.waits(quiet)}
	}
	return f, nil
}

// unitsByLabel counts those of each customer.
func unitsByLabel(tickets []fairsem.Ticket) map[string]int64 {
	all := make(map[string]int64)
	for _, t := range tickets {
		all[t.Label] += t.Weight
	}
	return all
}

// lines describe a side, for a picture.
func (s sideFrame) lines(g glyphs) []string {
	bar := ""
	for _, customer := range []string{quiet, noisy} {
		style := plainly
		if customer == quiet {
			style = moving
		}
		bar += style.Render(strings.Repeat(g.unit+" ", int(min(Limit, s.used[customer]))))
	}
	latest := make([]string, 0, 4)
	for _, w := range s.waited[max(0, len(s.waited)-4):] {
		latest = append(latest, waited(w.Milliseconds()))
	}
	return []string{
		bold.Render(s.title), bar + strings.Repeat(g.free+" ", int(max(0, Limit-s.used[quiet]-s.used[noisy]))),
		fmt.Sprintf("noisy  holds %d, %2d wait", s.used[noisy], s.waiting[noisy]),
		moving.Render(fmt.Sprintf("quiet  holds %d, %2d wait", s.used[quiet], s.waiting[quiet])),
		fmt.Sprintf("quiet had %d jobs", len(s.waited)),
		"they waited " + strings.Join(latest, ", "),
	}
}

func (f *neighbourFrame) update(latest neighbourFrame, _ time.Time) { *f = latest }

// render draws both sides beside each other, or below each other where that does not fit.
func (f *neighbourFrame) render(_ time.Time, width, height int, g glyphs) string {
	const column = 38
	left, right := f.sides[0].lines(g), f.sides[1].lines(g)
	body := append(append(left, ""), right...)
	if width > 2*column {
		body = strings.Split(lipgloss.JoinHorizontal(lipgloss.Top, block(left, column), block(right, column)), "\n")
	}
	lines := append([]string{
		"", bold.Render("fairsem demo tenants") + fmt.Sprintf("  two customers share %d units  %.1f s", Limit, f.elapsed.Seconds()), faint.Render(text.Clean(f.place)), "",
	}, body...)
	lines = lines[:max(0, min(height, len(lines)))]
	for i, line := range lines {
		lines[i] = g.only(text.Cut(" "+line, width, ""))
	}
	return strings.Join(lines, "\n")
}

// neighbourLog writes a line for every second that has begun.
type neighbourLog struct {
	logWriter
	begun int // seconds
}

func (l *neighbourLog) show(f neighbourFrame) {
	begun := int(f.elapsed.Seconds()) + 1
	if begun == l.begun {
		return
	}
	if l.begun == 0 {
		l.line("fairsem demo tenants: two customers share %d units, without tenants and with\n%s\n", Limit, text.Clean(f.place))
	}
	l.begun = begun
	for _, s := range f.sides {
		latest := ""
		if len(s.waited) > 0 {
			latest = ", the last waited " + waited(s.waited[len(s.waited)-1].Milliseconds())
		}
		l.line("%5.1f s   %-16s noisy holds %d, %2d wait; quiet holds %d, %d waits, had %2d jobs%s",
			f.elapsed.Seconds(), s.title+":", s.used[noisy], s.waiting[noisy], s.used[quiet], s.waiting[quiet], len(s.waited), latest)
	}
}
