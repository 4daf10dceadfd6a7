package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// onStage is a terminal of 80 by 24 on which a line of shell has begun.
func onStage(t *testing.T, line string) *tmux {
	t.Helper()
	x := newTmux(t, 80, 24)
	x.enter("clear; " + line)
	return x
}

// inQueue are a worker's place and the number of places that it came up, on a screen.
func inQueue(screen string) map[string][2]int {
	places := make(map[string][2]int)
	for _, m := range regexp.MustCompile(`(\d)\. (worker \d) ■+ +(▲*)`).FindAllStringSubmatch(screen, -1) {
		place, _ := strconv.Atoi(m[1])
		places[m[2]] = [2]int{place, strings.Count(m[3], "▲")}
	}
	return places
}

// sights are the observations of a demo.
type sights struct {
	moved   bool   // a waiter, with a sign for it
	dead    string // the worker that was killed
	ranDown bool   // its lease
	back    bool   // its units, and it has gone
}

var death = regexp.MustCompile(`(worker \d)  [━╸─]+ (\d\.\d) s  │.*\n.*■┘ ✗ killed with kill -9`)

func (s *sights) learn(screens []string) {
	line, left := inQueue(""), ""
	for _, screen := range screens {
		before := line
		line = inQueue(screen)
		for who, now := range line {
			was, known := before[who]
			s.moved = s.moved || known && now[0] < was[0] && now[1] > was[1]
		}
		if m := death.FindStringSubmatch(screen); m != nil {
			s.dead = m[1]
			s.ranDown = s.ranDown || m[2] < left
			left = m[2]
		}
		if strings.Contains(screen, "its units are granted to the head of the queue") && strings.Contains(screen, "▲ moved up") {
			s.back = s.back || left != "" && !strings.Contains(screen, s.dead+"  ")
		}
	}
}

// On a busy machine not every screen is seen.
func TestOnATerminalTheQueueMovesUpAndTheDeadWorkersUnitsAreGranted(t *testing.T) {
	t.Parallel()
	var saw sights
	for range 5 {
		screens := onStage(t, "fairsem demo --for 4s; echo code=$?").watch(`code=\d`)
		end := screens[len(screens)-1]
		assert.Contains(t, end, "What was checked")
		assert.Contains(t, end, " of 5 promises held.") // there may be one that a busy machine does not keep
		assert.NotContains(t, end, "▲ moved up", "the picture is gone")
		if saw.learn(screens); saw.moved && saw.ranDown && saw.back {
			return
		}
	}
	assert.Fail(t, "not all was seen", "%+v", saw)
}

func TestCtrlCLeavesTheTerminalAsItWasAndNoWorker(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{
		"at the start":      `fairsem demo  7 processes`,
		"while a line is":   `2\. worker \d`,
		"while one is dead": `✗ 1 killed`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := onStage(t, "a=$(stty -g); fairsem demo --for 10s")
			x.awaitLike(moment)
			workers := x.workers()
			require.NotEmpty(t, workers)
			x.press("C-c")
			x.enterNext(`echo code=$?; test "$(stty -g)" = "$a" && echo same || echo other`)
			end := x.awaitLike(`code=\d+\n(same|other)`)
			assert.Contains(t, end, "code=130\nsame")
			assert.NotContains(t, end, "▲ moved up", "the picture is gone")
			for _, worker := range workers {
				assert.False(t, exists(worker), "the demo ended before worker %d", worker)
			}
		})
	}
}

// workers are the processes that the demo has started.
func (x *tmux) workers() []int {
	x.t.Helper()
	shell, err := strconv.Atoi(strings.TrimSpace(x.run("display-message", "-p", "#{pane_pid}")))
	require.NoError(x.t, err)
	demos := children(x.t, shell)
	require.Len(x.t, demos, 1)
	return children(x.t, demos[0])
}

func TestThePictureFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	x := onStage(t, "fairsem demo --for 1h")
	x.awaitLike(`queue: first come, first served\n`)
	for _, width := range []int{60, 40, 100} {
		x.resize(width, 20)
		x.awaitLike(fmt.Sprintf(`(?m)^ fairsem demo.{%d} s$`, min(width-1, 87)-len(" fairsem demo s")))
	}
	x.press("C-c")
	x.enterNext("echo code=$?")
	x.await("code=130")
}
