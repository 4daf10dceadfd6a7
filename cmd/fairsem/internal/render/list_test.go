package render

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

var listed = []fairsem.Status{
	{Name: "staging", Limit: 20, Used: 20, Waiting: 7, OldestWait: 185 * time.Second, Expired: 3},
	{Name: "a name with spaces \x1b[2J that is rather long for a terminal", Limit: 4, Used: 1},
	{Name: "stopped", Pinned: true, Used: 2, Waiting: 1},
	{Name: "calls", Limit: 100, Window: time.Minute, Pinned: true},
}

func TestATableShowsTheUseAndNotes(t *testing.T) {
	assert.Equal(t, strings.Join([]string{
		`NAME                                        USED  WAITING  OLDEST  EXPIRED  NOTE`,
		`staging                       ███████████  20/20        7   3m05s        3`,
		`a name with spaces \x1b[2J …  ██░░░░░░░░░    1/4        0       -        0`,
		`stopped                       ███████████    2/0        1      0s        0  paused`,
		`calls                         ░░░░░░░░░░░  0/100        0       -        0  pinned, rate 100/1m`,
		``}, "\n"), ansi.Strip(listTable(listed, 95)))
}

// The notes were cut off, and with them what a name is: paused, pinned or a rate.
func TestOnANarrowTerminalColumnsAreLeftOutAndNeverTheNotes(t *testing.T) {
	assert.Equal(t, `NAME              USED  WAITING  OLDEST  NOTE
staging          20/20        7   3m05s
a name with sp…    1/4        0       -
stopped            2/0        1      0s  paused
calls            0/100        0       -  pinned, rate 100/1m
`, ansi.Strip(listTable(listed, 60)))
	assert.Equal(t, `NAME           USED  NOTE
staging       20/20
a name with…    1/4
stopped         2/0  paused
calls         0/100  pinned, rate 100/1m
`, ansi.Strip(listTable(listed, 40)))
}

func TestWithoutATerminalEveryRowHasTheSameFields(t *testing.T) {
	text := ansi.Strip(plainList(listed))
	var got [][]string
	for line := range strings.Lines(text) {
		got = append(got, strings.Fields(line))
	}
	assert.Equal(t, [][]string{
		{"NAME", "USED", "LIMIT", "WAITING", "OLDEST", "EXPIRED", "NOTE"},
		{"staging", "20", "20", "7", "3m05s", "3", "-"},
		{`a\x20name\x20with\x20spaces\x20\x1b[2J\x20that\x20is\x20rather\x20long\x20for\x20a\x20terminal`, "1", "4", "0", "0s", "0", "-"},
		{"stopped", "2", "0", "1", "0s", "0", "paused"},
		{"calls", "0", "100", "0", "0s", "0", "pinned,rate:100/1m"},
	}, got)
}

// A name with an escape looked like one with a backslash.
func TestNoTwoNamesLookTheSame(t *testing.T) {
	var all []fairsem.Status
	for _, name := range []string{"a b", `a\x20b`, "a\x1bb", `a\x1bb`, `a\\x1bb`, "a\xffb", `a\xffb`} {
		all = append(all, fairsem.Status{Name: name})
	}
	for _, width := range []int{0, 95} {
		seen := make(map[string]bool)
		for line := range strings.Lines(ansi.Strip(List(all, width))) {
			seen[line] = true
		}
		assert.Len(t, seen, 1+len(all), "the heading, and a row for each: %q", seen)
	}
	assert.Contains(t, List(all, 0), `a\\x20b`)
}

func TestTheBarIsGreenWithRoomAndYellowWithout(t *testing.T) {
	assert.Contains(t, bar(listed[1], 4), "\x1b[32m█░░░")
	for _, s := range []fairsem.Status{listed[0], listed[2], {Limit: 2, Used: 3}} {
		assert.Contains(t, bar(s, 4), "\x1b[33m████")
	}
}
