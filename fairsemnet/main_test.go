package fairsemnet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) { worldtest.Main[order](func() int { return redistest.Main(m) }) }

// world is a limit of its own on a server.
type world struct{ *worldtest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{worldtest.New(t)}
}

// dial returns a connection, which the end of the test closes.
func (w *world) dial(d *fairsemnet.Dialer, network, address string) net.Conn {
	w.Helper()
	c, err := d.DialContext(w.Context(), network, address)
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() }) // most tests have closed it
	return c
}

// listen starts a server that keeps every connection until its peer closes it.
func (w *world) listen(network, address string) net.Listener {
	w.Helper()
	l, err := net.Listen(network, address)
	require.NoError(w, err)
	w.serve(l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	return l
}

// serve calls handle with each connection of l until the end of the test, and closes the connection then.
func (w *world) serve(l net.Listener, handle func(net.Conn)) {
	done := make(chan struct{})
	w.Cleanup(func() {
		assert.NoError(w, l.Close())
		<-done
	})
	go func() { // ends with the listener, whose clean-up waits for it
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection, which the test closes
				defer func() { _ = c.Close() }()
				handle(c)
			}()
		}
	}()
}

func (w *world) tcp() string { return w.listen("tcp", "127.0.0.1:0").Addr().String() }

// order is the task of a worker process.
type order struct {
	Redis, Name, Peer string
	Limit             int64
	TTL               time.Duration
	Hold              bool // dial once, say so, and keep the connection until killed
	Rounds            int  // otherwise: dial this often in each of four goroutines
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	s, err := client.Semaphore(o.Name, o.Limit)
	if err != nil {
		return err
	}
	d := &fairsemnet.Dialer{Semaphore: s}
	if o.Hold {
		if _, err := d.DialContext(ctx, "tcp", o.Peer); err != nil {
			return err
		}
		fmt.Println("ready")
		<-ctx.Done()
		return ctx.Err()
	}
	err = worldtest.InFour(o.Rounds, func() error { return o.round(ctx, d) })
	return errors.Join(err, client.Close())
}

// round opens a connection, and closes it when the server knows that it will.
func (o order) round(ctx context.Context, d *fairsemnet.Dialer) error {
	c, err := d.DialContext(ctx, "tcp", o.Peer)
	if err != nil {
		return err
	}
	buf := make([]byte, 1)
	_, err = io.ReadFull(c, buf) // it was counted
	if err == nil {
		_, err = c.Write(buf)
	}
	if err == nil {
		_, err = io.ReadFull(c, buf) // it is not counted any more
	}
	return errors.Join(err, c.Close())
}
