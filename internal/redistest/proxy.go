package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
)

// Proxy is a TCP proxy on 127.0.0.1 that can simulate a bad network. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	requests gate // towards the target
	replies  gate // back to the clients
	running  sync.WaitGroup

	mu     sync.Mutex
	young  *gate           // of the connections since the last HoldOpen, towards the target; guarded by mu
	old    []*gate         // of those that are held; guarded by mu
	target string          // guarded by mu
	links  context.Context // of all connections since the last Cut; guarded by mu
	cut    func()          // ends links; guarded by mu
	closed bool            // guarded by mu
	delay  time.Duration   // of every reply; guarded by mu
	nth    int             // the nth script from now loses its reply; 0: none does; guarded by mu
	hole   bool            // the connection that loses a reply stays open; guarded by mu
}

// StartProxy starts a proxy to target, a "host:port" that need not listen yet. It closes a connection whose target it cannot
// reach. If StartProxy fails, it leaves nothing behind.
func StartProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	p := &Proxy{target: target, listener: listener, young: &gate{}}
	p.links, p.cut = context.WithCancel(context.Background())
	// Close closes the listener, which ends this goroutine, and waits for it.
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the "127.0.0.1:port" of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold stops all data: connections stay open and new ones are accepted, but nothing that either side sends from now on arrives,
// not even the end of a connection. Resume delivers it.
func (p *Proxy) Hold() {
	p.requests.close()
	p.replies.close()
}

// HoldReplies holds only the data that the target sends: requests are executed, but no reply arrives. A Cut before Resume loses the
// replies for good.
func (p *Proxy) HoldReplies() { p.replies.close() }

// HoldRequests holds only the data that the clients send: requests are executed after Resume, or never if a Cut comes first.
func (p *Proxy) HoldRequests() { p.requests.close() }

// HoldOpen holds only the data that clients send on connections that are open now: what they try again on a new one is executed first, and
// the copy after Resume.
func (p *Proxy) HoldOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.young.close()
	p.old, p.young = append(p.old, p.young), &gate{}
}

// Resume delivers the held data, and forwards again.
func (p *Proxy) Resume() {
	p.requests.open()
	p.replies.open()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.old {
		g.open()
	}
	p.old = nil
}

// Delay delays every reply by d from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// LoseReply loses the reply to the nth script from now on (1 is the next one), after the server has executed it. The connection
// that sent it then ends or, with hole, stays open and silent. A script is an EVAL or an EVALSHA. Scripts that arrive in one
// read all lose their replies.
func (p *Proxy) LoseReply(nth int, hole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nth, p.hole = nth, hole
}

// losesReply counts the scripts in the data that a client sent. It reports whether the script that loses its reply is among them.
func (p *Proxy) losesReply(sent []byte) (lost, hole bool) {
	scripts := bytes.Count(bytes.ToLower(sent), []byte("\r\neval"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if scripts == 0 || p.nth == 0 {
		return false, false
	}
	lost = scripts >= p.nth
	p.nth = max(0, p.nth-scripts)
	return lost, p.hole
}

func (p *Proxy) replyDelay() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// Cut closes all current connections on both sides. Held data is lost. New connections work, or are held if the proxy
// holds.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	if !p.closed {
		p.links, p.cut = context.WithCancel(context.Background())
	}
}

// Redirect cuts all current connections and connects new ones to another target, like an address that follows the primary.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Close cuts all connections and accepts no more. It returns when all goroutines have ended. A second call does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	var err error
	if !again {
		err = p.listener.Close()
	}
	p.Cut()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		links, own, target := p.links, p.young, p.target
		p.mu.Unlock()
		// Cut and Close end links, which ends this goroutine. Close waits for it.
		p.running.Go(func() { p.serve(links, own, client, target) })
	}
}

// serve forwards one connection until it ends.
func (p *Proxy) serve(links context.Context, own *gate, client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	if !p.requests.pass(links) {
		return
	}
	server, err := new(net.Dialer).DialContext(links, "tcp", target)
	if err != nil {
		return
	}
	link, end := context.WithCancel(links)
	defer end()
	var lost, hole atomic.Bool // whether this connection loses its replies, and whether it then stays open
	request := func(sent []byte) bool {
		if loses, silent := p.losesReply(sent); loses {
			hole.Store(silent)
			lost.Store(true)
		}
		return own.pass(link)
	}
	reply := func([]byte) bool {
		if lost.Load() && !hole.Load() {
			end()
		}
		if d := p.replyDelay(); d > 0 {
			clock.Sleep(link, d)
		}
		return !lost.Load()
	}
	var pumps sync.WaitGroup
	// Each ends when one of its connections is closed, which happens below at the latest. Wait below waits for both.
	pumps.Go(func() { defer end(); pump(link, server, client, &p.requests, request) })
	pumps.Go(func() { defer end(); pump(link, client, server, &p.replies, reply) })
	<-link.Done()
	_ = client.Close()
	_ = server.Close()
	pumps.Wait()
}

// pump forwards the data for which passes returns true, until one side ends. It waits for the gate after each read, so that it
// holds data sent after a Hold even if the read began before.
func pump(link context.Context, to, from net.Conn, g *gate, passes func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, end := from.Read(buf)
		if !g.pass(link) {
			return
		}
		if passes(buf[:n]) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if end != nil {
			return
		}
	}
}

// gate blocks one direction of the proxy while it is closed. The zero value is open.
type gate struct {
	mu   sync.Mutex
	held chan struct{} // nil while the gate is open; open closes it; guarded by mu
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

// pass waits until the gate is open. It returns false as soon as ctx ends.
func (g *gate) pass(ctx context.Context) bool {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held == nil {
		return ctx.Err() == nil
	}
	select {
	case <-held:
		return true
	case <-ctx.Done():
		return false
	}
}
