package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// store is what a semaphore of limit 1 is for: a counter that one process at a time reads and writes
// back one higher. It is kept twice. The fenced twin refuses whoever comes with a lower token than it has
// seen; the other believes everybody, and shows what a paused holder does to it.
type store struct {
	listener net.Listener
	writing  chan string // the processes that are about to write, for a nemesis that wants to know

	mu       sync.Mutex
	fenced   register // guarded by mu
	unfenced register // guarded by mu
}

type register struct {
	value   int64
	seen    int64 // the largest token
	writes  int64 // that it took
	refused int64
}

// lost is how many writes were overwritten by somebody who had not read them.
func (r register) lost() int64 { return r.writes - r.value }

// Visit is what a holder says to the store.
type Visit struct {
	Process          string
	Token            int64
	Fenced, Unfenced int64 // the values to write
	Refused          bool  // by the fenced twin, before
}

func startStore() (*store, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{listener: listener, writing: make(chan string)}
	server := rpc.NewServer()
	if err := server.RegisterName("Store", &counter{s}); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go s.accept(server) // ends when stop closes the listener
	return s, nil
}

// accept serves every worker for as long as that lives.
func (s *store) accept(server *rpc.Server) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(conn) // ends with the worker, which the team waits for
	}
}

func (s *store) addr() string { return s.listener.Addr().String() }

func (s *store) stop() error { return s.listener.Close() }

// result is both twins as they are now.
func (s *store) result() (fenced, unfenced register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fenced, s.unfenced
}

// counter has the calls that go over the network.
type counter struct{ store *store }

// Read tells both values. A read shows a token too: whoever reads later has to be the later writer.
func (c *counter) Read(v Visit, out *Visit) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	*out = v
	out.Refused = !c.store.fenced.admits(v.Token)
	out.Fenced, out.Unfenced = c.store.fenced.value, c.store.unfenced.value
	return nil
}

// Send says that a write is on its way. A nemesis may be waiting for this.
func (c *counter) Send(v Visit, _ *Visit) error { //nolint:unparam // net/rpc wants it
	select {
	case c.store.writing <- v.Process:
	default:
	}
	return nil
}

// Write takes the values.
func (c *counter) Write(v Visit, _ *Visit) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if !v.Refused && c.store.fenced.admits(v.Token) {
		c.store.fenced.value, c.store.fenced.writes = v.Fenced, c.store.fenced.writes+1
	}
	c.store.unfenced.value, c.store.unfenced.writes = v.Unfenced, c.store.unfenced.writes+1
	return nil
}

func (r *register) admits(token int64) bool {
	if token < r.seen {
		r.refused++
		return false
	}
	r.seen = token
	return true
}

// update is one turn of a writer: read, work, see that the permit is still good, write.
func (w *worker) update(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: soloName}
	c.Weight = 1
	p, err := w.ask(ctx, w.solo, c, 3*time.Second)
	if p == nil {
		return err
	}
	v := Visit{Process: w.order.Process, Token: p.Token()}
	if err := w.store.Call("Store.Read", v, &v); err != nil {
		return err
	}
	v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
	w.hold(ctx, c, p, time.Duration(random.Int64N(int64(5*time.Millisecond))))
	if look(c, p) {
		if err := w.write(ctx, v); err != nil {
			return err
		}
	}
	return w.giveBack(ctx, c, p)
}

// inFlight is how long a write takes from the look at the permit to the store. Nothing can call it back.
const inFlight = 5 * time.Millisecond

func (w *worker) write(ctx context.Context, v Visit) error {
	if err := w.store.Call("Store.Send", v, &v); err != nil {
		return err
	}
	for began := history.Now(); history.Now() < began+int64(inFlight) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return w.store.Call("Store.Write", v, &v)
}
