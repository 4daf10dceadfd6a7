package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/fairsem/fairsem"
)

// metrics are the metrics that a service exports. One goroutine at a time calls the observer; other goroutines read the metrics.
type metrics struct {
	waiting, holding atomic.Int64 // now
	granted, refused atomic.Int64
	waited           atomic.Int64 // ns, of all granted calls
	lost             atomic.Int64 // each of these should be investigated
}

func (m *metrics) observe(event fairsem.Event) {
	switch e := event.(type) {
	case fairsem.WaitStartedEvent:
		m.waiting.Add(1)
	case fairsem.PositionLostEvent:
		m.leaveQueue(e.Queued)
	case fairsem.GrantedEvent:
		m.leaveQueue(e.Queued)
		m.holding.Add(1)
		m.granted.Add(1)
		m.waited.Add(int64(e.Waited))
	case fairsem.AllowedEvent:
		m.leaveQueue(e.Queued)
	case fairsem.NotAcquiredEvent:
		m.leaveQueue(e.Queued)
		if errors.Is(e.Err, fairsem.ErrNotAcquired) {
			m.refused.Add(1)
		}
	case fairsem.ReleasedEvent:
		m.holding.Add(-1)
	case fairsem.LostEvent:
		m.holding.Add(-1)
		m.lost.Add(1)
	}
}

func (m *metrics) leaveQueue(queued bool) {
	if queued {
		m.waiting.Add(-1)
	}
}

// Metrics are counted from the events of a client.
func ExampleObserver() {
	rdb, stop := startRedis()
	defer stop()
	var m metrics
	client, err := fairsem.New(rdb, fairsem.Options{Observer: m.observe})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	reports, err := client.Semaphore("reports", 2)
	if err != nil {
		fmt.Println(err)
		return
	}

	undo := occupy(reports, 2) // another process holds both units, and a call waits
	_, _ = reports.TryAcquire(ctx, 1)
	undo()
	_ = reports.Do(ctx, 1, func(context.Context) error { return nil })

	if err := client.Close(); err != nil { // all events have been reported when it returns
		fmt.Println(err)
	}
	fmt.Println("granted:", m.granted.Load(), "refused:", m.refused.Load(), "lost:", m.lost.Load())
	fmt.Println("holding:", m.holding.Load(), "waiting:", m.waiting.Load())
	// Output:
	// granted: 2 refused: 1 lost: 0
	// holding: 0 waiting: 0
}
