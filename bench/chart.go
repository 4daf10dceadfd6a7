package main

import (
	"cmp"
	"errors"
	"image/color"
	"math"
	"slices"
	"strings"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes in points.
const (
	headHeight = 34 // the title, and the decades below the bars
	rowHeight  = 17
	barsHeight = 12 // of all bars of a series together
	textSize   = 9
)

// reach is the part of a chart's width that bars may take, in all charts. The rest is for the values.
const reach = 0.7

var (
	ink   = color.NRGBA{0x1e, 0x29, 0x3b, 0xff}
	faint = color.NRGBA{0x64, 0x74, 0x8b, 0xff}
	lines = color.NRGBA{0xe2, 0xe8, 0xf0, 0xff}
	shade = color.NRGBA{0x0f, 0x17, 0x2a, 0x80}

	// The first bar of a series is the darkest.
	ourColours   = []color.NRGBA{{0x25, 0x63, 0xeb, 0xff}, {0x93, 0xc5, 0xfd, 0xff}}
	theirColours = []color.NRGBA{{0x94, 0xa3, 0xb8, 0xff}, {0xcb, 0xd5, 0xe1, 0xff}}
)

// chart is a panel with its figures.
type chart struct {
	panel
	series []series
}

// plot returns a plot with room for the given number of rows, and for names as wide as widest.
func (c chart) plot(rows int, widest string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Title.Padding = c.title, 4
	p.Title.TextStyle = style(textSize+1.5, ink)
	p.Title.TextStyle.Font.Weight = font.WeightBold
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	grid.Vertical.Color = lines
	p.Add(grid)
	for i := range c.series {
		if err := c.addSeries(p, i); err != nil {
			return nil, err
		}
	}
	c.setX(&p.X)
	c.setY(&p.Y, rows, widest)
	return p, nil
}

// addSeries draws the bars of a series, and their medians after the longest one.
func (c chart) addSeries(p *plot.Plot, i int) error {
	var end float64
	var medians []string
	for j, key := range c.metrics {
		rounds := c.series[i].values(key)
		at := plotter.XY{X: median(rounds), Y: c.middle(i, j)}
		if err := errors.Join(c.addBar(p, at, c.colour(i, j)), addSpread(p, at, rounds)); err != nil {
			return err
		}
		end = max(end, slices.Max(rounds))
		medians = append(medians, metricOf(key).show(at.X))
	}
	return addValue(p, plotter.XY{X: end, Y: float64(i)}, strings.Join(medians, " · "))
}

// thickness returns the thickness of a bar with the gap to the next one.
func (c chart) thickness() float64 { return barsHeight / float64(len(c.metrics)) }

// middle returns the position of the bar of a metric. The distance between two series is 1.
func (c chart) middle(series, metric int) float64 {
	above := float64(metric) - float64(len(c.metrics)-1)/2
	return float64(series) + above*c.thickness()/rowHeight
}

func (c chart) addBar(p *plot.Plot, end plotter.XY, fill color.Color) error {
	bar, err := plotter.NewBarChart(plotter.Values{end.X}, vg.Length(c.thickness()-0.5))
	if err != nil {
		return err
	}
	bar.Horizontal, bar.XMin = true, end.Y
	bar.Color, bar.LineStyle.Width = fill, 0
	p.Add(bar)
	return nil
}

// addSpread draws a line from the least to the largest value.
func addSpread(p *plot.Plot, median plotter.XY, rounds []float64) error {
	line, err := plotter.NewXErrorBars(struct {
		plotter.XYs
		plotter.XErrors
	}{
		plotter.XYs{median},
		plotter.XErrors{{Low: median.X - slices.Min(rounds), High: slices.Max(rounds) - median.X}},
	})
	if err != nil {
		return err
	}
	line.Color, line.Width, line.CapWidth = shade, 0.75, 0
	p.Add(line)
	return nil
}

func addValue(p *plot.Plot, at plotter.XY, text string) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{at}, Labels: []string{text}})
	if err != nil {
		return err
	}
	s := style(textSize, ink)
	s.YAlign = draw.YCenter
	labels.TextStyle[0] = s
	labels.Offset = vg.Point{X: 4, Y: s.FontExtents().Descent} // aligned with the name, which gonum raises as much
	p.Add(labels)
	return nil
}

// setX shows an axis only for decades. Otherwise the values beside the bars are enough.
func (c chart) setX(x *plot.Axis) {
	least, most := c.extremes()
	x.Min, x.Max = 0, cmp.Or(most, 1)/reach
	var ticks plot.ConstantTicks
	if c.log && 0 < least && least < most {
		x.Scale = decades{}
		x.Min = math.Pow10(int(math.Floor(math.Log10(least))))
		x.Max = x.Min * math.Pow(most/x.Min, 1/reach)
		for at := x.Min; at <= most; at *= 10 {
			ticks = append(ticks, plot.Tick{Value: at, Label: metricOf(c.metrics[0]).show(at)})
		}
	}
	x.Padding = 2
	setTicks(x, ticks, style(textSize-1.5, faint))
	x.Tick.Label.XAlign, x.Tick.Label.YAlign = draw.XCenter, draw.YTop
}

// setY puts the first series at the top, and leaves the rest of the rows empty.
func (c chart) setY(y *plot.Axis, rows int, widest string) {
	y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	y.Min, y.Max = -0.5, float64(rows)-0.5
	ticks := plot.ConstantTicks{{Value: float64(rows), Label: widest}} // beyond Max, so it is not drawn: it only reserves room
	for i, x := range c.series {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: x.Label})
	}
	y.Padding = 11 // in a font wider than that of gonum, a name ends further right
	setTicks(y, ticks, style(textSize, ink))
	y.Tick.Label.XAlign, y.Tick.Label.YAlign = draw.XRight, draw.YCenter
}

// setTicks sets ticks that are texts without lines.
func setTicks(a *plot.Axis, ticks plot.ConstantTicks, s draw.TextStyle) {
	a.Width, a.Tick.Width = 0, 0
	a.Tick.Marker, a.Tick.Label = ticks, s
}

// extremes returns the least and the largest value of all rounds.
func (c chart) extremes() (least, most float64) {
	var all []float64
	for _, x := range c.series {
		for _, key := range c.metrics {
			all = append(all, x.values(key)...)
		}
	}
	return slices.Min(all), slices.Max(all)
}

// decades is a log scale for bars. Bars begin at 0, which has no logarithm, so they are drawn from the edge.
type decades struct{ plot.LogScale }

func (d decades) Normalize(least, most, x float64) float64 {
	return d.LogScale.Normalize(least, most, max(least, x))
}

// style returns a style with the font of gonum, so that the width of texts is known.
func style(size vg.Length, c color.Color) draw.TextStyle {
	f := plot.DefaultFont
	f.Variant, f.Size = "Sans", size
	return draw.TextStyle{Font: f, Color: c, Handler: plot.DefaultTextHandler}
}

// colour returns the colour of a bar. fairsem has its own colours.
func (c chart) colour(series, metric int) color.Color {
	colours := theirColours
	if c.ours || strings.HasPrefix(c.series[series].Label, fair) {
		colours = ourColours
	}
	return colours[min(metric, len(colours)-1)]
}
