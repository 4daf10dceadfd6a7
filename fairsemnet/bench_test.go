package fairsemnet_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// peer returns the address of a server that closes every connection at once.
func peer(b *testing.B) string {
	b.Helper()
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
	return l.Addr().String()
}

func BenchmarkDial(b *testing.B) {
	addr, s := peer(b), worldtest.Unreached(b, nil)
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
	b.Run("pair", func(b *testing.B) { worldtest.BenchmarkPair(b, s) })
}

// The cost of a connection beside its dial and a pair of acquire and release.
func TestDialerMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	cost := worldtest.NewCost(t)
	here, there := net.Pipe()
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
	d := &fairsemnet.Dialer{Semaphore: cost.Limit, Options: fairsemnet.Options{Dial: func(context.Context, string, string) (net.Conn, error) { return here, nil }}}
	n := cost.Allocations(t, func() {
		c, err := d.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		_ = c.Close()
	})
	assert.LessOrEqual(t, n, 20.0)
}
