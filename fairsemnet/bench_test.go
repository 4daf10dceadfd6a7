package fairsemnet_test

import (
	"context"
	"math"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/held"
	"github.com/fairsem/fairsem/internal/redistest"
)

// rig is what measurements compare: a peer, and a limit that is never reached, with an observer.
func rig(b testing.TB, observer fairsem.Observer) (peer string, s *fairsem.Semaphore) {
	b.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.SharedServer(b).Addr()})
	b.Cleanup(func() { assert.NoError(b, rdb.Close()) })
	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, client.Close()) })
	s, err = client.Semaphore(b.Name(), 1_000_000)
	require.NoError(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, l.Close()) })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close() // the peer dials and closes, nothing more
		}
	}()
	return l.Addr().String(), s
}

func BenchmarkDial(b *testing.B) {
	addr, s := rig(b, nil)
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c, err := new(net.Dialer).DialContext(b.Context(), "tcp", addr)
			require.NoError(b, err)
			_ = c.Close()
		}
	})
	b.Run("limited", func(b *testing.B) {
		b.ReportAllocs()
		d := &fairsemnet.Dialer{Semaphore: s}
		for b.Loop() {
			c, err := d.DialContext(b.Context(), "tcp", addr)
			require.NoError(b, err)
			_ = c.Close()
		}
	})
	b.Run("pair", func(b *testing.B) { // of acquire and release, without a connection
		b.ReportAllocs()
		for b.Loop() {
			p, err := s.Acquire(b.Context(), 1)
			require.NoError(b, err)
			_ = p.Release(b.Context())
		}
	})
}

// What a connection costs beside its dial and a pair of acquire and release.
func TestDialerMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	released := make(chan struct{}, 1)
	_, s := rig(t, func(e fairsem.Event) {
		if _, ok := e.(fairsem.ReleasedEvent); ok {
			released <- struct{}{}
		}
	})
	// allocations counts what f allocates until its permit is released, so that no release shares a batch with the next acquire. What
	// others allocate meanwhile, such as renewals, only adds to it.
	allocations := func(f func()) float64 {
		least := math.Inf(1)
		for range 4 {
			least = min(least, testing.AllocsPerRun(50, func() {
				f()
				<-released
			}))
		}
		return least
	}
	here, there := net.Pipe()
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }}}
	pair := allocations(func() {
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		held.Release(p)
	})
	limited := allocations(func() {
		c, err := d.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		_ = c.Close()
	})
	t.Logf("a pair: %v, a limited dial: %v", pair, limited)
	assert.LessOrEqual(t, limited-pair, 20.0)
}
