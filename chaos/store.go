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

// store is a counter that one process at a time increments, by reading it and writing it back. A semaphore of limit 1 guards it.
// There are two copies. The fenced one refuses a token that is lower than one it has seen. The unfenced one accepts all tokens
// and shows what a paused holder does to it.
type store struct {
	listener net.Listener
	writing  chan string // the processes that are about to write, for a strike that needs to know

	mu       sync.Mutex
	fenced   register // guarded by mu
	unfenced register // guarded by mu
}

type register struct {
	value    int64
	maxToken int64 // the largest token
	writes   int64 // that it accepted
	refused  int64
}

// lost returns how many writes were overwritten by a process that had not read them.
func (r register) lost() int64 { return r.writes - r.value }

// Access is the argument of every call that a holder makes to the store.
type Access struct {
	Process          string
	Token            int64
	Fenced, Unfenced int64 // the values to write
	Refused          bool  // by the fenced copy, at the read
}

func startStore() (*store, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{listener: listener, writing: make(chan string)}
	server := rpc.NewServer()
	if err := server.RegisterName("Store", &storeServer{s}); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	go s.accept(server) // ends when stop closes the listener
	return s, nil
}

// accept serves every worker until it ends.
func (s *store) accept(server *rpc.Server) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(conn) // ends with the worker, for which processSet.stop waits
	}
}

func (s *store) addr() string { return s.listener.Addr().String() }

func (s *store) stop() error { return s.listener.Close() }

// result returns both copies as they are now.
func (s *store) result() (fenced, unfenced register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fenced, s.unfenced
}

// storeServer has the methods that workers call over the network.
type storeServer struct{ store *store }

// Read returns both values. It also records the token, so that after a read no write with a lower token is accepted.
func (c *storeServer) Read(v Access, out *Access) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	*out = v
	out.Refused = !c.store.fenced.accepts(v.Token)
	out.Fenced, out.Unfenced = c.store.fenced.value, c.store.unfenced.value
	return nil
}

// Send reports that a write is in flight. A strike may wait for this.
func (c *storeServer) Send(v Access, _ *Access) error { //nolint:unparam // net/rpc requires it
	select {
	case c.store.writing <- v.Process:
	default:
	}
	return nil
}

// Write stores the values.
func (c *storeServer) Write(v Access, _ *Access) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if !v.Refused && c.store.fenced.accepts(v.Token) {
		c.store.fenced.value, c.store.fenced.writes = v.Fenced, c.store.fenced.writes+1
	}
	c.store.unfenced.value, c.store.unfenced.writes = v.Unfenced, c.store.unfenced.writes+1
	return nil
}

func (r *register) accepts(token int64) bool {
	if token < r.maxToken {
		r.refused++
		return false
	}
	r.maxToken = token
	return true
}

// writeStore reads the store, works, checks that the permit is still live, and writes.
func (w *worker) writeStore(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: soloName}
	c.Weight = 1
	p, err := w.acquire(ctx, w.solo, c, 3*time.Second)
	if p == nil {
		return err
	}
	v := Access{Process: w.config.Process, Token: p.Token()}
	if err := w.store.Call("Store.Read", v, &v); err != nil {
		return err
	}
	v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
	w.holdPolling(ctx, c, p, time.Duration(random.Int64N(int64(5*time.Millisecond))))
	if checkLive(c, p) {
		if err := w.sendWrite(ctx, v); err != nil {
			return err
		}
	}
	return w.release(ctx, c, p)
}

// writeDelay is the time from the check of the permit until the write reaches the store. The write cannot be cancelled.
const writeDelay = 5 * time.Millisecond

func (w *worker) sendWrite(ctx context.Context, v Access) error {
	if err := w.store.Call("Store.Send", v, &v); err != nil {
		return err
	}
	for began := history.Now(); history.Now() < began+int64(writeDelay) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return w.store.Call("Store.Write", v, &v)
}
