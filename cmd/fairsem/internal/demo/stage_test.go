package demo

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// shown is who is drawn at each place, "-" for nobody.
func shown(s *stage, now time.Time) (all string) {
	for _, a := range s.line(now) {
		if a == nil {
			all += "-"
			continue
		}
		all += a.ID
	}
	return all
}

func TestAGapGoesThroughTheLineFromTheFrontToTheBack(t *testing.T) {
	t.Parallel()
	line := []fairsem.Ticket{ticket(1, 1), ticket(2, 1), ticket(3, 1), ticket(4, 1)}
	s, _ := staged(moment(nil, line))
	now := noon.Add(time.Second)
	s.update(moment(line[:1], line[1:]), now)
	for _, want := range []string{"2-34--", "23-4--", "234---", "234---"} {
		assert.Equal(t, want, shown(s, now))
		now = now.Add(stepTime)
	}
}

func TestWhoComesWaitsForThePlaceToBeFree(t *testing.T) {
	t.Parallel()
	line := []fairsem.Ticket{ticket(1, 1), ticket(2, 1), ticket(3, 1)}
	s, _ := staged(moment(nil, line))
	now := noon.Add(time.Second)
	s.update(moment(line[:1], append(line[1:], ticket(4, 1))), now)
	for _, want := range []string{"2-3---", "23----", "234---"} {
		assert.Equal(t, want, shown(s, now))
		now = now.Add(stepTime)
	}
}

// Whatever happens while things still move, nobody is drawn over or before another.
func TestTheLineIsDrawnInItsOrderAtEveryMoment(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s, now, next := &stage{}, noon, 0
		var line []fairsem.Ticket
		for range 60 {
			now = now.Add(rand.N(3 * stepTime))
			for range min(len(line), rng.IntN(3)) {
				at := 0
				if rng.IntN(4) == 0 { // somebody in the middle gives up
					at = rng.IntN(len(line))
				}
				line = append(line[:at:at], line[at+1:]...)
			}
			for len(line) < Workers-1 && rng.IntN(2) == 0 {
				line = append(line, ticket(next, 1))
				next++
			}
			s.update(moment(nil, line), now)
			requireOrder(t, s, now)
		}
		settled := s.line(now.Add(Workers * stepTime))
		for i, w := range line {
			require.NotNil(t, settled[i])
			require.Equal(t, w.ID, settled[i].ID)
		}
	}
}

func requireOrder(t *testing.T, s *stage, now time.Time) {
	t.Helper()
	for range Workers + 1 {
		last := 0
		for _, w := range s.Waiters {
			position := s.actors[w.ID].drawn(now)
			if position == 0 {
				continue
			}
			require.Greater(t, position, last, "%s", w.ID)
			last = position
		}
		now = now.Add(stepTime / 2)
	}
}

func TestHoldersKeepTheirUnitsUntilTheyGo(t *testing.T) {
	t.Parallel()
	one, two, three, four := ticket(1, 1), ticket(2, 1), ticket(3, 1), ticket(4, 2)
	s, _ := staged(moment([]fairsem.Ticket{one, two, three}, nil))
	assert.Equal(t, [Limit]string{"1", "2", "3"}, s.slots)
	s.update(moment([]fairsem.Ticket{two, three}, nil), noon)
	assert.Equal(t, [Limit]string{"", "2", "3"}, s.slots, "nobody else moves")
	s.update(moment([]fairsem.Ticket{two}, nil), noon)
	s.update(moment([]fairsem.Ticket{two, four}, nil), noon)
	assert.Equal(t, [Limit]string{"2", "4", "4"}, s.slots, "two units of one holder are side by side")
}

func TestMoreThanFitsIsNoReasonToFall(t *testing.T) {
	t.Parallel()
	s, now := staged(moment([]fairsem.Ticket{ticket(1, 2), ticket(2, 2), ticket(3, 9), ticket(4, 1)}, nil))
	assert.Equal(t, [Limit]string{"1", "1", "2"}, s.slots)
	assert.Contains(t, seen(s, now), "14 of 3 units in use")
}

func TestWhoWaitedIsAPersonAlsoWhenRedisForgetsTheLabel(t *testing.T) {
	t.Parallel()
	nameless := ticket(1, 1)
	nameless.Label = ""
	s, now := staged(moment(nil, []fairsem.Ticket{ticket(1, 1)}), moment([]fairsem.Ticket{nameless}, nil))
	assert.Contains(t, seen(s, now), "worker 1")
}
