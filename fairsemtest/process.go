package fairsemtest

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
)

// process is the clients that share a pool of connections.
type process struct {
	server *Server
	name   string // of its connections, by CLIENT SETNAME
	redis  *redis.Client

	// Guarded by server.mu.
	client *fairsem.Client // nil: it is not one of Server.Client
	dead   bool
	conns  []net.Conn // that have been open at some time, nil while it is cut off
}

func (p *process) isCutOff() bool { return p.dead || p.server.down }

// dial connects to the server; while the process is disconnected, to nothing. It never fails: go-redis would go on
// dialing in the background, also after its client was closed.
func (p *process) dial(context.Context, string, string) (net.Conn, error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	near, far := connect()
	if p.isCutOff() {
		_ = far.Close() // nothing is in it
		return near, nil
	}
	p.server.front.ServeConn(far)
	p.conns = append(p.conns, near)
	return near, nil
}

// hangUp ends all connections. Data in flight is lost.
func (p *process) hangUp() {
	for _, c := range p.conns {
		_ = c.Close() // it may be closed already
	}
	p.conns = nil
}

// meetClient learns the id of a fairsem client from a script that it runs.
func (p *process) meetClient(command []string) {
	if id := protocol.Caller(command); id != "" {
		p.server.clients[id] = p
	}
}

// reconnect lets the process release its permits, at the end of the test.
func (p *process) reconnect() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.server.down, p.dead = false, false
}
