package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// store has five counters. One process at a time increments a counter, by reading it and writing it back. The semaphore solo, whose limit
// is 1, guards the first. The others belong to the numbers of slots, whose limit is 4.
type store struct {
	listener net.Listener
	writing  [2]chan string // the processes that are about to write the counter of solo, or one of slots, for a strike that needs to know

	mu       sync.Mutex
	counters [1 + slotsLimit]counter // guarded by mu
	common   register                // of the tokens of slots without their numbers; guarded by mu
}

// counter has two copies. The fenced one refuses a token that is lower than one it has seen. The unfenced one accepts all tokens
// and shows the damage that a paused holder does.
type counter struct{ fenced, unfenced register }

// counterOf returns which counter a permit with this number may write. The permit of solo has the number -1.
func counterOf(number int64) int64 { return number + 1 }

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
	Number           int64 // of the permit; -1: it has none
	Token            int64
	Fenced, Unfenced int64 // the values to write
	Refused          bool  // by the fenced copy, at the read
}

func startStore() (*store, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &store{listener: listener, writing: [2]chan string{make(chan string), make(chan string)}}
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

// result returns the counters as they are now, and how many accesses a store would have refused that keeps one token for all of slots.
func (s *store) result() (counters [1 + slotsLimit]counter, common int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters, s.common.refused
}

// storeServer has the methods that workers call over the network.
type storeServer struct{ store *store }

// Read returns both values. It also records the token, so that after a read no write with a lower token is accepted.
func (c *storeServer) Read(v Access, out *Access) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	*out = v
	its := &c.store.counters[counterOf(v.Number)]
	out.Refused = !its.fenced.accepts(v.Token)
	out.Fenced, out.Unfenced = its.fenced.value, its.unfenced.value
	return nil
}

// Send reports that a write is in flight. A strike may wait for this.
func (c *storeServer) Send(v Access, _ *Access) error { //nolint:unparam // net/rpc requires it
	select {
	case c.store.writing[min(counterOf(v.Number), 1)] <- v.Process:
	default:
	}
	return nil
}

// Write stores the values.
func (c *storeServer) Write(v Access, _ *Access) error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	its := &c.store.counters[counterOf(v.Number)]
	if !v.Refused && its.fenced.accepts(v.Token) {
		its.fenced.value, its.fenced.writes = v.Fenced, its.fenced.writes+1
		if v.Number >= 0 {
			c.store.common.accepts(v.Token)
		}
	}
	its.unfenced.value, its.unfenced.writes = v.Unfenced, its.unfenced.writes+1
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

// writeSolo writes the counter that a semaphore of limit 1 guards.
func (w *worker) writeSolo(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: soloName, Grant: history.Grant{Weight: 1}}
	return w.writeStore(ctx, w.solo, c, 3*time.Second, time.Duration(random.Int64N(int64(5*time.Millisecond))))
}

// writeSlots writes the counters of the numbers that it gets. Like the callers of pool, one that wants several may time out soon.
func (w *worker) writeSlots(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: slotsName, Grant: history.Grant{Weight: 1, Numbered: true}}
	if random.IntN(6) == 0 {
		c.Weight = 2
	}
	return w.writeStore(ctx, w.slots, c, time.Duration((0.2+random.ExpFloat64())*float64(time.Second)), time.Duration(random.Int64N(int64(5*time.Millisecond))))
}

// writeSlotsLater holds its number for up to a TTL between the read and the write.
func (w *worker) writeSlotsLater(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: slotsName, Grant: history.Grant{Weight: 1, Numbered: true}}
	return w.writeStore(ctx, w.slots, c, 3*time.Second, time.Duration((0.2+0.8*random.Float64())*float64(w.config.Options.TTL)))
}

// writeStore reads the counters of a permit, works, checks that the permit is still live, and writes.
func (w *worker) writeStore(ctx context.Context, s *fairsem.Semaphore, c *call, timeout, hold time.Duration) error {
	p, err := w.acquire(ctx, s.With(fairsem.CallOptions{Numbered: c.Numbered}), c, timeout)
	if p == nil {
		return err
	}
	numbers := p.Numbers()
	if len(numbers) == 0 {
		numbers = []int64{p.Number()}
	}
	var all []Access
	for _, n := range numbers {
		v := Access{Process: w.config.Process, Number: n, Token: p.Token()}
		if err := w.store.Call("Store.Read", v, &v); err != nil {
			return err
		}
		v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
		all = append(all, v)
	}
	w.holdPolling(ctx, c, p, hold)
	if checkLive(p.Context(), c) {
		if err := w.sendWrites(ctx, all); err != nil {
			return err
		}
	}
	return w.release(ctx, c, p)
}

// writeDelay is the time from the check of the permit until the write reaches the store. The write cannot be cancelled.
const writeDelay = 5 * time.Millisecond

func (w *worker) sendWrites(ctx context.Context, all []Access) error {
	if err := w.store.Call("Store.Send", all[0], &Access{}); err != nil {
		return err
	}
	for began := history.Now(); history.Now() < began+int64(writeDelay) && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	for _, v := range all {
		if err := w.store.Call("Store.Write", v, &v); err != nil {
			return err
		}
	}
	return nil
}
