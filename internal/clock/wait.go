package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Wait is a wait of one length, for many callers. Callers that begin within a tenth of it share a timer, because one for each takes a
// busy process more time than many of the awaited events.
type Wait struct {
	length time.Duration
	latest atomic.Pointer[sharedEnd]
}

type sharedEnd struct {
	began time.Time
	over  chan struct{}
}

// NewWait returns a wait of that length.
func NewWait(length time.Duration) *Wait { return &Wait{length: length} }

// Begin returns a channel that is closed when the wait is over which begins now: after nine tenths of its length at the earliest, and
// after all of it at the latest.
func (w *Wait) Begin(now time.Time) <-chan struct{} {
	for {
		latest := w.latest.Load()
		if latest != nil && now.Sub(latest.began) < w.length/10 {
			return latest.over
		}
		next := &sharedEnd{now, make(chan struct{})}
		if w.latest.CompareAndSwap(latest, next) {
			time.AfterFunc(w.length, func() { close(next.over) })
			return next.over
		}
	}
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
