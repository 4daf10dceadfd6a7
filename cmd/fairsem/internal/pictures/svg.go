package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"image/color"
	"regexp"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
)

// Screens become SVG: text that stays sharp and small. Each run of characters of one style is as wide as its cells, whatever
// font a reader has.

const (
	cellWidth  = 8.4
	cellHeight = 17
	margin     = 14
	bar        = 30 // with the title
)

// The colours 0 to 15 of a terminal, on a dark page.
var palette = [16]string{
	"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
}

const (
	page = "#0d1117"
	ink  = "#c9d1d9"
)

var phrase = regexp.MustCompile(`█+|[^ █]+( [^ █]+)*`)

// plain is a screen without colours.
func plain(screen string) string { return ansi.Strip(screen) }

// lines are those of a screen. Each has its own style: tmux goes on with that of the line before.
func (of size) lines(screen string) []uv.Line {
	buffer := uv.NewScreenBuffer(of.width, of.height)
	uv.NewStyledString(screen).Draw(buffer, buffer.Bounds())
	return buffer.Lines
}

// css is a colour of a terminal; "" is that of the page.
func css(c color.Color) string {
	switch c := c.(type) {
	case nil:
		return ""
	case ansi.BasicColor:
		return palette[c]
	case ansi.IndexedColor:
		if int(c) < len(palette) {
			return palette[c]
		}
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("rgb(%d,%d,%d)", r>>8, g>>8, b>>8)
}

// drawLine writes one line of a screen.
func drawLine(line uv.Line) string {
	var out strings.Builder
	for column, next := 0, 0; column < len(line); column = next {
		style, text := line[column].Style, ""
		for next = column; next < len(line) && line[next].Style.Equal(&style); next++ {
			text += line[next].Content
		}
		colour := css(style.Fg)
		if style.Attrs&uv.AttrReverse != 0 {
			fmt.Fprintf(&out, `<rect x="%.1f" y="-13" width="%.1f" height="%d" fill="%s"/>`,
				float64(column)*cellWidth, float64(next-column)*cellWidth, cellHeight, cmp.Or(colour, ink))
			colour = page
		}
		for _, at := range phrase.FindAllStringIndex(text, -1) { // two blanks would become one
			drawRun(&out, column+ansi.StringWidth(text[:at[0]]), text[at[0]:at[1]], colour, style)
		}
	}
	return out.String()
}

func drawRun(out *strings.Builder, column int, text, colour string, s uv.Style) {
	x, wide := float64(column)*cellWidth, float64(ansi.StringWidth(text))*cellWidth
	if strings.HasPrefix(text, "█") { // glyphs would leave gaps between columns; those between lines part the bars
		fmt.Fprintf(out, `<rect x="%.1f" y="-11" width="%.1f" height="%d" fill="%s"/>`, x, wide, cellHeight-4, cmp.Or(colour, ink))
		return
	}
	fmt.Fprintf(out, `<text x="%.1f" textLength="%.1f"`, x, wide)
	if colour != "" {
		fmt.Fprintf(out, ` fill="%s"`, colour)
	}
	if s.Attrs&uv.AttrBold != 0 {
		out.WriteString(` font-weight="bold"`)
	}
	if s.Attrs&uv.AttrFaint != 0 {
		out.WriteString(` opacity=".6"`)
	}
	if s.Underline != ansi.UnderlineNone {
		out.WriteString(` text-decoration="underline"`)
	}
	out.WriteString(">" + html.EscapeString(text) + "</text>")
}

// frameOf writes the window and its contents.
func frameOf(title string, of size, inside string) []byte {
	inner := float64(of.width) * cellWidth
	w, h := inner+2*margin, of.height*cellHeight+bar+margin
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" aria-label="%s">`+"\n",
		w, h, w, h, title)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", page)
	for i, colour := range []string{"#ff5f56", "#ffbd2e", "#27c93f"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="15" r="5.5" fill="%s"/>`, 20+18*i, colour)
	}
	fmt.Fprintf(&out, "\n"+`<svg x="%d" y="%d" width="%.0f" height="%d" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" `+
		`font-size="14" fill="%s">`+"\n%s</svg>\n</svg>\n", margin, bar, inner, of.height*cellHeight, ink, inside)
	return out.Bytes()
}

// still is the picture of one screen.
func still(title string, of size, screen string) []byte {
	var out strings.Builder
	for row, line := range of.lines(screen) {
		if drawn := drawLine(line); drawn != "" {
			fmt.Fprintf(&out, `<g transform="translate(0,%d)">%s</g>`+"\n", 13+row*cellHeight, drawn)
		}
	}
	return frameOf(title, of, out.String())
}

// film is a picture that moves: all frames stand below each other, and the window shows one after the other. Lines that frames
// share are there once.
func film(title string, of size, frames []frame) []byte {
	var known, rolls, steps strings.Builder
	ids := make(map[string]int)
	total := frames[len(frames)-1].at + lastFrame
	for n, f := range frames {
		fmt.Fprintf(&steps, "%.3f%%{transform:translateY(%dpx)}", 100*share(f.at, total), -n*of.height*cellHeight)
		for row, line := range of.lines(f.screen) {
			drawn := drawLine(line)
			if drawn == "" {
				continue
			}
			id, there := ids[drawn]
			if !there {
				id = len(ids)
				ids[drawn] = id
				fmt.Fprintf(&known, `<g id="l%d">%s</g>`+"\n", id, drawn)
			}
			fmt.Fprintf(&rolls, `<use href="#l%d" y="%d"/>`, id, n*of.height*cellHeight+13+row*cellHeight)
		}
		rolls.WriteByte('\n')
	}
	return frameOf(title, of, fmt.Sprintf("<style>@keyframes f{%s}.f{animation:f %.2fs step-end infinite}</style>\n<defs>\n%s</defs>\n<g class=\"f\">\n%s</g>\n",
		steps.String(), total.Seconds(), known.String(), rolls.String()))
}

func share(part, whole time.Duration) float64 { return float64(part) / float64(whole) }
