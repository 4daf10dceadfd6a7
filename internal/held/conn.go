package held

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/fairsem/fairsem"
)

// Conn returns inner as a connection that releases the permit of the name when it is closed. Unless keep is set, the end of
// the permit closes the connection, and errors of Read, Write and io.Copy then say so.
//
// The result for a *net.TCPConn, a *net.UnixConn or a *tls.Conn has all their methods. For any other connection it has
// CloseWrite, CloseRead beside CloseWrite, and SyscallConn, each if inner has it. All but that for a *tls.Conn, which has a
// NetConn of its own, have NetConn, which returns inner.
func Conn(inner net.Conn, p *fairsem.Permit, name string, keep bool) net.Conn {
	l := &lease{permit: p, name: name}
	if !keep {
		l.stop = context.AfterFunc(p.Context(), func() {
			l.over.Store(true)
			_ = abrupt(inner).Close() // Read and Write report it
		})
	}
	switch c := inner.(type) {
	case *net.TCPConn:
		return &tcpConn{c, l}
	case *net.UnixConn:
		return &unixConn{c, l}
	case *tls.Conn:
		return &tlsConn{c, l}
	}
	return withMethods(&conn{inner, l})
}

// lease is the permit of a connection.
type lease struct {
	permit *fairsem.Permit
	name   string
	over   atomic.Bool // the permit ended before the connection was closed
	closed atomic.Bool // Close was called
	used   atomic.Bool // something was written
	stop   func() bool // of the wait for the end of the permit; nil: there is none
}

// IsUsed reports whether anything was written to a connection that Conn has returned.
func IsUsed(c net.Conn) bool { return c.(interface{ isUsed() bool }).isUsed() }

func (c *tcpConn) isUsed() bool  { return c.lease.used.Load() }
func (c *unixConn) isUsed() bool { return c.lease.used.Load() }
func (c *tlsConn) isUsed() bool  { return c.lease.used.Load() }
func (c *conn) isUsed() bool     { return c.lease.used.Load() }

// abrupt returns the part to close of a connection that may not be used for a moment longer: Close of a *tls.Conn first sends an alert, for
// which it waits up to five seconds if the peer reads nothing. One may be within another type that has NetConn, too.
func abrupt(c net.Conn) net.Conn {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok && outer.NetConn() != nil {
		return abrupt(outer.NetConn())
	}
	return c
}

// close closes the connection, and releases the permit when that is done. Called again it does nothing, also while the first call goes on.
func (l *lease) close(inner func() error) error {
	if !l.closed.CompareAndSwap(false, true) {
		return l.explain(net.ErrClosed)
	}
	defer func() {
		if l.stop != nil {
			l.stop()
		}
		Release(l.permit)
	}()
	return l.explain(inner())
}

// explain adds to an error that the end of the permit closed the connection.
func (l *lease) explain(err error) error {
	if err == nil || !l.over.Load() {
		return err
	}
	return Lost(err, l.permit, l.name)
}

type tcpConn struct {
	*net.TCPConn
	lease *lease
}

func (c *tcpConn) NetConn() net.Conn { return c.TCPConn }

func (c *tcpConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	return n, c.lease.explain(err)
}

func (c *tcpConn) Write(b []byte) (int, error) {
	c.lease.used.Store(true)
	n, err := c.TCPConn.Write(b)
	return n, c.lease.explain(err)
}

// ReadFrom and WriteTo are for io.Copy. Those of the inner connection read and write it past Read and Write.
func (c *tcpConn) ReadFrom(r io.Reader) (int64, error) {
	c.lease.used.Store(true)
	n, err := c.TCPConn.ReadFrom(r)
	return n, c.lease.explain(err)
}

func (c *tcpConn) WriteTo(w io.Writer) (int64, error) {
	n, err := c.TCPConn.WriteTo(w)
	return n, c.lease.explain(err)
}

func (c *tcpConn) Close() error {
	return c.lease.close(c.TCPConn.Close)
}

type unixConn struct {
	*net.UnixConn
	lease *lease
}

func (c *unixConn) NetConn() net.Conn { return c.UnixConn }

func (c *unixConn) Read(b []byte) (int, error) {
	n, err := c.UnixConn.Read(b)
	return n, c.lease.explain(err)
}

func (c *unixConn) Write(b []byte) (int, error) {
	c.lease.used.Store(true)
	n, err := c.UnixConn.Write(b)
	return n, c.lease.explain(err)
}

func (c *unixConn) Close() error {
	return c.lease.close(c.UnixConn.Close)
}

type tlsConn struct {
	*tls.Conn
	lease *lease
}

func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.lease.explain(err)
}

func (c *tlsConn) Write(b []byte) (int, error) {
	c.lease.used.Store(true)
	n, err := c.Conn.Write(b)
	return n, c.lease.explain(err)
}

func (c *tlsConn) Close() error {
	return c.lease.close(c.Conn.Close)
}

// conn is a connection of any other type.
type conn struct {
	net.Conn
	lease *lease
}

func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.lease.explain(err)
}

func (c *conn) Write(b []byte) (int, error) {
	c.lease.used.Store(true)
	n, err := c.Conn.Write(b)
	return n, c.lease.explain(err)
}

func (c *conn) Close() error {
	return c.lease.close(c.Conn.Close)
}

type writeCloser interface{ CloseWrite() error }

type halfCloser interface {
	CloseRead() error
	writeCloser
}

// withMethods returns c with those of the optional methods of connections that its inner connection has.
func withMethods(c *conn) net.Conn {
	raw, isRaw := c.Conn.(syscall.Conn)
	write, hasWrite := c.Conn.(writeCloser)
	half, hasHalf := c.Conn.(halfCloser)
	switch {
	case isRaw && hasHalf:
		return struct {
			*conn
			syscall.Conn
			halfCloser
		}{c, raw, half}
	case isRaw && hasWrite:
		return struct {
			*conn
			syscall.Conn
			writeCloser
		}{c, raw, write}
	case isRaw:
		return struct {
			*conn
			syscall.Conn
		}{c, raw}
	case hasHalf:
		return struct {
			*conn
			halfCloser
		}{c, half}
	case hasWrite:
		return struct {
			*conn
			writeCloser
		}{c, write}
	}
	return c
}
