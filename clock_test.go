package fairsem

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/protocol"
)

// useMachine makes an unused client run on m.
func useMachine(m *clock.Simulated, c *Client) {
	c.clock = m.Clock()
	c.scheduler.clock, c.shared.Clock = c.clock, c.clock
}

// onMachine is onWire on a machine that the test controls.
func onMachine(t *testing.T, ttl time.Duration, test func(t *testing.T, c *Client, w *wire, m *clock.Simulated)) {
	t.Helper()
	onWire(t, ttl, func(t *testing.T, c *Client, w *wire) {
		m := &clock.Simulated{}
		useMachine(m, c)
		test(t, c, w, m)
	})
}

// holder returns a permit that its caller has received.
func holder(t *testing.T, c *Client, w *wire, o CallOptions) *Permit {
	t.Helper()
	a := asks(c, "a", 1, o)[0]
	w.carries("acquire a: 1").grantAll(10)
	require.NoError(t, a.await(background, time.Time{}))
	return a.permit()
}

// A holder may check its context before every step of its work.
func TestCheckOfAPermitMakesNoSystemCall(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holder(t, c, w, CallOptions{})
		ctx := p.Context()
		calls := m.Asked()
		check := func() {
			for range 100_000 {
				require.NoError(t, ctx.Err())
			}
		}
		check()
		assert.Equal(t, calls, m.Asked())
		m.Step(time.Hour) // one more system call, and only one
		check()
		assert.Equal(t, calls+1, m.Asked())
	})
}

func TestCheckOfAPermitCostsNoAllocation(t *testing.T) {
	var h hold
	c := clock.New()
	h.begin(c, time.Now(), time.Now(), window{c.Now(), time.Hour})
	ctx := h.context(background)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { assert.NoError(t, ctx.Err()) }))
}

// The monotonic clock stands still during a suspension, so the client trusted a permit for the rest of its window.
func TestFirstCheckAfterASuspensionLongerThanTheWindowFindsThePermitLost(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, c *Client, p *Permit){
		"Context.Err": func(t *testing.T, _ *Client, p *Permit) {
			require.ErrorIs(t, p.Context().Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		},
		"Release": func(t *testing.T, _ *Client, p *Permit) {
			require.ErrorIs(t, p.Release(background), ErrLost)
		},
		"hold.claim": func(t *testing.T, _ *Client, p *Permit) { assert.False(t, p.ticket.hold.claim(nil)) },
		"Close": func(t *testing.T, c *Client, p *Permit) {
			c.stateInUse("a").close()
			require.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		},
		"Weighted.Err": func(t *testing.T, c *Client, p *Permit) {
			sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: c, name: "a"}}, held: make(heldPermits)}
			sem.hold(p)
			require.ErrorIs(t, sem.Err(), ErrLost)
		},
		"Weighted.Release": func(t *testing.T, c *Client, p *Permit) {
			sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: c, name: "a"}}, held: make(heldPermits)}
			sem.hold(p)
			sem.Release(1)
			assert.ErrorIs(t, p.ticket.hold.ended(), ErrLost)
		},
	} {
		for _, o := range []CallOptions{{}, {NoRefresh: true}} {
			t.Run(name, func(t *testing.T) {
				onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
					p := holder(t, c, w, o)
					m.Suspend(9 * time.Second)
					check(t, c, p)
				})
			})
		}
	}
}

func TestPermitSurvivesASuspensionShorterThanItsWindow(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holder(t, c, w, CallOptions{})
		m.Suspend(9*time.Second - 1)
		require.NoError(t, p.Context().Err())
		assert.Equal(t, time.Duration(1), p.ticket.hold.remaining())
	})
}

// The renewal comes within a second of the wake-up, however long the TTL: timers stand still during a suspension.
func TestSchedulerRenewsAfterASuspensionWithinTheWindow(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holder(t, c, w, CallOptions{})
		m.Suspend(50 * time.Minute)
		time.Sleep(clock.Period)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		m.Suspend(53 * time.Minute)
		require.NoError(t, p.Context().Err())
		time.Sleep(clock.Period)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		require.NoError(t, p.Context().Err())
		w.isIdle()
	})
}

func TestSchedulerEndsExpiredPermitsSoonAfterASuspension(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		reported := recordEvents(c)
		p := holder(t, c, w, CallOptions{})
		done := p.Context().Done()
		m.Suspend(time.Hour)
		time.Sleep(clock.Period)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Fatal("the permit has not ended")
		}
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
		assert.Equal(t, "Lost "+lostFor(errAsleep).Error(), reported()[1])
	})
}

// A suspension shortens the rest of a permit that is never renewed, and the timer that ends it must follow.
func TestPermitThatIsNeverRenewedEndsOnTimeAfterASuspension(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holder(t, c, w, CallOptions{NoRefresh: true})
		m.Suspend(50 * time.Minute)
		time.Sleep(4*time.Minute - 1)
		synctest.Wait()
		require.NoError(t, p.ticket.hold.ended())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.ErrorIs(t, p.ticket.hold.ended(), ErrLost)
	})
}

// A lease begins before the call is sent. So a suspension counts from then on.
func TestSuspensionBetweenRequestAndReplyCounts(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		a := asks(c, "a", 1, CallOptions{})[0]
		f := w.carries("acquire a: 1")
		m.Suspend(9 * time.Second)
		c.clock.Now() // the suspension is noticed before the answer
		f.grantAll(10)
		f = w.carries("refresh a: 1") // the permit may no longer be relied on
		assert.False(t, a.isDone())
		f.answers(1, -1, 0, 1, int64(protocol.Held), 10)
		require.NoError(t, a.await(background, time.Time{}))
		assert.Equal(t, 9*time.Second, a.hold.remaining())
	})
}

// A step of the wall clock by NTP or an operator is not a suspension, if the system can tell.
func TestStepOfTheWallClockEndsNoPermit(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holder(t, c, w, CallOptions{})
		for _, d := range []time.Duration{time.Hour, -2 * time.Hour, 24 * time.Hour} {
			m.Step(d)
			require.NoError(t, p.Context().Err())
			assert.Equal(t, 9*time.Second, p.ticket.hold.remaining())
		}
		time.Sleep(clock.Period)
		w.isIdle()
	})
}

func TestStepOfTheWallClockEndsAPermitWhereTheSystemCannotDistinguishItFromASuspension(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		m.Silent.Store(true)
		p := holder(t, c, w, CallOptions{})
		m.Step(-time.Hour)
		require.NoError(t, p.Context().Err())
		m.Step(9 * time.Second)
		require.Error(t, p.Context().Err())
	})
}

// The waiter must neither fail nor keep its position, which Redis has removed.
func TestWaiterThatWasSuspendedForATTLJoinsTheQueueAgain(t *testing.T) {
	for name, inFlight := range map[string]bool{"idle": false, "while a renewal was in flight": true} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, 9*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
				done := acquires(t.Context(), c, CallOptions{})
				w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 10)
				if inFlight {
					time.Sleep(3 * time.Second)
					f := w.carries("refresh a: 1")
					m.Suspend(time.Hour)
					f.breaks()
				} else {
					m.Suspend(time.Hour)
				}
				time.Sleep(clock.Period)
				w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
				again, tombstone := false, !inFlight // an operation that may still be in flight needs a tombstone
				for !again || !tombstone {
					f := w.next()
					require.NotNil(t, f, "no new acquire is sent, or no tombstone is left")
					again = again || slices.Contains(f.contents(), "acquire a: 2")
					tombstone = tombstone || slices.Contains(f.contents(), "release a: 1")
					f.grantAll(20)
				}
				require.NoError(t, (<-done).err)
			})
		})
	}
}

// The context of Do reported no error until a timer fired.
func TestContextOfDoIsCanceledAtTheFirstCheckAfterASuspension(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		s := &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}
		done := make(chan error)
		go func() { // ends with fn
			done <- s.Do(background, 1, func(ctx context.Context) error {
				m.Suspend(9 * time.Second)
				assert.ErrorIs(t, ctx.Err(), context.Canceled)
				return context.Cause(ctx)
			})
		}()
		w.carries("acquire a: 1").grantAll(10)
		require.ErrorIs(t, <-done, ErrLost)
	})
}
