package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

func TestABrokenPromiseIsMarkedAndShownWithItsEvidence(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	var out bytes.Buffer
	summarize(&out, "7 processes", nil, []verdict{
		newVerdict("kept", "0", true),
		newVerdict("not kept", "9", false, make([]history.Violation, 9)...),
	})
	assert.Regexp(t, `✓ kept +0`, out.String())
	assert.Regexp(t, `✗ not kept +9`, out.String())
	assert.Contains(t, out.String(), "1 of 2 promises held.")
	assert.Equal(t, 2*maxViolations, strings.Count(out.String(), "token=0"))
	assert.NotContains(t, out.String(), "\x1b")
	assert.NotContains(t, out.String(), "What to try next", "there are better things to do then")
}

func TestTheSummaryHasTheEventsAndTheNextSteps(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	var out bytes.Buffer
	events := []event{{0, "first come"}, {4000, "kill -9"}}
	summarize(&out, "7 processes", events, judge(flawless()))
	assert.Contains(t, out.String(), "  0.0 s    first come\n  4.0 s    kill -9\n")
	assert.Contains(t, out.String(), "5 of 5 promises held.")
	assert.Contains(t, out.String(), "fairsem run NAME --limit 1 --redis URL -- CMD  one CMD at a time, everywhere\n")
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, ansi.StringWidth(line), 80, line)
	}
	for _, r := range out.String() {
		assert.Less(t, r, rune(0x80))
	}
}

func TestWhatDoesNotFitBesideIsBelow(t *testing.T) {
	t.Parallel()
	s := summary{width: 20}
	s.pair("left", 10, "right")
	s.pair("left", 10, "too long a text")
	assert.Equal(t, "left      right\nleft\n      too long a text\n", s.text.String())
}

func TestTheReportOfABrokenPromiseHasItsViolations(t *testing.T) {
	t.Parallel()
	client, err := fairsem.New(redis.NewClient(&redis.Options{}), fairsem.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Close()) }()
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	began := time.Now()
	d := &demo{server: &server{address: "here"}, sem: sem, began: began, ended: began.Add(time.Second)}
	r := d.report([]verdict{
		newVerdict("kept", "0", true),
		newVerdict("not kept", "9", false, make([]history.Violation, 2)...),
	})
	assert.False(t, r.Held)
	assert.True(t, r.Promises[0].Held)
	assert.False(t, r.Promises[1].Held)
	assert.Len(t, r.Promises[1].Violations, 2)
	assert.EqualValues(t, 1000, r.TookMS)
	assert.True(t, d.report([]verdict{newVerdict("kept", "", true)}).Held)
}
