package demo

import (
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// lateness is how long a busy machine lets a process wait that has something to do. The workers and the server wait about as long, which
// says nothing about the library.
type lateness struct {
	total atomic.Int64 // in nanoseconds, since measure
}

const (
	napTime    = 10 * time.Millisecond
	punctual   = 5 * time.Millisecond   // timers of an idle machine are late by less
	noticeable = 100 * time.Millisecond // less is not worth a line
)

// measure starts to measure. The function that it returns ends that.
func (l *lateness) measure() (end func()) {
	ended := make(chan struct{})
	go func() { // ends within a nap after end
		for {
			due := history.Now() + napTime.Nanoseconds()
			select {
			case <-ended:
				return
			case <-time.After(napTime):
			}
			l.woke(due, history.Now())
		}
	}()
	return func() { close(ended) }
}

func (l *lateness) woke(due, now int64) {
	if late := now - due; late > punctual.Nanoseconds() {
		l.total.Add(late)
	}
}
