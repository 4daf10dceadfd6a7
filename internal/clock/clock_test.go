package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClockCountsSuspensionsOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(m *Simulated)
		want time.Duration
	}{
		{"nothing happens", func(*Simulated) {}, 0},
		{"a suspension", func(m *Simulated) { m.Suspend(time.Minute) }, time.Minute},
		{"the wall clock is set forward", func(m *Simulated) { m.Step(time.Hour) }, 0},
		{"the wall clock is set back", func(m *Simulated) { m.Step(-time.Hour) }, 0},
		{"a suspension, and the wall clock is set back", func(m *Simulated) { m.Suspend(time.Minute); m.Step(-time.Hour) }, time.Minute},
		{"a suspension that the wall clock does not show, for a while", func(m *Simulated) {
			m.Suspend(time.Minute)
			m.Step(-time.Minute)
			time.Sleep(Period)
		}, time.Minute},
		{"no answer, a suspension", func(m *Simulated) { m.Silent.Store(true); m.Suspend(time.Minute) }, time.Minute},
		{"no answer, the wall clock is set forward", func(m *Simulated) { m.Silent.Store(true); m.Step(time.Minute) }, time.Minute},
		{"no answer, the wall clock is set back", func(m *Simulated) { m.Silent.Store(true); m.Step(-time.Minute) }, 0},
		{"no answer, the wall clock gains 500 ppm", func(m *Simulated) {
			m.Silent.Store(true)
			time.Sleep(time.Minute)
			m.Step(30 * time.Millisecond)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &Simulated{}
				c := m.Clock()
				before := c.Now()
				test.do(m)
				assert.Equal(t, test.want, c.Now().Asleep)
				assert.Equal(t, test.want+time.Since(before.Time), c.Now().SinceStart()-before.SinceStart())
			})
		})
	}
}

func TestClockFollowsManySuspensionsAndSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Simulated{}
		c := m.Clock()
		var want time.Duration
		for range 1000 {
			switch d := Jitter + 1 + rand.N(time.Hour); rand.IntN(4) {
			case 0:
				m.Step(d)
			case 1:
				m.Step(-d)
			case 2:
				m.Suspend(d)
				want += d
			default:
				time.Sleep(d)
			}
			require.Equal(t, want, c.Now().Asleep)
		}
	})
}

// A wall clock that gains drifts further and further.
func TestWallClockThatIsSlewedMakesNoSystemCallForEachLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &Simulated{}
		c := m.Clock()
		asked := m.Asked()
		const looks = 100_000
		for range looks {
			time.Sleep(time.Millisecond)
			m.Step(500 * time.Nanosecond)
			require.Zero(t, c.Now().Asleep)
		}
		assert.LessOrEqual(t, m.Asked()-asked, int64(looks*time.Millisecond/Period))
	})
}

// Many goroutines check their permits when the machine wakes up.
func TestClockIsReadByManyAtATime(t *testing.T) {
	t.Parallel()
	m := &Simulated{}
	c := m.Clock()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var last time.Duration
			for range 1000 {
				want := time.Duration(m.slept.Load())
				now := c.Now()
				assert.GreaterOrEqual(t, now.Asleep, want, "a suspension that was over is not counted")
				assert.GreaterOrEqual(t, now.Asleep, last, "it goes back")
				last = now.Asleep
				m.Suspend(time.Second)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 8000*time.Second, c.Now().Asleep)
}
