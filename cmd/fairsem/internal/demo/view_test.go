package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// crowded is a frame with as much in it as there can be.
func crowded() frame {
	f := frame{
		title:   "7 processes share 3 units",
		place:   "demo-0123456789ab on Redis at " + strings.Repeat("far.away.", 20),
		elapsed: 1234 * time.Second,
		rows:    6,
		dead:    "dead",
		grants:  99999,
		events:  []event{{time.Second, "kill -9 worker 3"}, {2 * time.Second, "its units are in use again"}},
	}
	f.status.Limit = 3
	f.holders = []fairsem.Ticket{{ID: "dead", Label: "worker 3", Weight: 2, ExpiresIn: time.Second}, {ID: "a", Label: "worker 1", Weight: 1}}
	for _, h := range f.holders {
		f.holding = append(f.holding, row{Ticket: h})
	}
	for i := range 6 {
		f.waiting = append(f.waiting, row{Ticket: fairsem.Ticket{Label: "worker " + string(rune('1'+i)), Weight: 2}, lasted: 99 * time.Second})
	}
	return f
}

func TestEveryFrameFitsEightyColumnsAndHasTheSameHeight(t *testing.T) {
	empty := frame{title: "t", place: "p", rows: 6}
	for _, f := range []frame{crowded(), empty} {
		assert.LessOrEqual(t, lipgloss.Width(render(f)), 80)
		assert.Equal(t, lipgloss.Height(render(crowded())), lipgloss.Height(render(f)))
	}
	assert.LessOrEqual(t, lipgloss.Height(render(crowded())), 24)
}

func TestAFrameShowsWhoHoldsWhoWaitsAndWhoIsDead(t *testing.T) {
	text := render(crowded())
	assert.Contains(t, text, "3 of 3")
	assert.Contains(t, text, "✗ worker 3  2 units  dead, ends in 1.0 s")
	assert.Contains(t, text, "worker 1")
	assert.Contains(t, text, "6. ")
	assert.Contains(t, text, "its units are in use again")
}

func TestWithoutATerminalEveryChangeIsALineAndNothingElse(t *testing.T) {
	var out bytes.Buffer
	p := &plain{out: &out}
	f := crowded()
	p.show(f)
	p.show(f)
	assert.Equal(t, 5, strings.Count(out.String(), "\n"), out.String()) // two of title, two events, one state
	f.holders = f.holders[1:]
	p.show(f)
	assert.True(t, strings.HasSuffix(out.String(), "1 of 3 used by 1; in line nobody\n"), out.String())
}

func TestABrokenPromiseIsMarkedAndShownWithItsEvidence(t *testing.T) {
	var out bytes.Buffer
	summarize(&out, "7 processes", []verdict{
		{promise: "kept", found: "0"},
		{promise: "not kept", found: "9", broken: true, details: make([]history.Violation, 9)},
	})
	assert.Regexp(t, `✓ kept +0`, out.String())
	assert.Regexp(t, `✗ not kept +9`, out.String())
	assert.Contains(t, out.String(), "1 of 2 promises held.")
	assert.Equal(t, 2*maxDetails, strings.Count(out.String(), "token=0"))
	assert.NotContains(t, out.String(), "\x1b")
}

func TestNoColorCountsWhateverItsValue(t *testing.T) {
	t.Setenv("NO_COLOR", "yes")
	t.Setenv("CLICOLOR_FORCE", "1")
	var out bytes.Buffer
	summarize(&out, "h", []verdict{{promise: "kept"}})
	assert.NotContains(t, out.String(), "\x1b[3", "a colour")
}
