package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// noon is when the tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// ticket is worker n's, whose id is its number.
func ticket(n int, weight int64) fairsem.Ticket {
	return fairsem.Ticket{ID: fmt.Sprint(n), Label: fmt.Sprintf("worker %d", n), Weight: weight, ExpiresIn: ttl}
}

// moment is a frame with holders and waiters.
func moment(holders, waiters []fairsem.Ticket) frame {
	f := frame{place: "demo-0123456789ab on Redis at " + strings.Repeat("far.away.", 20), elapsed: 1234 * time.Second}
	f.Holders, f.Waiters = holders, waiters
	f.events = []event{{0, "a line forms"}}
	return f
}

// crowded is a frame with as much in it as there can be.
func crowded() frame {
	f := moment([]fairsem.Ticket{ticket(7, 2), ticket(1, 1)}, nil)
	for i := range Workers - 1 {
		f.Waiters = append(f.Waiters, ticket(i+1, 2))
		f.Waiters[i].ID += " waits"
	}
	f.dead = "7"
	f.tally = tally{grants: 99999, overLimit: 99, overtakes: 99, killed: 1}
	f.events = []event{{0, strings.Repeat("long ", longest/5)}, {1000, "kill -9 worker 7"}, {3_600_000, "its units are granted to the head of the queue"}}
	return f
}

// sceneOf is a scene on which these frames came, one a second; the time is that of the last.
func sceneOf(frames ...frame) (*scene, time.Time) {
	s, now := &scene{}, noon
	for i, f := range frames {
		now = noon.Add(time.Duration(i) * time.Second)
		s.update(f, now)
	}
	return s, now
}

// seen is the text on a terminal of 80 by 24.
func seen(s *scene, now time.Time) string { return ansi.Strip(s.render(now, 80, 24, fine)) }

// rowOf is the first row that contains the text.
func rowOf(t *testing.T, picture, text string) string {
	t.Helper()
	for row := range strings.Lines(picture) {
		if strings.Contains(row, text) {
			return row
		}
	}
	require.Fail(t, "no such row", "%q in\n%s", text, picture)
	return ""
}

func TestAPictureNeverExceedsTheTerminalAndKeepsItsHeight(t *testing.T) {
	t.Parallel()
	full, now := sceneOf(moment(nil, crowded().Waiters), crowded())
	empty, _ := sceneOf()
	halfway, _ := sceneOf(moment([]fairsem.Ticket{ticket(1, 1)}, []fairsem.Ticket{ticket(3, 2), ticket(2, 1)}))
	for _, width := range []int{0, 1, 10, 22, 23, 40, 57, 58, 60, 79, 80, 200} {
		for _, height := range []int{0, 1, 8, 17, 20, 24} {
			tall := lipgloss.Height(empty.render(now, width, height, fine))
			assert.LessOrEqual(t, tall, max(1, height))
			for _, s := range []*scene{full, empty, halfway} {
				for _, g := range []glyphs{fine, coarse} {
					picture := s.render(now, width, height, g)
					require.LessOrEqual(t, lipgloss.Width(picture), width)
					require.Equal(t, tall, lipgloss.Height(picture), "%d columns, %d rows:\n%s", width, height, picture)
				}
			}
		}
	}
}

// Everything important fits the smallest of the usual terminals.
func TestNothingIsLeftOutOnSixtyByTwenty(t *testing.T) {
	t.Parallel()
	f := crowded()
	f.tally = tally{grants: 99, overLimit: 9, overtakes: 9, killed: 1}
	s, now := sceneOf(f)
	picture := ansi.Strip(s.render(now, 60, 20, fine))
	for _, want := range []string{"fairsem demo", "1234.0 s", "3 of 3 units in use", "6. worker 6", "99 grants", "✗ 1 killed",
		"✗ 9 over the limit", "✗ 9 overtakes", "kill -9 worker 7", "its units are granted to the head of the queue"} {
		assert.Contains(t, picture, want)
	}
}

func TestWithoutUTF8APictureIsASCII(t *testing.T) {
	t.Parallel()
	f := crowded()
	f.Waiters[0].Label = "wörker"
	s, now := sceneOf(moment(nil, f.Waiters), f)
	for _, width := range []int{40, 60, 80} {
		picture := s.render(now, width, 24, coarse)
		for _, r := range picture {
			require.Less(t, r, rune(0x80), picture)
		}
		assert.Contains(t, picture, "w?rker")
		assert.Contains(t, ansi.Strip(picture), "x killed with kill -9")
	}
}

func TestALabelThatIsAnOrderToTheTerminalIsText(t *testing.T) {
	t.Parallel()
	f := crowded()
	f.Holders[0].Label, f.Waiters[0].Label = "\x1b[2Jx", "a\nb\u202ec"
	f.place = "\x1b]0;title\a"
	s, now := sceneOf(moment(nil, f.Waiters), f)
	picture := s.render(now, 80, 24, fine)
	assert.NotContains(t, picture, "\x1b]")
	picture = ansi.Strip(picture)
	plain, _ := sceneOf(moment(nil, crowded().Waiters), crowded())
	assert.Equal(t, lipgloss.Height(seen(plain, now)), lipgloss.Height(picture))
	assert.NotRegexp(t, "[\x00-\x09\x0b-\x1f\u202e]", picture)
	assert.Contains(t, picture, `\x1b[2`)
}

func TestAWaiterThatMovedUpHasASignForEachPosition(t *testing.T) {
	t.Parallel()
	line := []fairsem.Ticket{ticket(1, 1), ticket(2, 2), ticket(3, 1)}
	s, now := sceneOf(moment(nil, line), moment(line[:1], line[1:]), moment(line[1:2], line[2:]))
	assert.Regexp(t, `1\. worker 3 ■  ▲▲\s*\n`, rowOf(t, seen(s, now), "worker 3"))
	assert.Contains(t, s.render(now, 80, 24, fine), "▲"+moving.Render("▲"), "the new one stands out")
	assert.NotContains(t, s.render(now.Add(fresh), 80, 24, fine), moving.Render("▲"))
}

func TestANewHolderIsMarkedForAMoment(t *testing.T) {
	t.Parallel()
	line := []fairsem.Ticket{ticket(1, 1), ticket(2, 2)}
	s, now := sceneOf(moment(line[:1], line[1:]), moment(line, nil))
	row := rowOf(t, seen(s, now), "worker 2")
	assert.Regexp(t, `│ ■┐ worker 2 .*│ ◀━┫`, row)
	assert.Contains(t, seen(s, now), "■┘ granted after 1.0 s")
	assert.Regexp(t, `│ ■  worker 1  ━+.*│   ┃`, rowOf(t, seen(s, now), "worker 1"), "who was in before is not")
	later := seen(s, now.Add(fresh))
	assert.NotContains(t, later, "◀")
	assert.NotContains(t, later, "in after")
}

func TestAHolderThatDidNotWaitWasGrantedAtOnce(t *testing.T) {
	t.Parallel()
	s, now := sceneOf(moment([]fairsem.Ticket{ticket(1, 1)}, nil))
	assert.Contains(t, rowOf(t, seen(s, now), "worker 1"), "granted at once")
}

// The lease of the dead runs down between two frames as well.
func TestTheDeadAreMarkedAndTheirLeaseRunsDown(t *testing.T) {
	t.Parallel()
	f := moment([]fairsem.Ticket{ticket(6, 2), ticket(1, 1)}, nil)
	f.dead = "6"
	s, now := sceneOf(f)
	previous := strings.Repeat("━", 99)
	for _, left := range []string{"2.0 s", "1.5 s", "1.0 s", "0.5 s", "0.0 s"} {
		row := rowOf(t, seen(s, now), "worker 6")
		assert.Contains(t, row, left+"  │")
		assert.Less(t, strings.Count(row, "━"), strings.Count(previous, "━"))
		assert.Contains(t, seen(s, now), "■┘ ✗ killed with kill -9")
		assert.Contains(t, s.render(now, 80, 24, fine), bad.Render("worker 6"))
		previous, now = row, now.Add(ttl/4)
	}
	s.update(moment([]fairsem.Ticket{ticket(1, 1)}, nil), now)
	assert.NotContains(t, seen(s, now), "worker 6")
	assert.Equal(t, 2, strings.Count(seen(s, now), "□  free"))
}

func TestAFreeUnitNamesTheWaiterThatItIsKeptFor(t *testing.T) {
	t.Parallel()
	s, now := sceneOf(moment([]fairsem.Ticket{ticket(1, 1), ticket(2, 1)}, []fairsem.Ticket{ticket(3, 2), ticket(4, 1)}))
	assert.Contains(t, seen(s, now), "□  kept for worker 3, which needs 2")
	assert.Contains(t, ansi.Strip(s.render(now, 60, 20, fine)), "□  kept for worker 3  ")

	s, now = sceneOf(moment([]fairsem.Ticket{ticket(1, 1)}, []fairsem.Ticket{ticket(3, 2)}))
	assert.Contains(t, seen(s, now), "□  free", "it is about to get them")
}

func TestWhatMustNotHappenIsMarkedIfItDoes(t *testing.T) {
	t.Parallel()
	f := moment(nil, nil)
	s, now := sceneOf(f)
	assert.Contains(t, seen(s, now), "0 grants     ✓ 0 over the limit     ✓ 0 overtakes")
	f.tally = tally{overLimit: 1, overtakes: 2}
	f.Holders = []fairsem.Ticket{ticket(1, 2), ticket(2, 2)}
	s, now = sceneOf(f)
	picture := s.render(now, 80, 24, fine)
	assert.Contains(t, picture, bad.Render("✗ 1 over the limit"))
	assert.Contains(t, picture, bad.Render("✗ 2 overtakes"))
	assert.Contains(t, picture, bad.Render("4 of 3 units in use"))
}

func TestTheStoryShowsWhatWillHappenAndThenWhatDid(t *testing.T) {
	t.Parallel()
	f := moment(nil, nil)
	s, now := sceneOf(f)
	assert.Contains(t, seen(s, now), "soon, a worker that holds 2 units is killed")
	f.events = append(f.events, event{4000, "kill -9 worker 3"})
	s, now = sceneOf(f)
	assert.NotContains(t, seen(s, now), "soon, ")
	assert.Contains(t, seen(s, now), "   4.0 s  kill -9 worker 3")
	assert.Contains(t, seen(s, now), "then, its units are granted to others")
}

func TestANarrowPictureShowsTheLatestEventOnly(t *testing.T) {
	t.Parallel()
	s, now := sceneOf(crowded())
	picture := ansi.Strip(s.render(now, 44, 24, fine))
	assert.Contains(t, picture, "its units are granted to the")
	assert.NotContains(t, picture, "kill -9 worker 7")
}

func TestTheSignsAreThoseOfTheLocale(t *testing.T) {
	for name, c := range map[string]struct {
		all, ctype, lang string
		want             glyphs
	}{
		"nothing is set":          {"", "", "", fine},
		"UTF-8":                   {"", "", "de_DE.UTF-8", fine},
		"UTF-8 by another name":   {"", "", "C.utf8", fine},
		"C":                       {"", "", "C", coarse},
		"Latin 1":                 {"", "", "de_DE.ISO-8859-1", coarse},
		"LC_ALL counts first":     {"C", "C.UTF-8", "C.UTF-8", coarse},
		"LC_CTYPE counts earlier": {"", "C.UTF-8", "C", fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("LC_ALL", c.all)
			t.Setenv("LC_CTYPE", c.ctype)
			t.Setenv("LANG", c.lang)
			assert.Equal(t, c.want.unit, signs().unit)
		})
	}
}

func TestEverythingIsDrawnOnceMoreAfterAChangeOfTheSize(t *testing.T) {
	t.Parallel()
	_, redraw := picture[frame]{drawing: &scene{}}.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	assert.Equal(t, tea.ClearScreen(), redraw())
}
