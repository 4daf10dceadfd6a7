package render

import (
	"errors"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

func crowd() inspect.Detail {
	now := time.UnixMicro(1_800_000_000_000_000)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	id := "k3X-9Q_7aZc:"
	return inspect.Detail{
		Status: fairsem.Status{Name: "stag\ting", At: now, Limit: 5, Declared: 3, Pinned: true, Used: 5, Waiting: 9, OldestWait: 65 * time.Second, Granted: 12, Expired: 1},
		Holders: []fairsem.Ticket{
			{ID: id + "1", Label: "host-1:77", Token: now.UnixMicro() - 12e6, Weight: 3, Since: ago(12 * time.Second), ExpiresIn: 8 * time.Second},
			{ID: "other \x1b[2J", Token: now.UnixMicro() + 1, Weight: 2, Since: ago(-time.Second)},
		},
		Waiters:     []fairsem.Ticket{{ID: id + "2", Label: "host-2:\a78", Weight: 5, Since: ago(65 * time.Second), ExpiresIn: 9 * time.Second}},
		MoreWaiters: 8,
	}
}

func TestANameIsShownWithHoldersAndWaiters(t *testing.T) {
	assert.Equal(t, `stag\ting
████████████████████  5/5 in use  9 waiting, the oldest for 1m05s
limit 5, set by hand; the declared limit is 3
12 granted so far, 1 expired

HOLDER     UNITS  HELD  EXPIRES             TOKEN  ID
host-1:77      3   12s     8.0s  1799999988000000  k3X-9Q:1
?              2    0s       0s  1800000000000001  'other \x1b[2J'

POSITION  WAITER       UNITS  WAITED  EXPIRES  ID
       1  host-2:\a78      5   1m05s     9.0s  k3X-9Q:2
… and 8 more: --rows shows them
`, ansi.Strip(Detail(crowd(), 80)))
}

// A newline looked like a backslash and an n, so the heading said two things.
func TestNoTwoNamesHaveTheSameHeading(t *testing.T) {
	d := crowd()
	seen := make(map[string]bool)
	for _, name := range []string{"a\nb", `a\nb`, `a\\nb`, "a\xffb", `a\xffb`} {
		d.Name = name
		heading, _, _ := strings.Cut(ansi.Strip(Detail(d, 80)), "\n")
		assert.False(t, seen[heading], heading)
		seen[heading] = true
	}
}

// The pace of a name is that of all its tenants. It says nothing about a call of one of them.
func TestExpectedWaitIsShownOnlyWhereTenantsDoNotShareTheName(t *testing.T) {
	d := crowd()
	d.Pace = 2
	assert.Contains(t, ansi.Strip(Detail(d, 120)), "; a new call would wait for about 5.0s\n")
	assert.Equal(t, int64(5000), *NewSemaphoreDetail(d).ExpectedMS)
	d.Tenants.All = []fairsem.Tenant{{Name: "acme", Share: 1, Used: 5, Holders: 2, Waiting: 9}}
	assert.Contains(t, ansi.Strip(Detail(d, 120)), "9 waiting, the oldest for 1m05s\n")
	assert.Nil(t, NewSemaphoreDetail(d).ExpectedMS)
}

func TestTenantsAreATableAndAColumnThatCanBePastedIntoAShell(t *testing.T) {
	d := crowd()
	d.Holders[0].ID += ":ac\x1bme"
	d.Holders[0].Tenant = "ac\x1bme"
	d.Tenants = inspect.Tenants{More: 3, All: []fairsem.Tenant{
		{Name: "ac\x1bme", Share: 2, Limit: 4, Used: 3, Holders: 1, Waiting: 9, OldestWait: 65 * time.Second},
		{Name: "it's\xff", Share: 1, Used: 1, Holders: 1},
		{Share: 1, Used: 1, Holders: 1},
	}}
	got := ansi.Strip(Detail(d, 80))
	assert.Contains(t, got, `
TENANT         USED  SHARE  LIMIT  WAITING  OLDEST
'ac\x1bme'        3      2      4        9   1m05s
'it'\''s\xff'     1      1      -        0       -
''                1      1      -        0       -
… and 3 more: --rows shows them

HOLDER`)
	assert.Contains(t, got, "TOKEN  TENANT      ID\n")
	assert.Contains(t, got, `1799999988000000  'ac\x1bme'  k3X-9Q:1`)
	assert.Contains(t, ansi.Strip(Detail(d, 0)), `'ac\x1bme'  k3X-9Q_7aZc:1`+"\n", "without the tenant, which has its column")
	assert.NotContains(t, got, "WAITED  EXPIRES  TENANT", "no waiter has one")
	d.Tenants.Unread = true
	assert.Contains(t, Detail(d, 0), "… and more than 3 more")
	d.Tenants = inspect.Tenants{Err: errors.New("no \x1b right")}
	assert.Contains(t, Detail(d, 0), `the tenants are not known: no \x1b right`)
}

func TestNumbersOfUnitsAreAColumn(t *testing.T) {
	d := crowd()
	d.Holders[0].Numbers = []int64{0, 1, 4}
	out := ansi.Strip(Holders(d.Holders, d.At, 0))
	assert.Regexp(t, `TOKEN  NUMBERS  ID\n.* 1799999988000000  0-1,4 `, out)
	assert.NotContains(t, Holders(crowd().Holders, d.At, 0), "NUMBERS")
}

func TestWithoutATerminalNothingIsCut(t *testing.T) {
	d := crowd()
	d.Holders[0].Label = strings.Repeat("label ", 100)
	text := ansi.Strip(Detail(d, 0))
	assert.Contains(t, text, strings.TrimSpace(d.Holders[0].Label))
	assert.Contains(t, text, d.Holders[0].ID)
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	d := crowd()
	d.Name, d.Holders[0].Label = strings.Repeat("name ", 100), strings.Repeat("日本", 100)
	for width := 1; width < 150; width += 7 {
		assert.LessOrEqual(t, lipgloss.Width(Detail(d, width)), width)
	}
}

// The lines were cut at their ends, where the ids are and what ends a pause.
func TestOnANarrowTerminalColumnsAreLeftOutAndNeverTheIDs(t *testing.T) {
	d := crowd()
	d.Holders[1].ID = "another"
	assert.Equal(t, `HOLDER     UNITS  HELD  EXPIRES  ID
host-1:77      3   12s     8.0s  k3X-9Q:1
?              2    0s       0s  another
`, ansi.Strip(Holders(d.Holders, d.At, 50)), "without the token")
	assert.Equal(t, `POSITION  WAITER       UNITS  WAITED  EXPIRES  ID
       1  host-2:\a78      5   1m05s     9.0s  k3X-9Q:2
`, ansi.Strip(Waiters(d.Waiters, nil, d.At, 60)))
	for i := range d.Holders {
		d.Holders[i].Label = strings.Repeat("label ", 9)
		d.Holders[i].Tenant = strings.Repeat("tenant", 9)
		d.Holders[i].Numbers = []int64{1, 3, 5, 7, 9, 11, 13}
	}
	assert.Equal(t, `HOLDER         HELD  NUMBERS        TENANT          ID
label label …   12s  1,3,5,7,9,11…  tenanttenantt…  k3X-9Q:1
label label …    0s  1,3,5,7,9,11…  tenanttenantt…  another
`, ansi.Strip(Holders(d.Holders, d.At, 60)))
	assert.Equal(t, `HOLDER          TENANT          ID
label label l…  tenanttenantt…  k3X-9Q:1
label label l…  tenanttenantt…  another
`, ansi.Strip(Holders(d.Holders, d.At, 40)))
}

func TestOnANarrowTerminalSentencesAreWrapped(t *testing.T) {
	d := crowd()
	d.Limit = 0
	text := ansi.Strip(Detail(d, 40))
	assert.Contains(t, text, `
████████████████████  5/0 in use  9
waiting, the oldest for 1m05s
paused: nothing is granted until it is
resumed or resized; the declared limit
is 3
12 granted so far, 1 expired
`)
}

func TestAPauseAndARateAreShown(t *testing.T) {
	d := crowd()
	d.Limit = 0
	assert.Contains(t, Detail(d, 0), "paused: nothing is granted until it is resumed or resized; the declared limit is 3")
	d.Window = time.Second
	assert.Contains(t, Detail(d, 0), "resized; the declared rate is 3/1s")
	d = crowd()
	d.Window, d.Pinned, d.Waiting = time.Second, false, 0
	assert.Contains(t, ansi.Strip(Detail(d, 0)), "no waiters\nrate 5/1s\n12 granted so far\n")
}
