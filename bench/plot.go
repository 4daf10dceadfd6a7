package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The picture is SVG written by hand: bars with their values beside them need no axes, and no module.

// panel is one chart of horizontal bars: a row for each contender, a bar for each metric.
type panel struct {
	section string
	title   string
	metrics []string
	log     bool // decades instead of lengths: for waits, which lie far apart
	skip    func(label string) bool
}

// panels is what the overview shows of a run that measured everything.
func panels() []panel {
	apart := func(label string) bool { return strings.HasSuffix(label, apartLabel) }
	return []panel{
		{section: "256", title: "256 goroutines, uncontended: pairs per second", metrics: []string{"rate"}},
		{section: "256", title: "256 goroutines: CPU time of Redis for each pair", metrics: []string{"cpu"}},
		{section: "limit 4", title: "Limit 4, 64 callers in 4 processes: grants per second", metrics: []string{"rate"}},
		{section: "limit 4", title: "Limit 4: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "limit 1", title: "Limit 1, 64 callers in 4 processes: grants per second", metrics: []string{"rate"}},
		{section: "limit 1", title: "Limit 1: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "alone", title: "1 goroutine, one core: acquire + release, p50", metrics: []string{"p50"}, skip: apart},
		{section: "1024", title: "1024 goroutines on 100 names: pairs per second", metrics: []string{"rate"}},
		{section: "work", title: "Limit 4, holds of 5 ms: how much of the limit is used", metrics: []string{"utilisation"}},
		{section: "work", title: "Limit 4, holds of 5 ms: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "handoff", title: "Release in one process to grant in another, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "waiters", title: "fairsem: CPU time of Redis for each hand-off", metrics: []string{"cpu"}},
	}
}

// Sizes in the picture's own units.
const (
	panelWidth = 540
	labelWidth = 165
	barsWidth  = 255 // the rest is for the value
	rowHeight  = 24
	headHeight = 44
	gap        = 24
)

// chart is a panel with what was measured.
type chart struct {
	panel
	rows []series
}

func (c chart) height() int { return headHeight + rowHeight*len(c.rows) }

// overview draws the panels that there are figures for, in two columns.
func overview(r report) string {
	var charts []chart
	for _, p := range panels() {
		if c := p.fill(r); len(c.rows) > 0 {
			charts = append(charts, c)
		}
	}
	var body strings.Builder
	y := gap
	for pair := range slices.Chunk(charts, 2) {
		height := 0
		for i, c := range pair {
			fmt.Fprintf(&body, "<g transform=\"translate(%d %d)\">\n%s</g>\n", gap+i*(panelWidth+gap), y, c.draw())
			height = max(height, c.height())
		}
		y += height + gap
	}
	width := 2*panelWidth + 3*gap
	footer := fmt.Sprintf("%s. %s. Bars: median of %d rounds; lines: least to most.", r.Machine.Date, r.Machine.short(), r.Settings.Rounds)
	return fmt.Sprintf(frame, width, y+gap, width, y+gap, body.String(), gap, y, html.EscapeString(footer))
}

const frame = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif" font-size="12">
<rect width="%d" height="%d" rx="8" fill="#ffffff"/>
%s<text x="%d" y="%d" fill="#64748b" font-size="11">%s</text>
</svg>`

// fill takes the series of a panel, those that have all its metrics.
func (p panel) fill(r report) chart {
	c := chart{panel: p}
	for _, s := range r.Sections {
		if s.Name != p.section {
			continue
		}
		for _, x := range s.Series {
			if (p.skip == nil || !p.skip(x.Label)) && len(x.values(p.metrics[0])) > 0 {
				c.rows = append(c.rows, x)
			}
		}
	}
	return c
}

func (c chart) draw() string {
	var out strings.Builder
	fmt.Fprintf(&out, "<text y=\"14\" fill=\"#0f172a\" font-size=\"14\" font-weight=\"600\">%s</text>\n", html.EscapeString(c.title))
	scale := c.scale()
	for i, x := range c.rows {
		y := headHeight - 18 + i*rowHeight
		weight := 400
		if isOurs(x.Label, c.section) {
			weight = 600
		}
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#334155\" font-weight=\"%d\">%s</text>\n",
			labelWidth-8, y+14, weight, html.EscapeString(x.Label))
		out.WriteString(c.bars(x, y, scale))
	}
	return out.String()
}

// bars draws the row of one series, the bars one upon the other and their values behind the longest.
func (c chart) bars(x series, y int, scale func(float64) float64) string {
	var out strings.Builder
	var texts []string
	end := 0.0
	thick := (rowHeight - 6) / len(c.metrics)
	for i, key := range c.metrics {
		m, values := metricOf(key), x.values(key)
		length := scale(median(values))
		top := y + i*thick
		fmt.Fprintf(&out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"%s\"/>\n",
			labelWidth, top, max(1, length), thick-1, colour(isOurs(x.Label, c.section), i))
		from, to := scale(slices.Min(values)), scale(slices.Max(values))
		if len(values) > 1 {
			fmt.Fprintf(&out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#0f172a\" stroke-opacity=\"0.45\"/>\n",
				labelWidth+from, float64(top)+float64(thick-1)/2, labelWidth+to)
		}
		end = max(end, length, to)
		texts = append(texts, m.show(median(values)))
	}
	fmt.Fprintf(&out, "<text x=\"%.1f\" y=\"%d\" fill=\"#334155\">%s</text>\n",
		labelWidth+end+6, y+14, html.EscapeString(strings.Join(texts, " · ")))
	return out.String()
}

// scale returns how long a bar of that value is.
func (c chart) scale() func(float64) float64 {
	var all []float64
	for _, x := range c.rows {
		for _, key := range c.metrics {
			all = append(all, x.values(key)...)
		}
	}
	most, least := slices.Max(all), slices.Min(all)
	if !c.log || least <= 0 || least == most {
		return func(x float64) float64 { return barsWidth * x / max(most, math.SmallestNonzeroFloat64) }
	}
	from := math.Floor(math.Log10(least))
	span := math.Log10(most) - from
	return func(x float64) float64 { return barsWidth * (math.Log10(x) - from) / span }
}

// isOurs is whether a row is set off from the others.
func isOurs(label, section string) bool {
	return section != "waiters" && strings.HasPrefix(label, fair)
}

// colour is darker for the first bar of a row.
func colour(ours bool, bar int) string {
	shades := []string{"#94a3b8", "#cbd5e1"}
	if ours {
		shades = []string{"#2563eb", "#93c5fd"}
	}
	return shades[min(bar, len(shades)-1)]
}
