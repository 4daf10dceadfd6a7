package clock

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAWaitEndsAfterNineTenthsOfItsLengthToAllOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWait(time.Second)
		var all sync.WaitGroup
		for range 500 {
			all.Go(func() {
				began := time.Now()
				<-w.Begin(began)
				took := time.Since(began)
				assert.LessOrEqual(t, took, time.Second)
				assert.Greater(t, took, 900*time.Millisecond)
			})
			time.Sleep(7 * time.Millisecond)
		}
		all.Wait()
	})
}

func TestWaitsThatBeginTogetherShareATimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWait(time.Second)
		first := w.Begin(time.Now())
		time.Sleep(100*time.Millisecond - 1)
		assert.Equal(t, first, w.Begin(time.Now()))
		time.Sleep(time.Nanosecond)
		assert.NotEqual(t, first, w.Begin(time.Now()))
	})
}
