package fairsem

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
)

// machine is a machine that the test suspends, with a wall clock that the test sets. Its monotonic clock is that of the
// test, so it stands still during a suspension.
type machine struct {
	steps  atomic.Int64 // by how much the wall clock was set forward
	slept  atomic.Int64
	silent atomic.Bool  // it does not report suspensions
	asked  atomic.Int64 // how often suspended was called
}

func (m *machine) suspend(d time.Duration) { m.slept.Add(int64(d)) }
func (m *machine) step(d time.Duration)    { m.steps.Add(int64(d)) }

func (m *machine) wall(now time.Time) time.Duration {
	return now.Sub(start) + time.Duration(m.steps.Load()+m.slept.Load())
}

func (m *machine) suspended() (time.Duration, bool) {
	m.asked.Add(1)
	if m.silent.Load() {
		return 0, false
	}
	return time.Hour + time.Duration(m.slept.Load()), true // one hour of it before the clock was made
}

func (m *machine) clock() *clock { return newClock(m.wall, m.suspended) }

// on makes a client that has done nothing yet run on m.
func (m *machine) on(c *Client) {
	c.clock = m.clock()
	c.scheduler.clock, c.shared.clock = c.clock, c.clock
}

// onMachine is onWire on a machine of the test.
func onMachine(t *testing.T, ttl time.Duration, test func(t *testing.T, c *Client, w *wire, m *machine)) {
	t.Helper()
	onWire(t, ttl, func(t *testing.T, c *Client, w *wire) {
		m := &machine{}
		m.on(c)
		test(t, c, w, m)
	})
}

// holder returns a permit that its caller has received.
func holder(t *testing.T, c *Client, w *wire, o CallOptions) *Permit {
	t.Helper()
	a := asks(c, "a", 1, o)[0]
	w.carries("acquire a: 1").grantAll(10)
	require.NoError(t, a.await(background, time.Time{}))
	return a.permit
}

func TestClockCountsSuspensionsOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(m *machine)
		want time.Duration
	}{
		{"nothing happens", func(*machine) {}, 0},
		{"a suspension", func(m *machine) { m.suspend(time.Minute) }, time.Minute},
		{"the wall clock is set forward", func(m *machine) { m.step(time.Hour) }, 0},
		{"the wall clock is set back", func(m *machine) { m.step(-time.Hour) }, 0},
		{"a suspension, and the wall clock is set back", func(m *machine) { m.suspend(time.Minute); m.step(-time.Hour) }, time.Minute},
		{"a suspension that the wall clock does not show, for a while", func(m *machine) {
			m.suspend(time.Minute)
			m.step(-time.Minute)
			time.Sleep(clockPeriod)
		}, time.Minute},
		{"no answer, a suspension", func(m *machine) { m.silent.Store(true); m.suspend(time.Minute) }, time.Minute},
		{"no answer, the wall clock is set forward", func(m *machine) { m.silent.Store(true); m.step(time.Minute) }, time.Minute},
		{"no answer, the wall clock is set back", func(m *machine) { m.silent.Store(true); m.step(-time.Minute) }, 0},
		{"no answer, the wall clock gains 500 ppm", func(m *machine) {
			m.silent.Store(true)
			time.Sleep(time.Minute)
			m.step(30 * time.Millisecond)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &machine{}
				c := m.clock()
				before := c.now()
				test.do(m)
				assert.Equal(t, test.want, c.now().asleep)
				assert.Equal(t, test.want+time.Since(before.Time), c.now().sinceStart()-before.sinceStart())
			})
		})
	}
}

func TestClockFollowsManySuspensionsAndSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		c := m.clock()
		var want time.Duration
		for range 1000 {
			switch d := clockJitter + 1 + rand.N(time.Hour); rand.IntN(4) {
			case 0:
				m.step(d)
			case 1:
				m.step(-d)
			case 2:
				m.suspend(d)
				want += d
			default:
				time.Sleep(d)
			}
			require.Equal(t, want, c.now().asleep)
		}
	})
}

// A holder may check its context before every step of its work.
func TestLookAtAPermitMakesNoSystemCall(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *machine) {
		p := holder(t, c, w, CallOptions{})
		ctx := p.Context()
		asked := m.asked.Load()
		look := func() {
			for range 100_000 {
				require.NoError(t, ctx.Err())
			}
		}
		look()
		assert.Equal(t, asked, m.asked.Load())
		m.step(time.Hour) // one more system call, and only one
		look()
		assert.Equal(t, asked+1, m.asked.Load())
	})
}

func TestLookAtAPermitCostsNoAllocation(t *testing.T) {
	c := &Client{clock: newClock(wallSinceStart, suspended)}
	a := &ticket{state: &nameState{client: c}, values: background, lease: window{c.clock.now(), time.Hour}}
	ctx := newPermit(a, time.Now()).Context()
	assert.Zero(t, testing.AllocsPerRun(1000, func() { assert.NoError(t, ctx.Err()) }))
}

// A wall clock that gains drifts further and further.
func TestWallClockThatIsSlewedMakesNoSystemCallForEachLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{}
		c := m.clock()
		asked := m.asked.Load()
		const looks = 100_000
		for range looks {
			time.Sleep(time.Millisecond)
			m.step(500 * time.Nanosecond)
			require.Zero(t, c.now().asleep)
		}
		assert.LessOrEqual(t, m.asked.Load()-asked, int64(looks*time.Millisecond/clockPeriod))
	})
}

// The monotonic clock stands still in a suspension, so a permit was trusted for the rest of its window.
func TestPermitIsOverInTheFirstLookAfterASuspensionLongerThanItsWindow(t *testing.T) {
	for name, look := range map[string]func(t *testing.T, p *Permit){
		"Context.Err": func(t *testing.T, p *Permit) {
			require.ErrorIs(t, p.Context().Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		},
		"Release": func(t *testing.T, p *Permit) {
			require.ErrorIs(t, p.Release(background), ErrLost)
		},
		"take": func(t *testing.T, p *Permit) { assert.False(t, p.take()) },
		"Weighted.Err": func(t *testing.T, p *Permit) {
			sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: p.ticket.state.client, name: "a"}}, held: make(heldPermits)}
			sem.hold(p)
			require.ErrorIs(t, sem.Err(), ErrLost)
		},
		"Weighted.Release": func(t *testing.T, p *Permit) {
			sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: p.ticket.state.client, name: "a"}}, held: make(heldPermits)}
			sem.hold(p)
			sem.Release(1)
			assert.ErrorIs(t, p.ended(), ErrLost)
		},
	} {
		for _, o := range []CallOptions{{}, {NoRefresh: true}} {
			t.Run(name, func(t *testing.T) {
				onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
					p := holder(t, c, w, o)
					m.suspend(9 * time.Second)
					look(t, p)
				})
			})
		}
	}
}

func TestPermitOutlivesASuspensionShorterThanItsWindow(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
		p := holder(t, c, w, CallOptions{})
		m.suspend(9*time.Second - 1)
		require.NoError(t, p.Context().Err())
		assert.Equal(t, time.Duration(1), p.left())
	})
}

// The renewal comes within a second of the wake-up, however long the TTL: timers stand still during a suspension.
func TestSchedulerRenewsAfterASuspensionWithinTheWindow(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *machine) {
		p := holder(t, c, w, CallOptions{})
		m.suspend(50 * time.Minute)
		time.Sleep(clockPeriod)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		m.suspend(53 * time.Minute)
		require.NoError(t, p.Context().Err())
		time.Sleep(clockPeriod)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		require.NoError(t, p.Context().Err())
		w.isIdle()
	})
}

func TestSchedulerEndsWhatIsOverSoonAfterASuspension(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *machine) {
		told := overhear(c)
		p := holder(t, c, w, CallOptions{})
		done := p.Context().Done()
		m.suspend(time.Hour)
		time.Sleep(clockPeriod)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Fatal("it is not over")
		}
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
		assert.Equal(t, "Lost "+lostFor(errAsleep).Error(), told()[1])
	})
}

// A suspension shortens the rest of a permit that is never renewed, and the timer that ends it must follow.
func TestPermitThatIsNeverRenewedEndsOnTimeAfterASuspension(t *testing.T) {
	onMachine(t, time.Hour, func(t *testing.T, c *Client, w *wire, m *machine) {
		p := holder(t, c, w, CallOptions{NoRefresh: true})
		m.suspend(50 * time.Minute)
		time.Sleep(4*time.Minute - 1)
		synctest.Wait()
		require.NoError(t, p.ended())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.ErrorIs(t, p.ended(), ErrLost)
	})
}

// A lease begins before the call is sent, and so does the time that counts as suspended.
func TestSuspensionBetweenQuestionAndAnswerCounts(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
		a := asks(c, "a", 1, CallOptions{})[0]
		f := w.carries("acquire a: 1")
		m.suspend(9 * time.Second)
		c.clock.now() // the suspension is noticed before the answer
		f.grantAll(10)
		f = w.carries("refresh a: 1") // the permit may no longer be relied on
		assert.Nil(t, a.permit)
		f.answers(1, -1, 0, 1, int64(protocol.Held), 10)
		require.NoError(t, a.await(background, time.Time{}))
		assert.Equal(t, 9*time.Second, a.permit.left())
	})
}

// A step of the wall clock by NTP or an operator is not a suspension, if the system can tell.
func TestStepOfTheWallClockEndsNoPermit(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
		p := holder(t, c, w, CallOptions{})
		for _, d := range []time.Duration{time.Hour, -2 * time.Hour, 24 * time.Hour} {
			m.step(d)
			require.NoError(t, p.Context().Err())
			assert.Equal(t, 9*time.Second, p.left())
		}
		time.Sleep(clockPeriod)
		w.isIdle()
	})
}

func TestStepOfTheWallClockEndsAPermitWhereTheSystemCannotTellItFromASuspension(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
		m.silent.Store(true)
		p := holder(t, c, w, CallOptions{})
		m.step(-time.Hour)
		require.NoError(t, p.Context().Err())
		m.step(9 * time.Second)
		require.Error(t, p.Context().Err())
	})
}

// The waiter must neither fail nor keep the position that Redis has removed.
func TestWaiterThatWasSuspendedForATTLAsksAgain(t *testing.T) {
	for name, inFlight := range map[string]bool{"idle": false, "while a renewal was in flight": true} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, 9*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
				done := acquires(t.Context(), c, CallOptions{})
				w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 10)
				if inFlight {
					time.Sleep(3 * time.Second)
					f := w.carries("refresh a: 1")
					m.suspend(time.Hour)
					f.breaks()
				} else {
					m.suspend(time.Hour)
				}
				time.Sleep(clockPeriod)
				w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
				again, buried := false, !inFlight // an operation that may still be in flight needs a tombstone
				for !again || !buried {
					f := w.next()
					require.NotNil(t, f, "it does not ask again, or buries nobody")
					again = again || slices.Contains(f.contents(), "acquire a: 2")
					buried = buried || slices.Contains(f.contents(), "release a: 1")
					f.grantAll(20)
				}
				require.NoError(t, (<-done).err)
			})
		})
	}
}

// Many goroutines check their permits when the machine wakes up.
func TestClockIsReadByManyAtATime(t *testing.T) {
	t.Parallel()
	m := &machine{}
	c := m.clock()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var last time.Duration
			for range 1000 {
				want := time.Duration(m.slept.Load())
				now := c.now()
				assert.GreaterOrEqual(t, now.asleep, want, "a suspension that was over is not counted")
				assert.GreaterOrEqual(t, now.asleep, last, "it goes back")
				last = now.asleep
				m.suspend(time.Second)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 8000*time.Second, c.now().asleep)
}

// The context of Do reported no error until a timer fired.
func TestContextOfDoIsOverInTheFirstLookAfterASuspension(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *machine) {
		s := &Semaphore{Inspector: &Inspector{c, "a", protocol.LimitSpec{Limit: 5}}}
		done := make(chan error)
		go func() { // ends with fn
			done <- s.Do(background, 1, func(ctx context.Context) error {
				m.suspend(9 * time.Second)
				assert.ErrorIs(t, ctx.Err(), context.Canceled)
				return context.Cause(ctx)
			})
		}()
		w.carries("acquire a: 1").grantAll(10)
		require.ErrorIs(t, <-done, ErrLost)
	})
}
