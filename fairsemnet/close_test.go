package fairsemnet_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
)

// stuck is a connection whose Write waits once it is full, as for a peer that reads nothing.
type stuck struct {
	net.Conn
	full    atomic.Bool
	writes  chan struct{} // one waits
	goOn    chan struct{}
	closed  chan struct{}
	closing sync.Once
}

func (c *stuck) Write(b []byte) (int, error) {
	if !c.full.Load() {
		return c.Conn.Write(b)
	}
	c.writes <- struct{}{}
	select {
	case <-c.goOn:
	case <-c.closed:
	}
	return 0, net.ErrClosed
}

func (c *stuck) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// stuckTLS dials a TLS server through a connection that is then full. The Dialer sees what as makes of the connection.
func (w *world) stuckTLS(s *fairsem.Semaphore, as func(*tls.Conn) net.Conn) (net.Conn, *stuck) {
	w.Helper()
	server := httptest.NewTLSServer(nil)
	w.Cleanup(server.Close)
	raw := &stuck{writes: make(chan struct{}, 10), goOn: make(chan struct{}), closed: make(chan struct{})}
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		if raw.Conn, err = new(net.Dialer).DialContext(ctx, network, address); err != nil {
			return nil, err
		}
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com" // of its certificate
		c := tls.Client(raw, config)
		return as(c), c.HandshakeContext(ctx)
	}}}
	c := w.dial(d, "tcp", server.Listener.Addr().String())
	raw.full.Store(true)
	return c, raw
}

func itself(c *tls.Conn) net.Conn { return c }

// Close of a TLS connection sends an alert first, and waits for that.
func TestLostTLSConnectionIsClosedThoughItsPeerReadsNothing(t *testing.T) {
	for what, as := range map[string]func(*tls.Conn) net.Conn{
		"bare":            itself,
		"in another type": func(c *tls.Conn) net.Conn { return struct{ *tls.Conn }{c} },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			s := w.Semaphore(1)
			_, raw := w.stuckTLS(s, as)
			w.Evict(s)
			select {
			case <-raw.closed:
			case <-time.After(time.Minute):
				t.Error("it is open")
				close(raw.goOn)
			}
		})
	}
}

func TestSecondCloseDoesNotReleaseWhatTheFirstStillCloses(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c, raw := w.stuckTLS(s, itself)
	first := make(chan error, 1)
	go func() { first <- c.Close() }() // ends with the test
	<-raw.writes
	assert.ErrorIs(t, c.Close(), net.ErrClosed)
	for range 20 { // a release that was on its way would be counted
		assert.Equal(t, int64(1), w.Status(s).Used)
	}
	close(raw.goOn)
	assert.Error(t, <-first, "its alert was not sent")
	w.EventuallyUsed(s, 0)
}
