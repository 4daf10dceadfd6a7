package fairsemtest

import (
	"net"
	"sync"
	"time"
)

// conn is one end of a connection in memory. It is a [net.Pipe] with a feature that only a
// socket has: a buffer for writes. Without one, a client that writes a long pipeline would wait for a
// server that waits for the client to read.
type conn struct {
	net.Conn
	flushed chan struct{} // closed when flush has returned

	mu      sync.Mutex
	changed sync.Cond // unsent or closed has
	unsent  []byte
	closed  bool
}

// connect returns both ends of a connection.
func connect() (near, far *conn) {
	a, b := net.Pipe()
	return newConn(a), newConn(b)
}

func newConn(end net.Conn) *conn {
	c := &conn{Conn: end, flushed: make(chan struct{})}
	c.changed.L = &c.mu
	go c.flush() // ends at Close, which waits for flushed
	return c
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.unsent = append(c.unsent, b...)
	c.changed.Signal()
	return len(b), nil
}

// flush sends the written bytes, until the connection is closed at either end.
func (c *conn) flush() {
	defer close(c.flushed)
	for b := c.next(); b != nil; b = c.next() {
		if _, err := c.Conn.Write(b); err != nil {
			return // the next reader sees it, too
		}
	}
}

// next waits for something to send. Nil: the connection is closed.
func (c *conn) next() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.unsent) == 0 && !c.closed {
		c.changed.Wait()
	}
	if c.closed {
		return nil
	}
	b := c.unsent
	c.unsent = nil
	return b
}

func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Signal()
	c.mu.Unlock()
	err := c.Conn.Close()
	<-c.flushed
	return err
}

// SetDeadline is for reads only: writes never wait.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetWriteDeadline(time.Time) error { return nil }
