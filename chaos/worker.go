package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/rpc"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// workerArg makes the binary a worker. It is not for people.
const workerArg = "worker"

// The semaphores of every run: one that many share, one for the fenced store, one that no fault is about
// and that has room for everybody, and one for those who come when the nemesis says so.
const (
	poolName   = "pool"
	poolLimit  = 6
	soloName   = "solo"
	asideName  = "aside"
	asideLimit = 64
	seatName   = "seat"
	ownPrefix  = "own-" // of names that are used once, by one caller
)

// limitOf is the limit of a semaphore.
func limitOf(name string) int64 {
	switch name {
	case poolName:
		return poolLimit
	case asideName:
		return asideLimit
	}
	return 1
}

// The roles of processes.
const (
	atWork = "at work"
	looks  = "looks"   // at everything, again and again, and holds nothing
	onCall = "on call" // asks for the seat when it is told to, and is silent otherwise
)

// request tells a process on call to ask for the seat.
type request struct{ Patience, Hold time.Duration }

// order is what a worker process is told, on its standard input. It works until that closes.
type order struct {
	Process string // its name in the histories
	Role    string
	Journal string // the file to write
	Seed    uint64
	Callers int // of the pool, who come and go
	Keepers int // of the pool, who hold for up to 2.5 TTL
	Writers int // of the store
	Address address
	Store   string // of the fenced store
	Options fairsem.Options
	Keeping fairsem.CallOptions // of keepers
	Heavy   bool                // keepers have weights of up to 3
	Deaf    bool                // no wake message arrives
}

// address is how to reach Redis.
type address struct {
	Kind     string   // single, cluster, sentinel
	Addrs    []string // of servers or sentinels
	Master   string   // the name that sentinels know
	User     string
	Password string
}

// eager is a size of a pool whose connections it never has. After as many failures as connections fit in, go-redis
// tries only once a second, and who looks first has to be there at once.
const eager = 10_000

// connect makes a client with the defaults, or an eager one.
func (a address) connect(first bool) redis.UniversalClient {
	size := 0
	if first {
		size = eager
	}
	switch a.Kind {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: a.Addrs, Username: a.User, Password: a.Password, PoolSize: size})
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: a.Master, SentinelAddrs: a.Addrs, Username: a.User, Password: a.Password, PoolSize: size})
	}
	return redis.NewClient(&redis.Options{Addr: a.Addrs[0], Username: a.User, Password: a.Password, PoolSize: size})
}

// deaf subscribes to a channel on which nobody speaks.
type deaf struct{ *redis.Client }

func (d deaf) Subscribe(ctx context.Context, _ ...string) *redis.PubSub {
	return d.Client.Subscribe(ctx, "chaos:silence")
}

// serve is the main function of a worker process.
func serve(in io.Reader) error {
	logging.Disable() // what go-redis says of broken connections is what this is about
	decoder := json.NewDecoder(in)
	var o order
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("%w; %q is not meant to be run by hand", err, workerArg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	requests := make(chan request)
	go func() { // ends with the process
		defer cancel()
		for {
			var q request
			if decoder.Decode(&q) != nil {
				return
			}
			requests <- q
		}
	}()
	return o.work(ctx, requests)
}

// worker is one process that uses the library as its users do.
type worker struct {
	order    order
	journal  journal
	store    *rpc.Client
	client   *fairsem.Client
	pool     *fairsem.Semaphore
	solo     *fairsem.Semaphore
	aside    *fairsem.Semaphore
	seat     *fairsem.Semaphore
	requests <-chan request
	pinned   map[*fairsem.Semaphore]bool // by the observer, perhaps
	calls    atomic.Int64
}

func (o order) work(ctx context.Context, requests <-chan request) (err error) {
	file, err := os.OpenFile(o.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	store, err := rpc.Dial("tcp", o.Store)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // the process ends
	rdb := o.Address.connect(o.Role == looks)
	defer func() { _ = rdb.Close() }() // the process ends
	if single, ok := rdb.(*redis.Client); ok && o.Deaf {
		rdb = deaf{single}
	}
	w := &worker{order: o, journal: journal{out: file}, store: store, requests: requests, pinned: make(map[*fairsem.Semaphore]bool)}
	o.Options.Label, o.Options.Observer = o.Process, w.notes
	client, err := fairsem.New(rdb, o.Options)
	if err != nil {
		return err
	}
	w.client = client
	for name, s := range map[string]**fairsem.Semaphore{poolName: &w.pool, soloName: &w.solo, asideName: &w.aside, seatName: &w.seat} {
		if *s, err = client.Semaphore(name, limitOf(name)); err != nil {
			return err
		}
	}
	err = w.all(ctx)
	w.tidy()
	_ = client.Close() // what is left then lapses, and a dead server is no failure of the worker
	return err
}

// notes writes down which places in line were confirmed, and when.
func (w *worker) notes(e fairsem.Event) {
	started, ok := e.(fairsem.WaitStartedEvent)
	if !ok {
		return
	}
	ago := time.Since(started.At) // before the clock is read: too late is late, too early would blame who asked meanwhile
	queued := &call{Name: queuedName, Number: w.calls.Add(1)}
	queued.Process, queued.ID, queued.Asked = w.order.Process, started.ID, history.Now()-int64(ago)
	_ = w.journal.write(queued) // a place that is not written down counts for nothing
}

// unnoticed is for how long a process may stand still without writing it down.
const unnoticed = 30 * time.Millisecond

// watch writes down when this process did not get to run for a while.
func (w *worker) watch(ctx context.Context) error {
	for before := history.Now(); ctx.Err() == nil; {
		rest(ctx, unnoticed/3)
		now := history.Now()
		if now-before > int64(unnoticed) {
			stall := &call{Name: stallName, Number: w.calls.Add(1), Returned: now}
			stall.Process, stall.Asked = w.order.Process, before
			if err := w.journal.write(stall); err != nil {
				return err
			}
		}
		before = now
	}
	return nil
}

// turn is what a goroutine does again and again. An error is a failure of the worker, not of the library.
type turn func(context.Context, *rand.Rand) error

// turns are what the goroutines of the process do.
func (w *worker) turns() []turn {
	switch w.order.Role {
	case looks:
		return []turn{w.observe}
	case onCall:
		return []turn{w.answer}
	}
	return slices.Concat(
		slices.Repeat([]turn{w.share}, w.order.Callers),
		slices.Repeat([]turn{w.keep}, w.order.Keepers),
		slices.Repeat([]turn{w.update}, w.order.Writers),
		[]turn{w.stayAside, w.ownName},
	)
}

// all runs everybody until ctx ends.
func (w *worker) all(ctx context.Context) error {
	turns := w.turns()
	failures := make(chan error, len(turns)+1)
	var all sync.WaitGroup
	all.Go(func() { // ends with ctx
		if err := w.watch(ctx); err != nil {
			failures <- err
		}
	})
	for g, turn := range turns {
		random := rand.New(rand.NewPCG(w.order.Seed, uint64(g)))
		all.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				if err := turn(ctx, random); err != nil {
					failures <- err
					return
				}
				rest(ctx, time.Duration(random.ExpFloat64()*float64(8*time.Millisecond)))
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}

// share is the turn of a caller: acquire, or give up; hold for a moment; release.
func (w *worker) share(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: poolName, Try: random.IntN(8) == 0, Grant: history.Grant{Weight: 1}}
	switch random.IntN(12) {
	case 0:
		c.Weight = poolLimit
	case 1, 2, 3:
		c.Weight += random.Int64N(3)
	}
	return w.visit(ctx, w.pool, c, time.Duration((0.2+random.ExpFloat64())*float64(time.Second)), time.Duration(random.Int64N(int64(20*time.Millisecond))), random)
}

// keep is the turn of a keeper: at most times it has something to lose.
func (w *worker) keep(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: poolName, Grant: history.Grant{Weight: 1}}
	if w.order.Heavy {
		c.Weight += random.Int64N(3)
	}
	return w.visit(ctx, w.pool.With(w.order.Keeping), c, 3*time.Second, w.long(random), random)
}

// long is a time that is mostly more than a TTL.
func (w *worker) long(random *rand.Rand) time.Duration {
	return time.Duration((0.2 + 2.3*random.Float64()) * float64(w.order.Options.TTL))
}

// stayAside is the turn of a keeper that no trouble is about.
func (w *worker) stayAside(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: asideName, Grant: history.Grant{Weight: 1}}
	return w.visit(ctx, w.aside, c, 3*time.Second, w.long(random), random)
}

// ownName is the turn of a caller that takes a name that nobody else has, like a lock for each order.
func (w *worker) ownName(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: fmt.Sprintf("%s%s-%d", ownPrefix, w.order.Process, w.calls.Add(1)), Grant: history.Grant{Weight: 1}}
	s, err := w.client.Semaphore(c.Name, limitOf(c.Name))
	if err != nil {
		return err
	}
	rest(ctx, time.Duration(random.Int64N(int64(200*time.Millisecond))))
	return w.visit(ctx, s, c, 3*time.Second, time.Millisecond, random)
}

// answer is the turn of a process on call. It asks for the seat as often as it is told to.
func (w *worker) answer(ctx context.Context, _ *rand.Rand) error {
	select {
	case <-ctx.Done():
		return nil
	case q := <-w.requests:
		c := &call{Name: seatName, Grant: history.Grant{Weight: 1}}
		p, err := w.ask(ctx, w.seat, c, q.Patience)
		if p == nil {
			return err
		}
		w.hold(ctx, c, p, q.Hold)
		return w.giveBack(ctx, c, p)
	}
}

func (w *worker) visit(ctx context.Context, s *fairsem.Semaphore, c *call, patience, hold time.Duration, random *rand.Rand) error {
	p, err := w.ask(ctx, s, c, patience)
	if p == nil {
		return err
	}
	if random.IntN(2) == 0 {
		w.hold(ctx, c, p, hold)
	} else {
		w.rely(ctx, c, p, hold)
	}
	return w.giveBack(ctx, c, p)
}

// ask acquires. Without a permit the call is over, and without an error that was to be expected.
func (w *worker) ask(ctx context.Context, s *fairsem.Semaphore, c *call, patience time.Duration) (*fairsem.Permit, error) {
	c.Process, c.Number = w.order.Process, w.calls.Add(1)
	inner, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	get := s.Acquire
	if c.Try {
		get = s.TryAcquire
	}
	c.Asked = history.Now()
	c.Patience = c.Asked + int64(patience)
	if err := w.journal.write(c); err != nil {
		return nil, err
	}
	p, err := get(inner, c.Weight)
	c.Returned = history.Now()
	if err != nil {
		c.Cancelled, c.Failure = true, class(err)
		rest(ctx, 10*time.Millisecond) // a server that is down answers at once
		return nil, w.journal.write(c)
	}
	c.ID, c.Token, c.Granted = p.ID(), p.Token(), c.Returned
	return p, w.journal.write(c)
}

// look reads the clock, and then whether the permit was live at that time.
func look(c *call, p *fairsem.Permit) bool {
	at := history.Now()
	if p.Context().Err() != nil {
		c.Over = cmp.Or(c.Over, history.Now())
		return false
	}
	c.Released = at
	return true
}

// hold works for so long with the permit, or until that is lost. It looks again and again: when a loss
// was seen says nothing, when the permit was live last says all.
func (w *worker) hold(ctx context.Context, c *call, p *fairsem.Permit, d time.Duration) {
	for end := history.Now() + int64(d); look(c, p) && history.Now() < end && ctx.Err() == nil; {
		time.Sleep(min(d, time.Millisecond))
	}
}

// rely is hold for a caller that waits to be told. To ask would tell: it ends a context whose time is over.
func (w *worker) rely(ctx context.Context, c *call, p *fairsem.Permit, d time.Duration) {
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-p.Context().Done():
		c.Released, c.Awaited = history.Now(), true
	case <-enough.C:
	case <-ctx.Done():
	}
}

// giveBack ends the call. What Release and the context say has to agree.
func (w *worker) giveBack(ctx context.Context, c *call, p *fairsem.Permit) error {
	c.Lost = !look(c, p)
	c.Released = cmp.Or(c.Released, c.Granted) // dead on arrival: it was never live
	if err := w.journal.write(c); err != nil {
		return err
	}
	if cause := context.Cause(p.Context()); c.Lost && !errors.Is(cause, fairsem.ErrLost) {
		c.Wrong = fmt.Sprintf("the context ended with %v", cause)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := p.Release(patience)
	switch {
	case err == nil && c.Lost:
		c.Wrong = "Release of a lost permit returned nil"
	case err == nil:
		c.Done = history.Now()
	case errors.Is(err, fairsem.ErrLost):
		c.Lost = true
	}
	return w.journal.write(c)
}

// class is an error without what differs each time.
func class(err error) string {
	for _, known := range []error{
		context.DeadlineExceeded, context.Canceled, fairsem.ErrNotAcquired, fairsem.ErrUnavailable,
		fairsem.ErrLost, fairsem.ErrClosed, fairsem.ErrExceedsLimit,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	_, cause, _ := strings.Cut(err.Error(), ": ")
	return cause
}

// rest sleeps, though not beyond the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
