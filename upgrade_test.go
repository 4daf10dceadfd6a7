package fairsem_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
)

// The statements of docs/upgrading.md about versions that run at the same time.

// A later version that stores data differently records another layout. Earlier versions must neither read that data nor keep their
// permits.
func TestLaterLayoutEndsTheCallsOfAnOldProcessWithErrorsThatSayWhy(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = 3 * time.Second
		c, err := fairsem.New(w.connect(), fairsem.Options{TTL: w.ttl})
		require.NoError(t, err)
		t.Cleanup(func() {
			if err := c.Close(); err != nil { // a release that Redis refused for its layout may still be in flight
				assert.ErrorIs(t, err, fairsem.ErrUnavailable)
			}
		})
		s := w.of(c, w.limit)
		held := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		require.NoError(t, w.rdb.HSet(t.Context(), w.key("meta"), "layout", protocol.Layout+1).Err())

		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "FAIRSEMLAYOUT")
		assert.ErrorContains(t, err, "upgrade this program")
		assert.NotErrorIs(t, err, fairsem.ErrUnavailable, "the call fails at once")

		<-held.Context().Done()
		assert.ErrorIs(t, givenBack(t.Context(), held), fairsem.ErrLost)
		<-waiter.done
		assert.ErrorContains(t, waiter.err, "FAIRSEMLAYOUT")

		require.NoError(t, w.rdb.HSet(t.Context(), w.key("meta"), "layout", protocol.Layout).Err())
		w.release(w.must(s.Acquire(t.Context(), 1)))
	})
}

// storeLayout1 stores one holder, as a version that knows layout 1 does.
func (w *world) storeLayout1() {
	w.t.Helper()
	now, err := w.rdb.Time(w.t.Context()).Result()
	require.NoError(w.t, err)
	const id = "7c9e6679-7425-40de-944b-e07fc1f90ae7:1"
	deadline, until := now.Add(time.Hour), now.Add(2*time.Hour)
	keys := []string{w.key("owner"), w.key("timeout"), w.key("counter"), w.key("meta")}
	_, err = w.rdb.TxPipelined(w.t.Context(), func(tx redis.Pipeliner) error {
		tx.ZAdd(w.t.Context(), keys[0], redis.Z{Score: float64(now.UnixMicro()), Member: id})
		tx.ZAdd(w.t.Context(), keys[1], redis.Z{Score: float64(deadline.UnixMilli()), Member: id})
		tx.Set(w.t.Context(), keys[2], now.UnixMicro(), 0)
		tx.HSet(w.t.Context(), keys[3], "layout", 1, "declared", w.limit, "since", now.UnixMicro(), "until", until.UnixMilli(), "granted", 1)
		for _, key := range keys {
			tx.PExpireAt(w.t.Context(), key, until)
		}
		return nil
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, w.rdb.Del(context.Background(), keys...).Err()) })
}

// stored is the contents of all keys of the name.
func (w *world) stored() string {
	w.t.Helper()
	all, err := w.rdb.TxPipelined(w.t.Context(), func(tx redis.Pipeliner) error {
		for _, kind := range protocol.Kinds {
			switch kind {
			case protocol.Counter:
				tx.Get(w.t.Context(), w.key(kind))
			case protocol.Weight, protocol.Meta, protocol.Tenants:
				tx.HGetAll(w.t.Context(), w.key(kind))
			default:
				tx.ZRangeWithScores(w.t.Context(), w.key(kind), 0, -1)
			}
		}
		return nil
	})
	require.NoError(w.t, err)
	return fmt.Sprint(all)
}

// A new process must not read the keys of an old one, which may mean something else to it, and must not write to them.
func TestEveryCallOnKeysOfAnOlderVersionFailsAndSaysWhatToDo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.storeLayout1()
		before := w.stored()
		c := w.client()
		s := w.of(c, w.limit)
		limiter, err := c.Limiter(w.name, 5, time.Second)
		require.NoError(t, err)
		for what, call := range map[string]func(context.Context) error{
			"Acquire":    func(ctx context.Context) error { _, err := s.Acquire(ctx, 1); return err },
			"TryAcquire": func(ctx context.Context) error { _, err := s.TryAcquire(ctx, 1); return err },
			"Wait":       func(ctx context.Context) error { return limiter.Wait(ctx, 1) },
			"Allow":      func(ctx context.Context) error { _, err := limiter.Allow(ctx, 1); return err },
			"Status":     func(ctx context.Context) error { _, err := s.Status(ctx); return err },
			"Holders":    func(ctx context.Context) error { return firstError(s.Holders(ctx)) },
			"Waiters":    func(ctx context.Context) error { return firstError(s.Waiters(ctx)) },
			"Tenants":    func(ctx context.Context) error { return firstError(s.Tenants(ctx)) },
			"SetLimit":   func(ctx context.Context) error { return s.SetLimit(ctx, 9) },
			"ResetLimit": s.ResetLimit,
			"Evict":      func(ctx context.Context) error { return s.Evict(ctx, "7c9e6679-7425-40de-944b-e07fc1f90ae7:1") },
		} {
			err := call(t.Context())
			require.Error(t, err, what)
			assert.NotErrorIs(t, err, fairsem.ErrUnavailable, "%s fails at once", what)
			for _, words := range []string{
				fmt.Sprintf("%q", w.name), "an older version of fairsem wrote these keys",
				fmt.Sprintf("they have layout 1, this version knows layout %d", protocol.Layout), "their keys expire", "docs/upgrading.md",
			} {
				assert.ErrorContains(t, err, words, what)
			}
			assert.Equal(t, before, w.stored(), what)
		}
		require.NoError(t, w.rdb.Del(t.Context(), w.key("owner"), w.key("timeout"), w.key("counter"), w.key("meta")).Err())
		w.release(w.must(s.Acquire(t.Context(), 1)))
	})
}

// In a rolling update an old process that crashes and starts again declares its limit later than the new ones did.
func TestRestartedOldProcessRestoresItsLimitUnlessOneIsSetByHand(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		after := w.of(w.client(), 5)
		w.release(w.must(after.Acquire(t.Context(), 1)))
		before := w.of(w.client(), 2)
		w.release(w.must(before.Acquire(t.Context(), 1)))
		w.release(w.must(after.Acquire(t.Context(), 1)))
		assert.Equal(t, int64(2), w.status(after).Limit, "the newest declaration")

		require.NoError(t, after.SetLimit(t.Context(), 5))
		w.release(w.must(w.of(w.client(), 2).Acquire(t.Context(), 1)))
		assert.Equal(t, int64(5), w.status(after).Limit, "the limit set by hand")
		require.NoError(t, after.ResetLimit(t.Context()))
	})
}
