package web

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// maxConnections is more than can have a request that is being answered, of one network or of all, so that there is an idle one to
// close for a new one. Only clients that do not read their answers are busy beyond that.
const maxConnections = maxPages + maxStreams + maxScrapes + 32

// connectionLimit bounds the connections. Where there are too many it closes an idle one, the oldest of the network that
// has the most: idle connections cannot block others. Nor can busy ones of a network that has more than half: that is more
// than requests in flight can have, so there they are closed, too. The HTTP server reports each change.
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
	turn int64 // when it became idle or busy
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

// oldestLocked is the connection that is to be closed for a new one: if there is no other, the new one.
func (c *connectionLimit) oldestLocked(newest net.Conn) net.Conn {
	victim := newest
	for conn, this := range c.open {
		if (this.idle || c.of[this.from] > c.most/2) && c.closesBeforeLocked(this, c.open[victim]) {
			victim = conn
		}
	}
	return victim
}

// closesBeforeLocked orders those that may be closed: by how many their network has, idle ones first, the oldest first.
func (c *connectionLimit) closesBeforeLocked(a, b connection) bool {
	return cmp.Or(cmp.Compare(c.of[b.from], c.of[a.from]), cmp.Compare(boolValue(b.idle), boolValue(a.idle)), cmp.Compare(a.turn, b.turn)) < 0
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
