package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panel is one chart of horizontal bars: a row for each contender, a bar for each metric.
type panel struct {
	section string
	title   string
	metrics []string
	log     bool // a logarithmic scale, for waits, which differ by orders of magnitude
	ours    bool // all bars are fairsem's
	skip    func(label string) bool
}

// panels returns the charts of the overview if everything was measured.
func panels() []panel {
	ownCore := func(label string) bool { return strings.HasSuffix(label, ownCoreLabel) }
	return []panel{
		{section: "256", title: "256 goroutines, uncontended: pairs per second", metrics: []string{"rate"}},
		{section: "256", title: "256 goroutines: CPU time of Redis for each pair", metrics: []string{"cpu"}},
		{section: "limit 4", title: "Limit 4, 64 callers in 4 processes: grants per second", metrics: []string{"rate"}},
		{section: "limit 4", title: "Limit 4: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "limit 1", title: "Limit 1, 64 callers in 4 processes: grants per second", metrics: []string{"rate"}},
		{section: "limit 1", title: "Limit 1: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "alone", title: "1 goroutine, one core: acquire + release, p50", metrics: []string{"p50"}, skip: ownCore},
		{section: "1024", title: "1024 goroutines on 100 names: pairs per second", metrics: []string{"rate"}},
		{section: "work", title: "Limit 4, holds of 5 ms: how much of the limit is used", metrics: []string{"utilisation"}},
		{section: "work", title: "Limit 4, holds of 5 ms: wait, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "handoff", title: "Release in one process to grant in another, p50 and p99 (log)", metrics: []string{"p50", "p99"}, log: true},
		{section: "rate", title: "1000 a second, 32 callers in 4 processes: most in any second", metrics: []string{"window"}},
		{section: "rate", title: "1000 a second: CPU time of Redis for each grant", metrics: []string{"cpu"}},
		{section: "waiters", title: "fairsem: CPU time of Redis for each hand-off", metrics: []string{"cpu"}, ours: true},
	}
}

// Sizes in points. A point is 4/3 pixels in a browser, so the page is 1100 pixels wide.
const (
	columns   = 2
	pageWidth = 825
	margin    = 18
)

// overview returns an SVG picture of the panels for which there are figures.
func overview(r report) ([]byte, error) {
	charts := fill(r)
	rows := slices.Collect(slices.Chunk(charts, columns))
	height := vg.Length(2*margin + textSize)
	for _, row := range rows {
		height += heightOf(row) + margin
	}
	picture := vgsvg.New(pageWidth, height)
	page := draw.New(picture)
	page.SetColor(color.White) // the background of the viewer may be dark
	page.Fill(page.Path())
	page = draw.Crop(page, margin, -margin, margin, -margin)
	page.FillText(style(textSize-1, faint), page.Min, footer(r))
	for _, row := range rows {
		if err := drawRow(row, page, widest(charts)); err != nil {
			return nil, err
		}
		page.Max.Y -= heightOf(row) + margin
	}
	var out bytes.Buffer
	_, err := picture.WriteTo(&out)
	return withFonts(out.Bytes()), err
}

func footer(r report) string {
	return fmt.Sprintf("%s. %s. Bars: median of %d rounds, p50 darker than p99; lines: least to most.",
		r.Machine.Date, r.Machine.short(), r.Settings.Rounds)
}

// withFonts adds fonts that are as wide as the one with which the texts were placed, because few systems have that one.
func withFonts(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}

// fill returns a chart for each panel, with the series that have all metrics. It omits panels without such a series.
func fill(r report) []chart {
	var charts []chart
	for _, p := range panels() {
		c := chart{panel: p}
		for _, s := range r.Sections {
			if s.Name == p.section {
				c.series = slices.DeleteFunc(slices.Clone(s.Series), p.omits)
			}
		}
		if len(c.series) > 0 {
			charts = append(charts, c)
		}
	}
	return charts
}

func (p panel) omits(x series) bool {
	missing := func(key string) bool { return len(x.values(key)) == 0 }
	return p.skip != nil && p.skip(x.Label) || slices.ContainsFunc(p.metrics, missing)
}

// widest returns the widest name in all charts.
func widest(charts []chart) string {
	var names []string
	for _, c := range charts {
		for _, x := range c.series {
			names = append(names, x.Label)
		}
	}
	width := style(textSize, ink).Width
	return slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(width(a), width(b)) })
}

// drawRow draws charts side by side at the top of a page. Names have the same room in all rows.
func drawRow(row []chart, page draw.Canvas, widest string) error {
	plots := make([]*plot.Plot, columns)
	for i := range plots {
		p, err := row[min(i, len(row)-1)].plot(mostSeries(row), widest) // a missing chart takes as much room as the last one
		if err != nil {
			return err
		}
		plots[i] = p
	}
	page.Min.Y = page.Max.Y - heightOf(row)
	tiles := plot.Align([][]*plot.Plot{plots}, draw.Tiles{Rows: 1, Cols: columns, PadX: margin}, page)
	for i := range row {
		plots[i].Draw(tiles[0][i])
	}
	return nil
}

func heightOf(row []chart) vg.Length { return vg.Length(headHeight + rowHeight*mostSeries(row)) }

func mostSeries(row []chart) int {
	most := 0
	for _, c := range row {
		most = max(most, len(c.series))
	}
	return most
}
