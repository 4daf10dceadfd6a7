package protocol

import (
	"encoding"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clockLab is a lab on a server whose clock the test controls.
type clockLab struct {
	*lab
	server *miniredis.Miniredis
	time   time.Time
}

func newClockLab(t *testing.T) *clockLab {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	l := &clockLab{server: server, time: time.UnixMicro(1_800_000_000_000_000)}
	l.step(0)
	l.lab = newLab(t, rdb)
	return l
}

func (l *clockLab) step(d time.Duration) {
	l.time = l.time.Add(d)
	l.server.SetTime(l.time)
}

// pass lets time pass: keys expire.
func (l *clockLab) pass(d time.Duration) {
	l.step(d)
	l.server.FastForward(d)
}

func (l *lab) as(client string) CallPrefix {
	space := l.space
	space.ClientID = client
	return space.About("name")
}

// acquireOne sends an acquire of one id from a client that declares a limit.
func (l *lab) acquireOne(id string, d Declaration, t AcquireParams) Result {
	l.t.Helper()
	t.TTL = 3 * time.Hour
	return l.ask(Acquire(l.as(ClientOf(id)), d, t, tickets(id)), 1).Results[0]
}

func (l *lab) meta(field string) string { return l.rdb.HGet(background, l.keys[5], field).Val() }

// If numbers only counted up by one after a step back, every head start would be larger than any wait.
func TestNumbersAdvanceWithTimeAfterTheClockWasSteppedBack(t *testing.T) {
	t.Parallel()
	l := newClockLab(t)
	var first int64
	for i, number := range []func(id string) int64{
		func(id string) int64 { return l.acquireOne(id, declares(3, 7), AcquireParams{}).Number },
		func(id string) int64 { return l.acquireOne(id, declares(3, 7), AcquireParams{}).Number }, // the fast path
		func(id string) int64 { return l.acquireOne(id, declares(3, 7), AcquireParams{Wait: true}).Number },
		func(string) int64 { // by a promotion
			l.ask(Release(l.as("you"), known(3), 0, false, tickets("you:1")), 1)
			return int64(l.rdb.ZRevRangeWithScores(background, l.keys[0], 0, 0).Val()[0].Score)
		},
		func(id string) int64 { // with a head start
			n := l.acquireOne(id, declares(3, 7), AcquireParams{Wait: true, HeadStart: time.Minute}).Number
			return n + time.Minute.Microseconds()
		},
	} {
		if i == 0 {
			assert.Equal(t, l.time.UnixMicro(), l.acquireOne("you:1", declares(3, usedNow), AcquireParams{}).Number)
			l.step(-time.Hour)
			assert.Equal(t, Early, l.acquireOne("me:0", declares(3, 7), AcquireParams{}).State, "a new epoch starts")
			l.step(time.Second)
		}
		n := number([]string{"me:1", "me:2", "me:3", "", "me:5"}[i])
		if i == 0 {
			first = n
		}
		assert.Equal(t, first+int64(i)*10_000_000, n, "call %d", i)
		l.step(10 * time.Second)
	}
	assert.Greater(t, first, l.time.UnixMicro())
}

// The last number would be forgotten with the keys, and numbers begin anew below it.
func TestNumbersIncreaseOnANameThatWasIdleSinceTheClockWasSteppedBack(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]func(l *clockLab){
		"released after it": func(l *clockLab) {
			l.step(-time.Hour)
			l.ask(Release(l.as("you"), known(3), 0, false, tickets("you:1")), 1)
		},
		"released before it": func(l *clockLab) {
			l.ask(Release(l.as("you"), known(3), 0, false, tickets("you:1")), 1)
			l.step(-time.Hour)
			l.acquireOne("me:1", declares(3, 7), AcquireParams{})
			l.ask(Release(l.as("me"), known(3), 0, false, tickets("me:1")), 1)
		},
		"used for long after it": func(l *clockLab) {
			l.step(-4 * time.Hour)
			l.ask(Release(l.as("you"), known(3), 0, false, tickets("you:1")), 1)
			for range 8 {
				l.pass(10 * time.Minute)
				l.acquireOne("me:1", declares(3, 7), AcquireParams{})
				l.ask(Release(l.as("me"), known(3), 0, false, tickets("me:1")), 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockLab(t)
			first := l.acquireOne("you:1", declares(3, usedNow), AcquireParams{}).Number
			idle(l)
			last, err := l.rdb.Get(background, l.keys[3]).Int64()
			require.NoError(t, err)
			require.GreaterOrEqual(t, last, first)
			l.pass(30 * time.Minute)
			l.acquireOne("you:2", declares(3, usedNow), AcquireParams{}) // a grace period begins
			l.pass(2 * time.Second)
			r := l.acquireOne("you:2", declares(3, usedNow), AcquireParams{})
			require.Equal(t, Held, r.State)
			assert.Greater(t, r.Number, last)
			l.ask(Release(l.as("you"), known(3), 0, false, tickets("you:2")), 1)
			l.pass(6 * time.Hour)
			assert.Empty(t, l.server.Keys(), "once the clock has passed it, it may be forgotten")
		})
	}
}

// Its fast path changes no expiry.
func TestCounterOfARateThatIsInUseOutlivesAStepOfTheClockBack(t *testing.T) {
	t.Parallel()
	l := newClockLab(t)
	d := declares(100, 7) // what has expired need not be removed
	d.Spec.Window = time.Second
	for i := range 20 {
		r := l.ask(Acquire(l.as("me"), d, AcquireParams{TTL: time.Second}, tickets(fmt.Sprintf("me:%d", i+1))), 1).Results[0]
		switch i {
		case 0:
			l.step(-time.Hour)
			continue
		case 1:
			assert.Equal(t, Early, r.State, "a new epoch starts")
		default:
			require.Equal(t, Held, r.State)
			gone := l.time.Add(l.rdb.PTTL(background, l.keys[3]).Val())
			require.Greater(t, gone.UnixMicro(), r.Number, "call %d", i)
		}
		l.pass(5 * time.Second)
	}
}

func TestNumbersCompensateStepsBackAndNoStepsForward(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []time.Duration
		min   time.Duration // the lower bound of the distance between the first and the last number
		max   time.Duration
	}{
		{"forward", []time.Duration{time.Hour}, time.Hour, time.Hour},
		{"back by less than a second, where numbers just count up by one", []time.Duration{-900 * time.Millisecond}, 0, time.Second},
		{"back", []time.Duration{-time.Hour}, 0, time.Second},
		{"back, and back again", []time.Duration{-time.Hour, -time.Hour}, 0, 2 * time.Second},
		{"forward, and back to the original time", []time.Duration{time.Hour, -time.Hour}, time.Hour, time.Hour + time.Second},
		{"back, and forward to the original time", []time.Duration{-time.Hour, time.Hour}, time.Hour, time.Hour + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newClockLab(t)
			first := l.acquireOne("me:1", declares(9, usedNow), AcquireParams{}).Number
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "epoch", 1).Err()) // no step reaches back beyond this epoch
			last := first
			for i, d := range c.steps {
				l.step(d)
				n := l.acquireOne("me:"+string(rune('2'+i)), declares(9, 7), AcquireParams{}).Number
				require.Greater(t, n, last)
				last = n
			}
			ahead := time.Duration(last-first) * time.Microsecond
			assert.GreaterOrEqual(t, ahead, c.min)
			assert.LessOrEqual(t, ahead, c.max)
			l.step(time.Minute)
			assert.Equal(t, last+time.Minute.Microseconds(), l.acquireOne("me:9", declares(9, 7), AcquireParams{}).Number+lag(c.steps))
		})
	}
}

// lag is the part of a small step back for which no offset is stored.
func lag(steps []time.Duration) int64 {
	if len(steps) == 1 && steps[0] > -time.Second && steps[0] < 0 {
		return 1 - steps[0].Microseconds()
	}
	return 0
}

// A declaration made after a step back counts as newer than all earlier ones.
func TestNewestDeclarationTakesEffectAtOnceAfterTheClockWasSteppedBack(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(l *clockLab){
		"with a number issued since": func(l *clockLab) { l.acquireOne("old:1", declares(2, usedNow), AcquireParams{}) },
		"without a number issued since": func(l *clockLab) {
			l.acquireOne("old:1*5", declares(2, usedNow), AcquireParams{})
			l.step(time.Minute)
			l.acquireOne("older:1*5", declares(3, usedNow), AcquireParams{}) // refused, so no number is used
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockLab(t)
			before(l)
			l.step(-time.Hour)
			l.acquireOne("new:1", Declaration{Spec: LimitSpec{Limit: 7}, First: time.Now().Add(-2 * time.Millisecond)}, AcquireParams{})
			assert.Equal(t, "7", l.meta("declared"))
		})
	}
}

// The time to connect counted as part of the time since the first use, and a round trip in which the server asked for the text of the script.
func TestHowLongAgoALimitWasFirstUsedIsSaidAsOfWhenTheCallIsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		space := Keyspace{Prefix: "p", ClientID: "me"}
		cmd := Refresh(space.About("name"), Declaration{First: time.Now()}, 0, false, tickets("me:1")).Command(false)
		for _, want := range []string{"ago 0", "ago 1000000", "ago 2000000"} {
			i := slices.IndexFunc(cmd.Args(), func(arg any) bool { _, is := arg.(encoding.BinaryMarshaler); return is })
			said, err := cmd.Args()[i].(encoding.BinaryMarshaler).MarshalBinary()
			require.NoError(t, err)
			assert.Equal(t, want, string(said))
			time.Sleep(time.Second)
		}
	})
}

// A client sends the time of its first use as measured by the clock of the server that it used then.
func TestDeclarationOfAnotherServersTimeIsReplacedByTheNextOne(t *testing.T) {
	t.Parallel()
	l := newClockLab(t)
	l.acquireOne("old:1", declares(2, l.time.Add(time.Hour).UnixMicro()), AcquireParams{})
	assert.Equal(t, "2", l.meta("declared"))
	l.acquireOne("new:1", declares(7, usedNow), AcquireParams{})
	assert.Equal(t, "7", l.meta("declared"))
}

func TestNumbersRestoredFromAServerAheadAdvanceWithTime(t *testing.T) {
	t.Parallel()
	l := newClockLab(t)
	had := Claims{Holders: 1, Numbers: []int64{l.time.Add(time.Hour).UnixMicro()}, Units: []int64{1}}
	l.ask(Restore(l.as("me"), declares(5, usedNow), time.Hour, tickets("me:1"), had), 1)
	l.step(2 * time.Second) // the grace period
	first := l.acquireOne("me:2", declares(5, 7), AcquireParams{}).Number
	assert.Greater(t, first, had.Numbers[0])
	l.step(time.Minute)
	assert.Equal(t, first+time.Minute.Microseconds(), l.acquireOne("me:3", declares(5, 7), AcquireParams{}).Number)
}

func TestStatusReportsTheOldestWaitAfterTheClockWasSteppedBack(t *testing.T) {
	t.Parallel()
	l := newClockLab(t)
	status := func() Status {
		r := l.run(l.space.Status("name", LimitSpec{Limit: 1}, 0, 0))
		require.NoError(t, r.err)
		found, err := DecodeStock(r.numbers)
		require.NoError(t, err)
		return found.Status()
	}
	token := l.acquireOne("me:1", declares(1, usedNow), AcquireParams{}).Number
	l.step(-time.Hour)
	position := l.acquireOne("me:2", declares(1, 7), AcquireParams{Wait: true}).Number
	l.step(time.Minute)
	s := status()
	assert.Equal(t, time.Minute, s.OldestWait)
	assert.Equal(t, time.Minute, s.At.Sub(time.UnixMicro(position)))
	assert.InDelta(t, time.Minute, s.At.Sub(time.UnixMicro(token)), float64(time.Second))
}

func TestTenantsReportTheOldestWaitAfterTheClockWasSteppedBack(t *testing.T) {
	t.Parallel()
	for name, tenants := range map[string][]TenantSpec{"shared": {{Name: "a", Share: 1}}, "not shared": nil} {
		l := newClockLab(t)
		d := declares(1, usedNow)
		d.Tenants = tenants
		l.acquireOne("me:1", d, AcquireParams{})
		l.step(-time.Hour)
		l.acquireOne("me:2", d, AcquireParams{Wait: true})
		l.step(time.Minute)
		got := l.run(l.space.About("name").Tenants("0", 10))
		require.NoError(t, got.err)
		list, _, err := DecodeTenants(got.list)
		require.NoError(t, err)
		require.Len(t, list, 1, name)
		assert.Equal(t, time.Minute.Microseconds(), list[0].Waited, name)
	}
}

// The same on a real server, whose clock moves: the last number is an hour ahead of it.
func TestNumbersAheadOfTheClockAdvanceWithTime(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed(fmt.Sprint("counter ", l.now().Add(time.Hour).UnixMicro()) + " | meta declared=9 layout=2 since=7 until=80s")
		var numbers, times []int64
		for _, id := range []string{"me:1", "me:2", "me:3"} {
			times = append(times, l.now().UnixMicro())
			numbers = append(numbers, l.acquireOne(id, declares(9, 7), AcquireParams{}).Number)
			times = append(times, l.now().UnixMicro())
		}
		for i := range 2 {
			passed := numbers[i+1] - numbers[i]
			assert.GreaterOrEqual(t, passed, times[2*i+2]-times[2*i+1])
			assert.LessOrEqual(t, passed, times[2*i+3]-times[2*i])
		}
		l.snapshot().mustExpire(t)
	})
}
