package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

func numbered(s *fairsem.Semaphore) *fairsem.Semaphore {
	return s.With(fairsem.CallOptions{Numbered: true})
}

// numbersOf returns the numbers that the Inspector reports.
func (w *world) numbersOf(s *fairsem.Semaphore) map[string][]int64 {
	w.t.Helper()
	all := make(map[string][]int64)
	for ticket, err := range s.Holders(w.t.Context()) {
		require.NoError(w.t, err)
		if ticket.Numbers != nil {
			all[ticket.ID] = ticket.Numbers
		}
	}
	return all
}

func TestNumbersAreTheLowestThatNoProcessHas(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		a, b := numbered(w.semaphore()), numbered(w.semaphore())
		first, second := w.must(a.Acquire(t.Context(), 1)), w.must(b.Acquire(t.Context(), 2))
		other := w.must(w.semaphore().Acquire(t.Context(), 1))
		last := w.must(a.TryAcquire(t.Context(), 1))
		assert.Equal(t, []int64{0}, first.Numbers())
		assert.Equal(t, []int64{1, 2}, second.Numbers())
		assert.Equal(t, int64(1), second.Number())
		assert.Equal(t, int64(3), last.Number())
		assert.Equal(t, int64(-1), other.Number())
		assert.Empty(t, other.Numbers())
		assert.Equal(t, map[string][]int64{first.ID(): {0}, second.ID(): {1, 2}, last.ID(): {3}}, w.numbersOf(a))

		here, there := w.queue(t.Context(), b, 1), w.queue(t.Context(), a, 2)
		w.release(second) // by the same process and by a message to another
		third, fourth := w.granted(here), (*fairsem.Permit)(nil)
		assert.Equal(t, []int64{1}, third.Numbers())
		w.release(first)
		fourth = w.granted(there)
		assert.Equal(t, []int64{0, 2}, fourth.Numbers())
		for _, p := range []*fairsem.Permit{third, fourth, last, other} {
			w.release(p)
		}
	})
}

func TestNumberOfALimitThatShrinksIsKeptAndNewOnesAreBelowTheLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 4
		s := numbered(w.semaphore())
		var all []*fairsem.Permit
		for range 4 {
			all = append(all, w.must(s.Acquire(t.Context(), 1)))
		}
		w.pin(s, 2)
		for _, p := range all[:3] {
			w.release(p)
		}
		next := w.must(s.Acquire(t.Context(), 1))
		assert.Equal(t, []int64{3, 0}, []int64{all[3].Number(), next.Number()})
		w.release(all[3])
		w.release(next)
		require.NoError(t, s.ResetLimit(t.Context()))
	})
}

// slots knows which permit relies on which number.
type slots struct {
	mu     sync.Mutex
	live   map[int64]*fairsem.Permit
	tokens map[int64]int64 // the highest of each number
}

func (s *slots) begin(t *testing.T, p *fairsem.Permit) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range p.Numbers() {
		other := s.live[n]
		assert.True(t, other == nil || other.Context().Err() != nil, "number %d twice", n)
		assert.Greater(t, p.Token(), s.tokens[n], "number %d", n)
		s.live[n], s.tokens[n] = p, p.Token()
	}
}

func (s *slots) end(p *fairsem.Permit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range p.Numbers() {
		if s.live[n] == p {
			delete(s.live, n)
		}
	}
}

// S13 and S14, by the contexts of the permits. Some are never released or renewed, so they expire.
func TestNoTwoHoldersHaveTheSameNumberAndItsTokensIncrease(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 4
		known := &slots{live: make(map[int64]*fairsem.Permit), tokens: make(map[int64]int64)}
		var wg sync.WaitGroup
		for process := range 3 {
			s := w.semaphore()
			for caller := range 4 {
				wg.Go(func() {
					for i := range steps(18) {
						opts := fairsem.CallOptions{Numbered: caller > 0, Tenant: fmt.Sprint(process % 2)}
						dies := i == 5 && caller%2 == 1
						if dies {
							opts.TTL, opts.NoRefresh = time.Second, true
						}
						s := s.With(opts)
						p, err := s.Acquire(t.Context(), int64(1+i%2))
						if errors.Is(err, fairsem.ErrUnavailable) { // on a busy machine
							continue
						}
						if !assert.NoError(t, err) {
							return
						}
						known.begin(t, p)
						if dies {
							<-p.Context().Done()
							continue
						}
						known.end(p)
						if err := w.givenBack(p); err != nil {
							assert.ErrorIs(t, err, fairsem.ErrLost) // on a busy machine
						}
					}
				})
			}
		}
		wg.Wait()
		w.eventually(func() bool { return w.status(w.semaphore()).Holders == 0 }, "some permits do not expire")
		w.release(w.must(w.semaphore().Acquire(t.Context(), w.limit))) // removes expired entries
	})
}

func TestClientsRestoreNumbers(t *testing.T) {
	w, server := agedServer(t)
	w.limit, w.grace = 6, longGrace
	a, b := numbered(w.semaphore()), numbered(w.semaphore())
	one, two, three := w.must(a.Acquire(t.Context(), 1)), w.must(b.Acquire(t.Context(), 2)), w.must(a.Acquire(t.Context(), 2))
	w.release(one)
	waiter := w.queue(t.Context(), a, 3)

	restart(t, server)
	next := w.must(b.With(fairsem.CallOptions{Numbered: true, HeadStart: time.Hour}).Acquire(t.Context(), 1))
	w.eventually(func() bool { return w.status(b).Waiting == 1 }, "the waiter is not restored")
	assert.Equal(t, []int64{0}, next.Numbers())
	assert.Equal(t, map[string][]int64{two.ID(): {1, 2}, three.ID(): {3, 4}, next.ID(): {0}}, w.numbersOf(a))
	w.release(two)
	last := w.granted(waiter)
	assert.Equal(t, []int64{1, 2, 5}, last.Numbers())
	for _, p := range []*fairsem.Permit{next, three, last} {
		w.release(p)
	}
}

// The first permit restored with a number after a loss has it, and the other is lost.
func TestRestoredPermitWhoseNumberIsTakenIsLost(t *testing.T) {
	w, server := agedServer(t)
	w.limit, w.ttl = 2, 3*time.Second
	proxy := redistest.NewProxy(t, server.Addr())
	p := w.must(numbered(w.of(w.clientOn(w.through(proxy), fairsem.Options{TTL: w.ttl}), 2)).Acquire(t.Context(), 1))
	proxy.Hold()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	q := w.must(numbered(w.semaphore()).TryAcquire(t.Context(), 1)) // the server was never down
	proxy.Resume()
	require.Equal(t, []int64{0, 0}, []int64{p.Number(), q.Number()})
	<-p.Context().Done()
	require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	require.NoError(t, q.Context().Err())
	w.release(q)
}

func TestManyUnitsCanHaveNumbers(t *testing.T) {
	w := onRedis(t)
	w.limit = 4000
	a, b := numbered(w.semaphore()), numbered(w.semaphore())
	var calls []*call
	for i := range 8 {
		calls = append(calls, acquire(t.Context(), []*fairsem.Semaphore{a, b}[i%2], 1000))
	}
	seen, done := make(map[int64]bool), 0
	for done < 4 {
		for _, c := range calls {
			if c.waits() || c.permit == nil || len(seen) > 0 && seen[c.permit.Number()] {
				continue
			}
			require.Len(t, c.permit.Numbers(), 1000)
			for _, n := range c.permit.Numbers() {
				require.False(t, seen[n], "number %d twice", n)
				require.Less(t, n, w.limit)
				seen[n] = true
			}
			done++
		}
	}
	for range calls {
		for i, c := range calls {
			if c != nil && !c.waits() {
				w.release(w.granted(c))
				calls[i] = nil
			}
		}
	}
	for _, c := range calls {
		if c != nil {
			w.release(w.granted(c))
		}
	}
}

func TestNumbersOfCallsThatCannotHaveThemAreInvalid(t *testing.T) {
	t.Parallel()
	s := numbered(offlineSemaphore(t, "a"))
	_, err := s.Acquire(t.Context(), 1001)
	invalid(t, err, "Numbered")
	_, err = fairsem.AcquireAll(t.Context(), s.Request(1001))
	invalid(t, err, "Numbered")
	l, err := offlineClient(t).Limiter("a", 5, time.Second)
	require.NoError(t, err)
	invalid(t, l.With(fairsem.CallOptions{Numbered: true}).Wait(t.Context(), 1), "Numbered")
	m, err := offlineClient(t).RWMutex("a")
	require.NoError(t, err)
	_, err = m.With(fairsem.CallOptions{Numbered: true}).Lock(t.Context())
	invalid(t, err, "Numbered")
}

// Events had the permit's own numbers: an observer that sorted or counted in them changed, and raced with, what the permit says, what
// is restored after a loss, and what is kept of a permit of which a part is released.
func TestObserverThatChangesTheNumbersOfAnEventChangesNoPermit(t *testing.T) {
	w := onRedis(t)
	w.limit = 8
	got := make(chan []int64, 2)
	c := w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Observer: func(ev fairsem.Event) {
		if all := field[[]int64](ev, "Numbers"); all != nil {
			got <- slices.Clone(all)
			for i := range all {
				all[i] = -7
			}
		}
	}})
	p := w.must(numbered(w.of(c, w.limit)).Acquire(t.Context(), 3))
	for len(got) == 0 {
		assert.Equal(t, int64(0), p.Number()) // while the observer runs, for the race detector
	}
	want := []int64{0, 1, 2}
	assert.Equal(t, want, <-got)
	w.release(p)
	require.NoError(t, c.Close()) // the observer has returned
	assert.Equal(t, want, <-got, "the event of the release has what that of the grant was changed to")
	assert.Equal(t, want, p.Numbers())
}
