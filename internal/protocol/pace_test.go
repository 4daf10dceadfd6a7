package protocol

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// marks are two moments, as durations from now, and the number of grants until each.
type marks struct{ markedAt, marked, beforeAt, before string }

func (l *lab) mark(m marks) {
	l.t.Helper()
	now := l.now()
	for field, value := range map[string]string{"marked_at": m.markedAt, "marked": m.marked, "before_at": m.beforeAt, "before": m.before} {
		if value == "" {
			continue
		}
		if d, err := time.ParseDuration(value); err == nil {
			value = strconv.FormatInt(now.Add(d).UnixMicro(), 10)
		}
		require.NoError(l.t, l.rdb.HSet(background, l.keys[5], field, value).Err())
	}
}

func (l *lab) marks() marks {
	l.t.Helper()
	now, meta := l.now(), l.rdb.HGetAll(background, l.keys[5]).Val()
	m := marks{marked: meta["marked"], before: meta["before"]}
	for field, at := range map[string]*string{"marked_at": &m.markedAt, "before_at": &m.beforeAt} {
		if us, err := strconv.ParseInt(meta[field], 10, 64); err == nil {
			*at = seconds(time.UnixMicro(us).Sub(now))
		}
	}
	return m
}

// withinASecond does something until it took less than a second, after which a mark is due again.
func withinASecond(do func()) {
	for {
		began := time.Now()
		if do(); time.Since(began) < time.Second {
			return
		}
	}
}

func TestGrantsAreMarkedWhileCallsWaitAndAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	const meta = " | meta declared=1 layout=2 since=7 until=80s granted=5"
	const idle = "owner you:1=5 | timeout you:1=20s" + meta
	const busy = "owner you:1=5 | queue you:2=6 you:3=7 | timeout you:1=20s you:2=20s you:3=20s" + meta
	for name, c := range map[string]struct {
		seed         string
		before, want marks
		release      bool // else a call joins the queue
	}{
		"a queue forms":                          {seed: idle, want: marks{markedAt: "0s", marked: "5"}},
		"a queue forms again":                    {seed: idle, before: marks{"-30s", "3", "-40s", "2"}, want: marks{markedAt: "0s", marked: "5"}},
		"a call joins a queue":                   {seed: busy, before: marks{"-30s", "3", "-40s", "2"}, want: marks{"-30s", "3", "-40s", "2"}},
		"a waiter is granted":                    {seed: busy, before: marks{"-30s", "3", "-40s", "2"}, want: marks{"0s", "6", "-30s", "3"}, release: true},
		"for the first time":                     {seed: busy, before: marks{"-30s", "5", "", ""}, want: marks{"0s", "6", "-30s", "5"}, release: true},
		"within a second of the mark":            {seed: busy, before: marks{"0s", "3", "-40s", "2"}, want: marks{"0s", "3", "-40s", "2"}, release: true},
		"a mark from the future is ignored":      {seed: busy, before: marks{"3600s", "3", "-40s", "2"}, want: marks{markedAt: "0s", marked: "6"}, release: true},
		"a mark that is not a number is ignored": {seed: busy, before: marks{"nan", "3", "-40s", "2"}, want: marks{markedAt: "0s", marked: "6"}, release: true},
		"the marks were lost, and calls waited":  {seed: busy, want: marks{markedAt: "0s", marked: "6"}, release: true},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, rdb *redis.Client) {
				var got marks
				withinASecond(func() {
					l := newLab(t, rdb)
					l.seed(c.seed)
					l.mark(c.before)
					if c.release {
						l.ask(releasing(1, 0)(l, tickets("you:1")), 1)
					} else {
						l.ask(acquiring(known(1), nil)(l, tickets("me:1")), 1)
					}
					got = l.marks()
				})
				assert.Equal(t, c.want, got)
			})
		})
	}
}

// Guards against a pause that makes the pace too low until the second mark after it.
func TestPaceStartsAnewWithALimitSetByHand(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner you:1=5 | queue you:2=6 you:3=7 | timeout you:1=20s you:2=20s you:3=20s | meta declared=1 layout=2 since=7 until=80s granted=5")
		l.mark(marks{"-30s", "3", "-40s", "2"})
		l.ask(l.space.Resize("name", LimitSpec{Limit: 1}, PinAt(1), l.now().UnixMicro()), 1)
		assert.Equal(t, marks{}, l.marks())
		l.ask(releasing(1, 0)(l, tickets("you:1")), 1)
		assert.Equal(t, marks{markedAt: "0s", marked: "6"}, l.marks())
	})
}

func TestPaceIsOfTheGrantsSinceTheOlderMark(t *testing.T) {
	t.Parallel()
	const meta = " | meta declared=1 layout=2 since=7 until=80s granted=45"
	const busy = "owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=20s" + meta
	for name, c := range map[string]struct {
		seed string
		marks
		want float64
	}{
		"two marks":               {busy, marks{"-3s", "44", "-20s", "5"}, 2},
		"one mark":                {busy, marks{"-20s", "25", "", ""}, 1},
		"of less than a second":   {busy, marks{"0s", "5", "", ""}, 0},
		"half a mark is ignored":  {busy, marks{"-20s", "25", "-40s", ""}, 1},
		"no mark":                 {busy, marks{}, 0},
		"no waiter":               {"owner you:1=5 | timeout you:1=20s" + meta, marks{"-3s", "44", "-20s", "5"}, 0},
		"all waiters are expired": {"owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=-20s" + meta, marks{"-3s", "44", "-20s", "5"}, 0},
		"more than were granted":  {busy, marks{"-3s", "99", "-20s", "98"}, 0},
		"from the future":         {busy, marks{"3600s", "1", "7200s", "1"}, 0},
		"no numbers":              {busy, marks{"nan", "1e300", "-1", "x"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, rdb *redis.Client) {
				var pace float64
				withinASecond(func() {
					l := newLab(t, rdb)
					l.seed(c.seed)
					l.mark(c.marks)
					pace = l.status(1).Pace
				})
				assert.InEpsilon(t, 1+c.want, 1+pace, 0.2)
			})
		})
	}
}
