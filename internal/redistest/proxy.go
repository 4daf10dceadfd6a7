package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy on 127.0.0.1 that can play a bad network. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	requests gate // towards the target
	replies  gate // back to the clients
	running  sync.WaitGroup

	mu     sync.Mutex
	target string          // guarded by mu
	links  context.Context // ends one generation of connections, replaced by Cut; guarded by mu
	cut    func()          // guarded by mu
	closed bool            // guarded by mu
	delay  time.Duration   // of every reply; guarded by mu
	doomed int             // how many scripts from now the reply gets lost; 0: none does; guarded by mu
	hole   bool            // and whether its connection stays open; guarded by mu
}

// StartProxy starts a proxy in front of target, a "host:port" that need not listen yet: a connection whose target cannot
// be reached is closed. On failure nothing is left behind.
func StartProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	p := &Proxy{target: target, listener: listener}
	p.links, p.cut = context.WithCancel(context.Background())
	// Close stops it, by closing the listener, and waits for it.
	p.running.Go(p.accept)
	return p, nil
}

// Addr is the proxy's "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Hold turns the network into a black hole: connections stay open and new ones are accepted, but nothing that either
// side sends from now on arrives, not even that it closes. Resume delivers it.
func (p *Proxy) Hold() {
	p.requests.shut()
	p.replies.shut()
}

// HoldReplies holds only what the target sends: requests are executed, and no reply arrives. Followed by a Cut this loses
// a reply for good.
func (p *Proxy) HoldReplies() { p.replies.shut() }

// HoldRequests holds only what the clients send: it is executed late, or after a Cut never.
func (p *Proxy) HoldRequests() { p.requests.shut() }

// Resume delivers what was kept back and goes on as if nothing had been.
func (p *Proxy) Resume() {
	p.requests.open()
	p.replies.open()
}

// Delay has every reply arrive later by so much, from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// LoseReply has the connection that sends the nth script from now (1 is the next one) lose the reply to it, after the
// server has executed it: the connection ends there or, with hole, stays open and silent. A script is an EVAL or an
// EVALSHA; of those that arrive in one piece all lose their reply.
func (p *Proxy) LoseReply(nth int, hole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed, p.hole = nth, hole
}

// dooms counts the scripts in what a client sends, and reports whether the one that loses its reply is among them.
func (p *Proxy) dooms(sent []byte) (lost, hole bool) {
	scripts := bytes.Count(bytes.ToLower(sent), []byte("\r\neval"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if scripts == 0 || p.doomed == 0 {
		return false, false
	}
	lost = scripts >= p.doomed
	p.doomed = max(0, p.doomed-scripts)
	return lost, p.hole
}

func (p *Proxy) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// Cut closes all present connections on both sides; what they kept back is lost. New connections work, or are held if
// the proxy holds.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
	if !p.closed {
		p.links, p.cut = context.WithCancel(context.Background())
	}
}

// Redirect cuts all present connections and has new ones go to another target, as an address does that follows the
// primary.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Close cuts all connections, accepts no more and returns when all goroutines have ended. The second call does nothing.
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
		links, target := p.links, p.target
		p.mu.Unlock()
		// Cut and Close stop it by ending links; Close waits for it.
		p.running.Go(func() { p.serve(links, client, target) })
	}
}

// serve lives as long as one connection.
func (p *Proxy) serve(links context.Context, client net.Conn, target string) {
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
	var lost, hole atomic.Bool // whether the replies of this connection get lost
	watch := func(sent []byte) bool {
		if doomed, silent := p.dooms(sent); doomed {
			hole.Store(silent)
			lost.Store(true)
		}
		return true
	}
	drop := func([]byte) bool {
		if lost.Load() && !hole.Load() {
			end()
		}
		if d := p.late(); d > 0 {
			pause(link, d)
		}
		return !lost.Load()
	}
	var pumps sync.WaitGroup
	// Each ends when its reader or writer closes, which happens below at the latest, where both are waited for.
	pumps.Go(func() { defer end(); pump(link, server, client, &p.requests, watch) })
	pumps.Go(func() { defer end(); pump(link, client, server, &p.replies, drop) })
	<-link.Done()
	_ = client.Close()
	_ = server.Close()
	pumps.Wait()
}

// pause returns after d or with ctx, whichever is first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pump forwards what it is shown first and lets pass, until one side ends. The gate is asked after each read, so that what was sent after a Hold is held even
// if the pump was reading before.
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

// gate is open at first.
type gate struct {
	mu   sync.Mutex
	held chan struct{} // nil while open, closed by open; guarded by mu
}

func (g *gate) shut() {
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

// pass waits until the gate is open. It returns false, at once, when ctx ends.
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
