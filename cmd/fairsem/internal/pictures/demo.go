package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// frame is a screen, and when it was there first.
type frame struct {
	at     time.Duration
	screen string
}

const (
	frameEvery = 150 * time.Millisecond
	lastFrame  = 6 * time.Second // how long the end stays
)

// recordDemo writes the output of fairsem demo, as a recording for asciinema and as a picture that moves.
func recordDemo(ctx context.Context, program, out string) (err error) {
	t, err := openTerminal(size{80, 24}, program, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.enter("fairsem demo"); err != nil {
		return err
	}
	frames, err := t.film(ctx, "What to try next")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(out, "demo.cast"), cast("fairsem demo", t.size, frames), 0o644), //nolint:gosec // a picture of the repository
		os.WriteFile(filepath.Join(out, "demo.svg"), film("fairsem demo", t.size, frames), 0o644),  //nolint:gosec // the same
	)
}

// film keeps each new screen until a text is on it.
func (t *terminal) film(ctx context.Context, end string) (frames []frame, err error) {
	began := time.Now()
	for {
		screen, err := t.screen()
		if err != nil {
			return nil, err
		}
		if len(frames) == 0 && !strings.Contains(plain(screen), "fairsem demo  ") { // the program is not there yet
			began = time.Now()
			screen = "$ fairsem demo\n"
		}
		at := time.Since(began)
		if len(frames) == 0 || screen != frames[len(frames)-1].screen {
			frames = append(frames, frame{at, screen})
		}
		if strings.Contains(plain(screen), end) {
			return frames, nil
		}
		if at > patience {
			return nil, fmt.Errorf("it never shows %q:\n%s", end, screen)
		}
		if err := pause(ctx, frameEvery); err != nil {
			return nil, err
		}
	}
}

// cast is a recording in the format of asciinema, version 2. Each frame draws the lines that have changed.
func cast(title string, of size, frames []frame) []byte {
	var out bytes.Buffer
	write := func(value any) {
		line, err := json.Marshal(value)
		if err != nil {
			panic(err) // numbers and texts can be written
		}
		out.Write(append(line, '\n'))
	}
	write(map[string]any{"version": 2, "width": of.width, "height": of.height, "title": title})
	before := make([]string, of.height)
	for _, f := range frames {
		var draw strings.Builder
		for row, cells := range of.lines(f.screen) {
			if line := strings.TrimRight(cells.Render(), " "); line != before[row] {
				fmt.Fprintf(&draw, "\x1b[%d;1H\x1b[0m%s\x1b[0m\x1b[K", row+1, line)
				before[row] = line
			}
		}
		write([]any{f.at.Round(time.Millisecond).Seconds(), "o", draw.String()})
	}
	write([]any{(frames[len(frames)-1].at + lastFrame).Round(time.Millisecond).Seconds(), "o", ""})
	return out.Bytes()
}
