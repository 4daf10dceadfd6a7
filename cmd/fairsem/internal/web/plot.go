package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// plot is drawn in a box of plotWidth by plotHeight. A library for plots would bring colours and style attributes
// of its own: these lines take their colours from the page, light or dark, and the page allows no inline style.
// They consist of numbers only, whatever a name is made of.
type plot struct {
	Area, Edge, Limit string // SVG paths
	Top               int64  // the value at the upper edge
	Peak              int64  // the largest value
}

const (
	plotWidth  = 600
	plotHeight = 100
)

// column represents all points of a short time.
type column struct {
	at           time.Time
	value, limit int64 // the largest value and the last limit
}

// columns makes at most so many of the points. Their edges do not depend on now, so a plot moves without a flicker.
func columns(points []point, most int, value func(point) int64) []column {
	width := window / time.Duration(most)
	var all []column
	for _, p := range points {
		at := p.at.Truncate(width)
		if n := len(all); n > 0 && all[n-1].at.Equal(at) {
			all[n-1].value = max(all[n-1].value, value(p))
			all[n-1].limit = p.limit
			continue
		}
		all = append(all, column{at, value(p), p.limit})
	}
	return all
}

// draw plots the values, and the limit if limited. gap is the time after which nothing is known.
func draw(all []column, now time.Time, gap time.Duration, limited bool) plot {
	p := plot{Top: 1}
	for _, c := range all {
		p.Peak = max(p.Peak, c.value)
		p.Top = max(p.Top, c.value)
		if limited {
			p.Top = max(p.Top, c.limit)
		}
	}
	var area, edge, limit strings.Builder
	for len(all) > 0 {
		n := unbroken(all, gap)
		end := now
		if n < len(all) {
			end = all[n-1].at.Add(gap / 2)
		}
		stairs := p.stairs(all[:n], now, end, func(c column) int64 { return c.value })
		edge.WriteString(stairs)
		fmt.Fprintf(&area, "%sV%dH%sZ", stairs, plotHeight, across(all[0].at, now))
		if limited {
			limit.WriteString(p.stairs(all[:n], now, end, func(c column) int64 { return c.limit }))
		}
		all = all[n:]
	}
	p.Area, p.Edge, p.Limit = area.String(), edge.String(), limit.String()
	return p
}

// unbroken is how many columns follow each other without a gap.
func unbroken(all []column, gap time.Duration) int {
	n := 1
	for n < len(all) && all[n].at.Sub(all[n-1].at) <= gap {
		n++
	}
	return n
}

// stairs draws a value that is assumed to be constant between two polls.
func (p *plot) stairs(all []column, now, end time.Time, value func(column) int64) string {
	y := func(c column) string {
		return decimal(plotHeight * (1 - float64(value(c))/float64(p.Top)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %s", across(all[0].at, now), y(all[0]))
	for i, c := range all[1:] {
		if above := y(c); above != y(all[i]) {
			fmt.Fprintf(&b, "H%sV%s", across(c.at, now), above)
		}
	}
	b.WriteString("H" + across(end, now))
	return b.String()
}

// across is where a moment is between the left edge and now.
func across(at, now time.Time) string {
	x := plotWidth * (1 - float64(now.Sub(at))/float64(window))
	return decimal(min(max(x, 0), plotWidth))
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
