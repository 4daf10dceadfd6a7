package main

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/image/font"
	"gonum.org/v1/plot/vg"
)

// picture is the content of an overview.
type picture struct {
	ViewBox string  `xml:"viewBox,attr"`
	Texts   []label `xml:"g>text"`
	Paths   []struct {
		D     string `xml:"d,attr"`
		Style string `xml:"style,attr"`
	} `xml:"g>path"`
}

type label struct {
	Text  string  `xml:",chardata"`
	X     float64 `xml:"x,attr"`
	Y     float64 `xml:"y,attr"` // of the baseline; the lower edge is 0, and positions above it are negative
	Style string  `xml:"style,attr"`
}

func drawOverview(t *testing.T, sections ...*section) picture {
	t.Helper()
	raw, err := overview(report{Sections: sections})
	require.NoError(t, err)
	assert.NotRegexp(t, "NaN|Inf", string(raw))
	var p picture
	require.NoError(t, xml.Unmarshal(raw, &p))
	return p
}

func (p picture) texts() []string {
	var all []string
	for _, l := range p.Texts {
		all = append(all, l.Text)
	}
	return all
}

// bars returns the lengths of the bars of a colour, from top to bottom.
func (p picture) bars(t *testing.T, colour string) []float64 {
	t.Helper()
	var all []float64
	for _, path := range p.Paths {
		if path.Style == "fill:"+colour {
			var from, to, y float64
			_, err := fmt.Sscanf(path.D, "M%f,%fL%f,%fL%f,", &from, &y, &from, &y, &to)
			require.NoError(t, err)
			all = append(all, to-from)
		}
	}
	return all
}

// box returns the rectangle of a text in the font with which gonum measures.
func (l label) box(t *testing.T) vg.Rectangle {
	t.Helper()
	_, rest, _ := strings.Cut(l.Style, "font-size:")
	digits, _, _ := strings.Cut(rest, "px")
	size, err := strconv.ParseFloat(digits, 64)
	require.NoError(t, err)
	s := style(vg.Length(size), ink)
	if strings.Contains(l.Style, "font-weight:bold") {
		s.Font.Weight = font.WeightBold
	}
	at := vg.Point{X: vg.Length(l.X), Y: vg.Length(-l.Y)}
	return vg.Rectangle{Min: at.Sub(vg.Point{Y: s.FontExtents().Descent}), Max: at.Add(vg.Point{X: s.Width(l.Text), Y: s.Font.Size * 0.75})}
}

// waitSection returns a section with p50 and p99.
func waitSection(name string) *section {
	s := &section{Name: name}
	s.add(fair, figures{"rate": 8000, "p50": 0.01, "p99": 0.02})
	s.add(nodes, figures{"rate": 9000, "p50": 0.0001, "p99": 1})
	return s
}

func TestOverviewShowsContendersWithTheirMedians(t *testing.T) {
	p := drawOverview(t, sampleSection(), waitSection("limit 4"))
	for _, text := range []string{
		"256 goroutines, uncontended: pairs per second", "700", "125", redislocks,
		"Limit 4: wait, p50 and p99 (log)", "10.0 ms · 20.0 ms", "100 µs · 1.00 s", "8000", "9000", nodes,
	} {
		assert.Contains(t, p.texts(), text)
	}
	assert.Len(t, p.bars(t, "#2563EB"), 3, "fairsem has its own colour")
	assert.Len(t, p.bars(t, "#94A3B8"), 3)
}

func TestPanelsAndSeriesWithoutFiguresAreLeftOut(t *testing.T) {
	half := waitSection("limit 1")
	half.add(redsyncs, figures{"p50": 0.001})
	texts := drawOverview(t, sampleSection(), half).texts()
	for _, p := range panels() {
		measured := p.section == "256" && p.metrics[0] == "rate" || p.section == "limit 1"
		assert.Equal(t, measured, strings.Contains(strings.Join(texts, "\n"), p.title), p.title)
	}
	assert.NotContains(t, texts, redsyncs)
}

func TestBarsAreAsLongAsTheirMediansOrAsTheirDecades(t *testing.T) {
	p := drawOverview(t, sampleSection())
	assert.InEpsilon(t, 700.0/125, p.bars(t, "#2563EB")[0]/p.bars(t, "#94A3B8")[0], 0.01)
	s := &section{Name: "handoff"}
	s.add(fair, figures{"p50": 0.001, "p99": 0.1})
	s.add(nodes, figures{"p50": 0.0001, "p99": 1})
	p = drawOverview(t, s)
	assert.InEpsilon(t, 3, p.bars(t, "#93C5FD")[0]/p.bars(t, "#2563EB")[0], 0.01, "the scale begins at 100 µs")
	for _, decade := range []string{"100 µs", "1.00 ms", "10.0 ms", "100 ms", "1.00 s"} {
		assert.Contains(t, p.texts(), decade)
	}
}

func TestTextsOfTheOverviewDoNotOverlapAndStayOnThePage(t *testing.T) {
	var sections []*section
	for _, name := range workloadNames() {
		s := waitSection(name)
		for i := range 8 {
			wait := 0.0001234 * float64(i+1)
			s.add(fmt.Sprintf("as long as a name becomes %d", i), figures{"rate": 1, "p50": wait, "p99": 0.999, "cpu": wait, "utilisation": wait, "window": wait})
		}
		sections = append(sections, s)
	}
	p := drawOverview(t, sections...)
	var left, top, width, height vg.Length
	_, err := fmt.Sscan(p.ViewBox, &left, &top, &width, &height)
	require.NoError(t, err)
	for i, l := range p.Texts {
		a := l.box(t)
		inside := a.Min.X >= 0 && a.Min.Y >= 0 && a.Max.X <= width && a.Max.Y <= height
		assert.True(t, inside, l.Text)
		for _, other := range p.Texts[i+1:] {
			b := other.box(t)
			apart := a.Max.X < b.Min.X || b.Max.X < a.Min.X || a.Max.Y < b.Min.Y || b.Max.Y < a.Min.Y
			assert.True(t, apart, "%q and %q", l.Text, other.Text)
		}
	}
}

func TestOverviewExistsWhateverWasMeasured(t *testing.T) {
	odd := &section{Name: "limit 1"}
	odd.add("<& odd", figures{"rate": 0, "p50": 0, "p99": 0})
	odd.add(fair, figures{"rate": 0})
	assert.Len(t, drawOverview(t).Texts, 1, "only the machine")
	assert.Contains(t, drawOverview(t, odd).texts(), "<& odd")
	alike := &section{Name: "handoff"}
	alike.add(fair, figures{"p50": 0.001, "p99": 0.001})
	assert.Contains(t, drawOverview(t, alike).texts(), "1.00 ms · 1.00 ms")
}
