package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// underway is a demo in which these grants were seen.
func underway(grants ...history.Grant) *demo {
	return &demo{team: &team{grants: grants}, orderings: make(orderings)}
}

func TestTheTallyCountsWhatIsCertain(t *testing.T) {
	t.Parallel()
	done := history.Grant{ID: "a", Weight: 2, Token: 1, Granted: 10, Released: 20}
	beside := history.Grant{ID: "b", Weight: 2, Token: 2, Granted: 15, Released: 30}
	unread := beside
	unread.Released = 0
	assert.Equal(t, tally{grants: 1}, underway(done).count())
	assert.Equal(t, tally{grants: 2}, underway(done, unread).count(), "when it ended was not read yet")
	assert.Equal(t, tally{grants: 2, overLimit: 1}, underway(done, beside).count())

	d := underway(done)
	d.mostSeen = Limit + 1
	assert.Equal(t, tally{grants: 1, overLimit: 1}, d.count(), "Redis said so")

	d = underway(done, unread)
	d.orderings.add([]fairsem.Ticket{{ID: "b"}, {ID: "a"}})
	d.death = death{killed: 25}
	assert.Equal(t, tally{grants: 2, overtakes: 1, killed: 1}, d.count())
}

func TestTheDemoContinuesUntilTheUnitsAreGrantedAgain(t *testing.T) {
	t.Parallel()
	now := history.Now()
	ago := func(d time.Duration) int64 { return now - int64(d) }
	killed := death{killed: ago(3 * time.Second), gone: ago(time.Second)}
	justBack, longBack := killed, killed
	justBack.regained, longBack.regained = now, ago(2*time.Second)
	hopeless := death{killed: ago(time.Minute)}
	for name, c := range map[string]struct {
		ran   time.Duration
		death death
		want  bool
	}{
		"its length is not over":  {Length / 2, longBack, false},
		"all was shown":           {2 * Length, longBack, true},
		"the units are just back": {2 * Length, justBack, false},
		"they are not back":       {2 * Length, killed, false},
		"they do not come back":   {2 * Length, hopeless, true},
		"no worker is killed yet": {Length, death{}, false},
		"no worker can be killed": {2*Length + killGrace, death{}, true},
	} {
		d := underway()
		d.options.Length, d.began, d.death = Length, time.Now().Add(-c.ran), c.death
		assert.Equal(t, c.want, d.over(), name)
	}
}
