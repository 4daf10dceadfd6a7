package demo

import (
	"fmt"
	"image/color"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem"
)

// frame is one picture of the demo.
type frame struct {
	snapshot
	title, place     string
	elapsed          time.Duration
	holding, waiting []row
	rows             int    // that both lists may need
	dead             string // id of the permit of the killed worker
	grants           int
	events           []event
}

type row struct {
	fairsem.Ticket
	lasted time.Duration
}

const viewWidth = 78

// The sixteen colours that every terminal has, in the shades that its user likes.
var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true)
	good  = lipgloss.NewStyle().Foreground(lipgloss.Green).Bold(true)
)

// crewColors tell workers apart. Red is for the dead.
var crewColors = []color.Color{lipgloss.Blue, lipgloss.Magenta, lipgloss.Cyan, lipgloss.Green,
	lipgloss.Yellow, lipgloss.BrightBlue, lipgloss.BrightMagenta}

// maxEvents is how many events there can be: a worker is killed, and its units come back.
const maxEvents = 2

// render draws the frame in lines of at most viewWidth+1 columns. Their number is always the same:
// bubbletea leaves parts of a picture behind that has become lower.
func render(f frame) string {
	lines := []string{
		"",
		spread(bold.Render("fairsem demo")+"  "+f.title, fmt.Sprintf("%.1f s", f.elapsed.Seconds())),
		faint.Render(f.place),
		"",
		spread(meter(f), fmt.Sprintf("%d grants", f.grants)),
		"",
		columns(bold.Render("holding"), bold.Render("waiting, first come, first served")),
	}
	for i := range f.rows {
		lines = append(lines, columns(f.holder(i), f.waiter(i)))
	}
	lines = append(lines, "")
	for i := range maxEvents {
		lines = append(lines, f.event(i))
	}
	clip := lipgloss.NewStyle().MaxWidth(viewWidth)
	for i, line := range lines {
		lines[i] = strings.TrimRight(" "+clip.Render(line), " ")
	}
	return strings.Join(lines, "\n") + "\n" // bubbletea erases the last line when it ends
}

// meter has a box for each unit.
func meter(f frame) string {
	var boxes strings.Builder
	for _, h := range f.holding {
		boxes.WriteString(strings.Repeat(f.style(h).Render("■ "), int(h.Weight)))
	}
	free := max(0, f.status.Limit-f.used())
	boxes.WriteString(faint.Render(strings.Repeat("□ ", int(free))))
	return fmt.Sprintf("in use  %s %d of %d", boxes.String(), f.used(), f.status.Limit)
}

func (f frame) holder(i int) string {
	if i >= len(f.holding) {
		return ""
	}
	r := f.holding[i]
	if r.ID == f.dead {
		return f.style(r).Render(fmt.Sprintf("✗ %s  %-7s  dead, ends in %.1f s", r.Label, units(r.Weight), r.ExpiresIn.Seconds()))
	}
	return f.style(r).Render("● "+r.Label) + fmt.Sprintf("  %-7s  %.1f s", units(r.Weight), r.lasted.Seconds())
}

func (f frame) waiter(i int) string {
	if i >= len(f.waiting) {
		return ""
	}
	r := f.waiting[i]
	return fmt.Sprintf("%d. %s  %-7s  %.1f s", i+1, f.style(r).Render(r.Label), units(r.Weight), r.lasted.Seconds())
}

func (f frame) event(i int) string {
	if i >= len(f.events) {
		return ""
	}
	return fmt.Sprintf("%4.1f s  %s", f.events[i].after.Seconds(), f.events[i].text)
}

// style is the colour of a worker.
func (f frame) style(r row) lipgloss.Style {
	if r.ID == f.dead {
		return bad
	}
	var n int
	if _, err := fmt.Sscanf(r.Label, "worker %d", &n); err != nil || n < 1 {
		return lipgloss.NewStyle()
	}
	return lipgloss.NewStyle().Foreground(crewColors[(n-1)%len(crewColors)])
}

func units(n int64) string {
	if n == 1 {
		return "1 unit"
	}
	return fmt.Sprintf("%d units", n)
}

// spread puts one text to the left and one to the right.
func spread(left, right string) string {
	gap := max(1, viewWidth-lipgloss.Width(left)-lipgloss.Width(right))
	return left + strings.Repeat(" ", gap) + right
}

func columns(left, right string) string {
	const leftWidth = 42
	return left + strings.Repeat(" ", max(1, leftWidth-lipgloss.Width(left))) + right
}
