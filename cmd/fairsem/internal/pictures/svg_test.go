package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var small = size{20, 3}

// Captured lines go on with the style of the line before; drawn alone, each must have its own.
func TestLineHasTheStyleInWhichTheLineBeforeEnded(t *testing.T) {
	t.Parallel()
	all := small.lines("\x1b[1mbold\n\x1b[32mgreen\x1b[0m\nplain")
	assert.Contains(t, drawLine(all[1]), `fill="#3fb950" font-weight="bold">green<`)
	assert.NotContains(t, drawLine(all[2]), "font-weight")
}

// Blanks are where they were: a reader's font has characters of another width, and SVG makes one blank of two.
func TestTextStandsInItsColumn(t *testing.T) {
	t.Parallel()
	drawn := drawLine(small.lines("a  b c   ██ d")[0])
	for _, want := range []string{
		`<text x="0.0" textLength="8.4">a</text>`, `<text x="25.2" textLength="25.2">b c</text>`,
		`<rect x="75.6" y="-11" width="16.8"`, `<text x="100.8" textLength="8.4">d</text>`,
	} {
		assert.Contains(t, drawn, want)
	}
}

func TestReversedTextStandsOnItsColour(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `<rect x="0.0" y="-13" width="25.2" height="17" fill="#c9d1d9"/><text x="8.4" textLength="8.4" fill="#0d1117">a</text>`,
		drawLine(small.lines("\x1b[7m a \x1b[0m")[0]))
}

func TestColoursAreThoseOfTheTerminal(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"31": palette[1], "96": palette[14], "38;5;9": palette[9], "38;5;21": "rgb(0,0,255)", "38;5;232": "rgb(8,8,8)",
		"38;2;1;2;3": "rgb(1,2,3)", "31;39": "", "31;0": "", "": "",
	} {
		drawn := drawLine(small.lines("\x1b[35;" + code + "mx")[0])
		assert.Equal(t, want != "", strings.Contains(drawn, `fill="`), code)
		assert.Contains(t, drawn, want, code)
	}
}

func TestPicturesAreWellFormedWhateverIsOnTheScreen(t *testing.T) {
	t.Parallel()
	frames := []frame{{0, "$ <&\">'"}, {time.Second, "\x1b[7m<\x1b[0m █ &amp;"}, {2 * time.Second, "$ <&\">'"}}
	for _, picture := range [][]byte{still("a title", small, frames[1].screen), film("a title", small, frames)} {
		decoder := xml.NewDecoder(strings.NewReader(string(picture)))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, "%s", picture)
		}
	}
	assert.Equal(t, 1, strings.Count(string(film("a title", small, frames)), "&lt;&amp;"), "a line that comes twice is there once")
}

// A recording is one JSON value a line, and draws the changes.
func TestRecordingDrawsWhatHasChanged(t *testing.T) {
	t.Parallel()
	frames := []frame{{0, "one\ntwo"}, {1500 * time.Millisecond, "one\nTWO"}}
	all := strings.Split(strings.TrimSpace(string(cast("a title", small, frames))), "\n")
	require.Len(t, all, 4)
	assert.JSONEq(t, `{"version": 2, "width": 20, "height": 3, "title": "a title"}`, all[0])
	var event []any
	require.NoError(t, json.Unmarshal([]byte(all[2]), &event))
	assert.Equal(t, []any{1.5, "o", "\x1b[2;1H\x1b[0mTWO\x1b[0m\x1b[K"}, event)
}
