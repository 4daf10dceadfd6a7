package fairsem_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// await waits until a channel is closed.
func (w *world) await(closed <-chan struct{}, why string) {
	w.t.Helper()
	w.eventually(func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	}, why)
}

func TestRenewalNotifiesAHolderThatACallOfAnotherProcessWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 2, 3*time.Second
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		wanted := p.Wanted()
		next := w.queue(t.Context(), w.semaphore(), 2)
		w.await(wanted, "the holder is not notified")
		w.release(p)
		w.release(w.granted(next))
	})
}

// With a TTL of an hour the next renewal is 20 minutes away.
func TestAnswerToAWaiterOfTheSameProcessClosesWanted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		wanted := p.Wanted()
		next := w.queue(t.Context(), s, 1)
		w.await(wanted, "the holder is not notified")
		w.release(p)
		w.release(w.granted(next))
	})
}

func TestReaderLearnsThatAWriterWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = 6 * time.Second // a busy machine takes a part of it
		reader, err := w.client().RWMutex(w.name)
		require.NoError(t, err)
		writer, err := w.client().RWMutex(w.name)
		require.NoError(t, err)
		p := w.must(reader.RLock(t.Context()))
		done := make(chan error, 1)
		go func() { // ends when the reader has released
			p, err := writer.Lock(t.Context())
			if err == nil {
				err = givenBack(t.Context(), p)
			}
			done <- err
		}()
		w.await(p.Wanted(), "the reader is not notified")
		w.release(p)
		require.NoError(t, <-done)
	})
}

// yield holds all units until a call waits for some, and releases them then.
func (o order) yield(ctx context.Context, s *fairsem.Semaphore) error {
	p, err := s.Acquire(ctx, o.Limit)
	if err != nil {
		return err
	}
	fmt.Println("holds")
	select {
	case <-p.Wanted():
	case <-ctx.Done():
		return ctx.Err()
	}
	return givenBack(ctx, p)
}

func TestHolderInAnotherProcessReleasesEarlyBecauseACallWaits(t *testing.T) {
	w := onRedis(t)
	w.limit, w.ttl = 3, 6*time.Second
	worker := worldtest.Start(t, order{Addr: redistest.SharedServer(t).Addr(), Name: w.name, Limit: w.limit, TTL: w.ttl, Yields: true})
	require.True(t, ready(worker), "the worker does not start")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := w.semaphore().Acquire(ctx, 1)
	require.NoError(t, err, "the other process keeps its units")
	w.release(p)
	require.NoError(t, worker.Wait())
}
