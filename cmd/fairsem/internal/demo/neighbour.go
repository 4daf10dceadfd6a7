package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/history"
)

// evidenceGrace is for a job to be done, and for something to judge to happen, on a machine that hardly gets on.
const evidenceGrace = 8 * time.Second

const noisy, quiet = "noisy", "quiet"

// customer is the load of one of the two.
type customer struct {
	name  string
	calls int           // that wait or hold at any time
	job   time.Duration // how long one takes
	rest  time.Duration // after each, on average
}

// The noisy neighbour: one customer has a long queue of jobs, another a short job now and then. The same load runs on two names of one
// server at the same time: on one of them no call names a tenant.
var customers = [2]customer{{noisy, 30, 100 * time.Millisecond, 0}, {quiet, 1, 20 * time.Millisecond, 200 * time.Millisecond}}

// neighbours is one run of it.
type neighbours struct {
	options Options
	server  *server
	sides   [2]*side // without tenants, and with
	began   time.Time
	ended   time.Time
}

// side is a name, and the load on it.
type side struct {
	title   string
	sem     *fairsem.Semaphore
	clients [len(customers)]*fairsem.Client // one for each customer, as they would be in other processes
	shared  bool                            // whether calls name tenants
	most    int64                           // units in use that Redis reported in one answer

	inQueue map[string]int64 // permit id -> until when it certainly was in the queue, of history.Now

	mu     sync.Mutex
	grants map[*job]struct{}
	done   time.Time // when a job last ended as it should
}

// job is a call of a customer. side.mu guards it.
type job struct {
	history.Grant
	customer string
	waited   time.Duration
}

// RunTenants returns when the load has ended and the embedded server is gone. The error is as that of Run, or the failure
// that ended the demo.
func RunTenants(ctx context.Context, out io.Writer, o Options) error {
	srv, err := openServer(ctx, o)
	if err != nil {
		return err
	}
	defer srv.close()
	n := &neighbours{options: o, server: srv}
	defer n.close()
	for i, title := range []string{"without tenants", "with tenants"} {
		if n.sides[i], err = newSide(ctx, srv, title, i == 1); err != nil {
			return err
		}
	}
	if err := n.run(ctx, out); err != nil {
		return err
	}
	return n.conclude(ctx, out)
}

func newSide(ctx context.Context, srv *server, title string, shared bool) (*side, error) {
	s := &side{title: title, shared: shared, inQueue: make(map[string]int64), grants: make(map[*job]struct{}), done: time.Now()}
	for i, c := range customers {
		client, err := fairsem.New(srv.client, fairsem.Options{Prefix: srv.prefix, TTL: timeout, Label: c.name, Observer: s.observe})
		if err != nil {
			return nil, err
		}
		s.clients[i] = client
	}
	var err error
	if s.sem, err = s.clients[0].Semaphore(newName(), Limit); err != nil {
		return s, err
	}
	// A server that has just started grants nothing on a new name for a while: that wait is no part of the demo.
	err = s.sem.Do(ctx, 1, func(context.Context) error { return nil })
	return s, cmp.Or(context.Cause(ctx), err)
}

// see records which calls are in the queue. asked is a time of history.Now before the question.
func (s *side) see(asked int64, waiters []fairsem.Ticket) {
	for _, w := range waiters {
		s.inQueue[w.ID] = asked
	}
}

func (n *neighbours) close() {
	for _, s := range n.sides {
		if s == nil {
			continue
		}
		for _, c := range s.clients {
			if c != nil {
				_ = c.Close() // its permits have been released, or expire
			}
		}
	}
}

// jobKey is the key of a job in the context of its call.
type jobKey struct{}

// observe records when the position of a call was confirmed.
func (s *side) observe(e fairsem.Event) {
	started, ok := e.(fairsem.WaitStartedEvent)
	if !ok {
		return
	}
	j, ok := started.Context.Value(jobKey{}).(*job)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.Granted == 0 {
		j.Position = history.Now() // later than it was: an earlier time would accuse calls that were granted meanwhile
	}
}

// run has both customers work on both names, and shows it, until the time is over.
func (n *neighbours) run(ctx context.Context, out io.Writer) error {
	n.began = time.Now()
	loadCtx, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for _, s := range n.sides {
		for i, c := range customers {
			sem, err := s.handle(s.clients[i], c)
			if err != nil {
				return err
			}
			for range c.calls {
				load.Go(func() { n.load(loadCtx, s, sem, c, failed) }) // ends with loadCtx; waited for above
			}
		}
	}
	show, end := newDisplay(out, n.options, "fairsem demo tenants", &neighbourFrame{},
		func(l logWriter) func(neighbourFrame) { return (&neighbourLog{logWriter: l}).show })
	defer end()
	err := poll(ctx, failed, n.over, func() error {
		f, err := n.frame(ctx)
		if err == nil {
			show(f)
		}
		return err
	})
	n.ended = time.Now()
	return err
}

// load repeats a call of a customer until ctx ends. The first call that fails for good is reported.
func (n *neighbours) load(ctx context.Context, s *side, sem *fairsem.Semaphore, c customer, failed chan<- error) {
	if err := s.repeat(ctx, sem, c); err != nil {
		select {
		case failed <- fmt.Errorf("the load on %s ended: %w", n.server.address, err):
		default: // another one has failed
		}
	}
}

// over reports whether everything was shown, and can be judged.
func (n *neighbours) over() bool {
	late := time.Since(n.began) - n.options.Length
	return late > evidenceGrace || late >= 0 && n.sides[0].hasEvidence() && n.sides[1].hasEvidence()
}

// handle is the semaphore as a customer has it.
func (s *side) handle(client *fairsem.Client, c customer) (*fairsem.Semaphore, error) {
	sem, err := client.Semaphore(s.sem.Name(), Limit)
	if err != nil || !s.shared {
		return sem, err
	}
	return sem.With(fairsem.CallOptions{Tenant: c.name}), nil
}

// repeat does jobs, with a rest after each, until ctx ends. The error is that of a call after which there is no point in another.
func (s *side) repeat(ctx context.Context, sem *fairsem.Semaphore, c customer) error {
	for ctx.Err() == nil {
		err := s.work(ctx, sem, c)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fairsem.ErrUnavailable) && time.Since(s.lastDone()) < evidenceGrace: // it may not last
			clock.Sleep(ctx, pollEvery)
		case err != nil:
			return err
		}
		if c.rest > 0 { // drawn: with one pause all calls could come just before a unit is released
			clock.Sleep(ctx, c.rest/2+rand.N(c.rest))
		}
	}
	return nil
}

// work is one job: it acquires a unit, holds it for a while, and releases it. The error is that of the call.
func (s *side) work(ctx context.Context, sem *fairsem.Semaphore, c customer) error {
	j := &job{customer: c.name, Grant: history.Grant{Process: c.name, Weight: 1, Asked: history.Now()}}
	if s.shared {
		j.Tenant = c.name
	}
	s.record(func() { s.grants[j] = struct{}{} })
	p, err := sem.Acquire(context.WithValue(ctx, jobKey{}, j), 1)
	if err != nil {
		s.record(func() { j.Cancelled = true })
		return err
	}
	s.record(func() { j.Granted, j.ID, j.Token, j.waited = history.Now(), p.ID(), p.Token(), p.Waited() })
	until := hold(ctx, p, history.Now(), c.job)
	s.record(func() { j.Released, j.Lost = until, errors.Is(context.Cause(p.Context()), fairsem.ErrLost) })
	if err := p.Release(context.WithoutCancel(ctx)); err != nil {
		return err // its units may still be in use
	}
	s.record(func() { j.Done, s.done = history.Now(), time.Now() })
	return nil
}

func (s *side) lastDone() (at time.Time) {
	s.record(func() { at = s.done })
	return at
}

// record changes a job.
func (s *side) record(write func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	write()
}

// calls returns all jobs, including jobs without a grant.
func (s *side) calls() (all []history.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range s.grants {
		g := j.Grant
		g.Left = s.inQueue[g.ID]
		all = append(all, g)
	}
	return all
}

// waits returns how long each job of a customer waited, in the order of the grants.
func (s *side) waits(customer string) (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var jobs []*job
	for j := range s.grants {
		if j.customer == customer && j.Granted > 0 {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int { return int(a.Granted - b.Granted) })
	for _, j := range jobs {
		all = append(all, j.waited)
	}
	return all
}
