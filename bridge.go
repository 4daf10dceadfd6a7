package fairsem

import (
	"context"

	"github.com/fairsem/fairsem/internal/bridge"
)

func init() {
	bridge.InCluster = func(client any) bool { return client.(*Client).keyspace.Cluster }
	bridge.Leave = func(permit any) { permit.(*Permit).leave() }
	bridge.Unread = func(ticket any) error { return ticket.(Ticket).unread }
	bridge.Wait = waitAndQuote
	bridge.WithoutMaxWait = withoutMaxWait
}

func waitAndQuote(ctx context.Context, limiter any, n int64) (remaining int64, err error) {
	t, err := limiter.(*Limiter).acquire(ctx, "wait", n, inQueue)
	switch {
	case err != nil && (t == nil || !t.refused): // Redis did not say it
		return -1, err
	case t.position != 0: // the units available when it joined the queue are outdated, and others may wait
		return 0, err
	}
	return t.quoted.available, err
}

func withoutMaxWait(limit any) any {
	without := func(s *Semaphore) *Semaphore {
		o := *s.options()
		o.MaxWait = 0
		return s.With(o)
	}
	switch l := limit.(type) { // package gate refuses nil and zero values
	case *Semaphore:
		return without(l)
	case *Mutex:
		return newMutex(without(l.sem))
	case *Limiter:
		return newLimiter(without(l.semaphore))
	}
	return limit
}
