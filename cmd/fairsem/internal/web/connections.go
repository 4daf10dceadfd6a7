package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// maxConnections is more than can be busy at a time, so that there is always an idle one to close for a new one.
const maxConnections = maxPages + maxStreams + maxScrapes + 32

// connectionLimit bounds the connections. Where there are too many it closes an idle one, the oldest of the network that
// has the most: idle connections cannot block others. The HTTP server reports each change.
type connectionLimit struct {
	most int

	mu   sync.Mutex
	turn int64                   // guarded by mu
	open map[net.Conn]connection // guarded by mu
	of   map[netip.Prefix]int    // how many; guarded by mu
}

type connection struct {
	from netip.Prefix
	idle bool  // no request of it is being answered
	turn int64 // when it became what it is
}

func newConnectionLimit(most int) *connectionLimit {
	return &connectionLimit{most: most, open: make(map[net.Conn]connection), of: make(map[netip.Prefix]int)}
}

// changed is for http.Server.ConnState.
func (c *connectionLimit) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn++
	from := network(conn.RemoteAddr().String())
	switch state {
	case http.StateNew:
		c.of[from]++
		c.open[conn] = connection{from, true, c.turn}
		if len(c.open) > c.most {
			c.closeLocked(c.oldestLocked(conn))
		}
	case http.StateIdle, http.StateActive:
		if _, ok := c.open[conn]; ok {
			c.open[conn] = connection{from, state == http.StateIdle, c.turn}
		}
	case http.StateClosed, http.StateHijacked:
		c.forgetLocked(conn)
	}
}

// oldestLocked is the connection that is to be closed for a new one: if none is idle, the new one.
func (c *connectionLimit) oldestLocked(newest net.Conn) net.Conn {
	victim := newest
	for conn, this := range c.open {
		best := c.open[victim]
		if this.idle && (c.of[this.from] > c.of[best.from] || c.of[this.from] == c.of[best.from] && this.turn < best.turn) {
			victim = conn
		}
	}
	return victim
}

func (c *connectionLimit) closeLocked(conn net.Conn) {
	c.forgetLocked(conn)
	if secure, ok := conn.(*tls.Conn); ok { // Close of a TLS connection waits to send its end
		conn = secure.NetConn()
	}
	_ = conn.Close() // the server sees that it is closed
}

func (c *connectionLimit) forgetLocked(conn net.Conn) {
	this, ok := c.open[conn]
	if !ok {
		return
	}
	delete(c.open, conn)
	if c.of[this.from]--; c.of[this.from] == 0 {
		delete(c.of, this.from)
	}
}
