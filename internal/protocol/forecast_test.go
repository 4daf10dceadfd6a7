package protocol

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockwork is a rate limit on a server whose clock the test controls.
type clockwork struct {
	*rand.Rand
	*clockLab
	d      Declaration
	tenant string // of all ids
	ids    int
}

func newClockwork(t *testing.T, seed uint64) *clockwork {
	t.Helper()
	w := &clockwork{Rand: rand.New(rand.NewPCG(seed, 3)), clockLab: newClockLab(t)}
	w.step(time.Duration(w.IntN(1000)) * time.Microsecond)
	w.d = Declaration{Spec: LimitSpec{1 + w.Int64N(6), time.Duration(2+w.IntN(30)) * time.Millisecond}, Since: 7}
	return w
}

// acquire requests units for a client.
func (w *clockwork) acquire(client string, wait bool, units ...int64) Reply {
	var ids []string
	for _, n := range units {
		w.ids++
		id := fmt.Sprintf("%s:%d", client, w.ids)
		if w.tenant != "" {
			id += ":" + w.tenant
		}
		ids = append(ids, fmt.Sprintf("%s*%d", id, n))
	}
	return w.ask(Acquire(w.as(client), w.d, AcquireParams{TTL: time.Hour, Wait: wait}, tickets(ids...)), len(ids))
}

// some returns units for one to three calls, mostly 1.
func (w *clockwork) some() []int64 {
	units := make([]int64, 1+w.IntN(3))
	for i := range units {
		units[i] = 1
		if w.ids%2 == 0 || w.IntN(4) == 0 {
			units[i] += w.Int64N(min(w.d.Spec.Limit, 3))
		}
		units[i] = min(units[i], w.d.Spec.Limit)
	}
	return units
}

// firstWaiters grants everything that is due, and returns the first waiter of each client.
func (w *clockwork) firstWaiters() map[string]string {
	w.ask(Refresh[*ticket](w.as("observer"), w.d, time.Hour, false, nil), 0)
	first := make(map[string]string)
	for _, id := range w.rdb.ZRange(background, w.keys[1], 0, -1).Val() {
		client, _, _ := strings.Cut(id, ":")
		if first[client] == "" {
			first[client] = id
		}
	}
	return first
}

// Units expire in a fixed order, and the queue uses them in order: a forecast is exact.
func TestForecastIsExactToTheMillisecond(t *testing.T) {
	t.Parallel()
	turns, refusals, seeds := 0, 0, uint64(8)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		w := newClockwork(t, seed)
		clients := []string{"me", "you", "he"}
		for range 5 + w.IntN(15) {
			w.acquire(clients[w.IntN(3)], w.IntN(3) > 0, w.some()...)
			w.step(time.Duration(w.Int64N(int64(w.d.Spec.Window) / 4)))
		}
		if w.IntN(3) == 0 { // a limit below what is granted, and below the weight of some waiters
			w.d.Spec.Limit, w.d.Since = 1+w.Int64N(w.d.Spec.Limit), w.d.Since+1
			w.acquire("he", false, 1)
		}
		what := fmt.Sprintf("seed %d, %d in %v", seed, w.d.Spec.Limit, w.d.Spec.Window)
		began, mine := w.time.UnixMilli(), 1+w.Int64N(w.d.Spec.Limit)
		refused := w.acquire("late", false, mine).Results[0]
		first, forecast := w.firstWaiters(), make(map[string]int64)
		for client := range first {
			forecast[client] = w.ask(Refresh[*ticket](w.as(client), w.d, time.Hour, false, nil), 0).Next.Milliseconds()
			require.Positive(t, forecast[client], what)
		}
		for len(first) > 0 || refused.State == Refused {
			w.step(time.Millisecond)
			now := w.firstWaiters()
			for client, id := range first {
				if now[client] == id {
					require.Less(t, w.time.UnixMilli()-began, forecast[client], "%s: the turn of %s came after its forecast", what, id)
					continue
				}
				if w.rdb.ZScore(background, w.keys[0], id).Err() == nil { // otherwise the waiter was only removed from the queue, together with another
					require.Equal(t, forecast[client], w.time.UnixMilli()-began, "%s: the turn of %s", what, id)
					turns++
				}
				delete(first, client)
			}
			if refused.State == Refused {
				late := w.acquire("late", false, mine).Results[0]
				require.Equal(t, late.State == Held, w.time.UnixMilli()-began == refused.Number, "%s: %d units that were refused for %d ms, after %d ms",
					what, mine, refused.Number, w.time.UnixMilli()-began)
				if late.State == Held {
					refused.State = Held
					refusals++
				}
			}
			require.Less(t, w.time.UnixMilli()-began, int64(10_000), what)
		}
	}
	require.Greater(t, turns, int(seeds))
	require.Greater(t, refusals, int(seeds)/2)
}

// Where no other tenant has anything, a forecast is exact if all calls are for one unit. Weights leave gaps, so that it is too early.
func TestForecastOfATenantIsNeverTooLate(t *testing.T) {
	t.Parallel()
	refusals, seeds := 0, uint64(40)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		w := newClockwork(t, seed)
		w.tenant = "a"
		w.d.Tenants = []TenantSpec{{Name: w.tenant, Share: 1, Limit: w.Int64N(2) * (1 + w.Int64N(w.d.Spec.Limit))}}
		most := cmp.Or(w.d.Tenants[0].Limit, w.d.Spec.Limit)
		weighted := w.IntN(2) == 0
		some := func() int64 {
			if weighted {
				return 1 + w.Int64N(most)
			}
			return 1
		}
		for range 5 + w.IntN(15) {
			w.acquire("me", w.IntN(3) > 0, some())
			w.step(time.Duration(w.Int64N(int64(w.d.Spec.Window) / 4)))
		}
		began, mine := w.time.UnixMilli(), some()
		what := fmt.Sprintf("seed %d: %d units of %v, %d for the tenant", seed, mine, w.d.Spec, w.d.Tenants[0].Limit)
		refused := w.acquire("late", false, mine).Results[0]
		if refused.State != Refused {
			continue
		}
		refusals++
		for granted := false; !granted; {
			w.step(time.Millisecond)
			passed := w.time.UnixMilli() - began
			granted = w.acquire("late", false, mine).Results[0].State == Held
			require.False(t, granted && passed < refused.Number, "%s: granted after %d ms, with a forecast of %d", what, passed, refused.Number)
			require.False(t, !weighted && !granted && passed >= refused.Number, "%s: not granted after %d ms", what, passed)
			require.Less(t, passed, int64(10_000), what)
		}
	}
	require.Greater(t, refusals, int(seeds)/2)
}

// They are removed some at a time, and those that were not looked at yet counted.
func TestForecastOfATenantDoesNotCountManyWaitersThatCanNeverBeGranted(t *testing.T) {
	t.Parallel()
	w := newClockwork(t, 1)
	w.tenant = "a"
	w.d = Declaration{Spec: LimitSpec{6, 10 * time.Second}, Since: 7, Tenants: []TenantSpec{{Name: w.tenant, Share: 1}}}
	w.acquire("me", false, 6)
	for range 140 {
		w.acquire("me", true, 5)
	}
	w.ask(w.space.Resize("name", w.d.Spec, PinAt(4), w.time.UnixMicro()), 1)
	w.step(time.Second)
	refused := w.acquire("late", false, 1).Results[0]
	require.Equal(t, Refused, refused.State)
	require.Positive(t, w.rdb.ZCard(background, w.keys[1]).Val(), "some still wait")
	for passed := time.Duration(0); ; passed += 100 * time.Millisecond {
		if w.acquire("late", false, 1).Results[0].State == Held {
			require.LessOrEqual(t, refused.Number, passed.Milliseconds())
			return
		}
		require.Less(t, passed, time.Minute)
		w.step(100 * time.Millisecond)
	}
}

// Beyond the bound a forecast is too early. A waiter that polls then must need few more polls.
func TestForecastBeyondTheBoundIsNeverTooLateAndTakesFewCalls(t *testing.T) {
	t.Parallel()
	w := newClockwork(t, 1)
	w.d.Spec = LimitSpec{1500, 100 * time.Millisecond}
	mixed := func(n int) (units []int64) {
		for range n {
			units = append(units, 1+w.Int64N(4))
		}
		return units
	}
	for range 50 {
		w.acquire("you", false, mixed(12)...)
		w.step(time.Millisecond)
	}
	for range 8 {
		w.acquire("he", true, mixed(100)...)
	}
	w.acquire("me", true, 3)
	me := fmt.Sprintf("me:%d*3", w.ids)
	now := func() int64 { return w.time.UnixMilli() }
	var waits, tries int
	var turn, retry int64 // when the waiter and the refused caller may try again
	for began, held, allowed := now(), false, false; !held || !allowed; w.step(time.Millisecond) {
		require.Less(t, now()-began, int64(2000), "the waiter is never granted")
		w.firstWaiters() // as another client does
		if !held && now() < turn {
			require.Error(t, w.rdb.ZScore(background, w.keys[0], strings.TrimSuffix(me, "*3")).Err(), "its turn came %d ms before its forecast", turn-now())
		}
		if !held && now() >= turn {
			waits++
			r := w.ask(Refresh(w.as("me"), w.d, time.Hour, false, tickets(me)), 1)
			held, turn = r.Results[0].State == Held, now()+r.Next.Milliseconds()
		}
		if !allowed && now() >= retry {
			tries++
			late := w.acquire("late", false, 2).Results[0]
			allowed, retry = late.State == Held, now()+late.Number
		}
	}
	t.Logf("%d calls of the waiter behind 800 others, %d of the refused caller", waits, tries)
	require.LessOrEqual(t, waits, 12)
	require.LessOrEqual(t, tries, 12)
}
