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
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/history"
)

// workerArg makes the binary a worker. Users do not need it.
const workerArg = "worker"

// The semaphores of every run: pool is shared by many callers, solo guards the store, aside has room for all calls and is concerned
// by no fault, seat is for the processes on call, shared is for the calls of tenants, and each number of slots guards a part of the store.
const (
	poolName    = "pool"
	poolLimit   = 6
	soloName    = "solo"
	asideName   = "aside"
	asideLimit  = 64
	seatName    = "seat"
	sharedName  = "shared"
	sharedLimit = 9 // of which two tenants share 7 as 1:2, so that at times both hold as much per share
	slotsName   = "slots"
	slotsLimit  = 4
	ownPrefix   = "own-" // of names that one caller uses once
)

// limitOf returns the limit of a semaphore.
func limitOf(name string) int64 {
	switch name {
	case poolName:
		return poolLimit
	case asideName:
		return asideLimit
	case sharedName:
		return sharedLimit
	case slotsName:
		return slotsLimit
	}
	return 1
}

// The roles of processes.
const (
	roleWorker   = "worker"
	roleObserver = "observer" // reads everything repeatedly and holds nothing
	roleOnCall   = "on call"  // acquires the seat on request and sends nothing otherwise
)

// seatRequest makes a process on call acquire the seat.
type seatRequest struct{ Timeout, Hold time.Duration }

// workerConfig is the configuration that a worker reads from its standard input. The process runs until its input is closed.
type workerConfig struct {
	Process       string // its name in the histories
	Role          string
	Journal       string // the file to write
	Seed          uint64
	ShortHolders  int // callers of the pool that hold for a short time
	LongHolders   int // callers of the pool that hold for up to 2.5 TTL, and of slots that hold for up to a TTL
	Writers       int // of the part of the store that solo guards, and of those of slots
	Address       address
	Store         string // the address of the store
	Options       fairsem.Options
	TenantCallers int                 // callers of each tenant
	UsualTenants  bool                // their calls weigh 1 and ask for no numbers, so the plain script answers most of them
	LongOptions   fairsem.CallOptions // of LongHolders
	LongWeights   bool                // LongHolders have weights up to 3
	NoMessages    bool                // no wake message arrives at the process
}

// address is how to reach Redis.
type address struct {
	Kind     string   // single, cluster, sentinel
	Addrs    []string // of servers or sentinels
	Primary  string   // the name of the primary at the sentinels
	User     string
	Password string
}

// observerPoolSize is larger than the number of failures in a run. After as many failures as a pool has connections, go-redis dials
// only once a second, but the observer must reconnect at once.
const observerPoolSize = 10_000

// connect returns a client with the default options, or with the pool size of an observer.
func (a address) connect(observer bool) redis.UniversalClient {
	size := 0
	if observer {
		size = observerPoolSize
	}
	switch a.Kind {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: a.Addrs, Username: a.User, Password: a.Password, PoolSize: size})
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: a.Primary, SentinelAddrs: a.Addrs, Username: a.User, Password: a.Password, PoolSize: size})
	}
	return redis.NewClient(&redis.Options{Addr: a.Addrs[0], Username: a.User, Password: a.Password, PoolSize: size})
}

// noMessages is a client that subscribes to a channel without messages.
type noMessages struct{ *redis.Client }

func (d noMessages) Subscribe(ctx context.Context, _ ...string) *redis.PubSub {
	return d.Client.Subscribe(ctx, "chaos:silence")
}

// serve is the main function of a worker process.
func serve(in io.Reader) error {
	logging.Disable() // go-redis logs every broken connection, and here connections break all the time
	decoder := json.NewDecoder(in)
	var o workerConfig
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("%w; chaos starts %q itself, do not run it by hand", err, workerArg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	requests := make(chan seatRequest)
	go func() { // ends with the process
		defer cancel()
		for {
			var q seatRequest
			if decoder.Decode(&q) != nil {
				return
			}
			requests <- q
		}
	}()
	return o.run(ctx, requests)
}

// worker is one process that uses the public API of the library.
type worker struct {
	config   workerConfig
	journal  journal
	store    *rpc.Client
	client   *fairsem.Client
	pool     *fairsem.Semaphore
	solo     *fairsem.Semaphore
	aside    *fairsem.Semaphore
	seat     *fairsem.Semaphore
	shared   *fairsem.Semaphore
	slots    *fairsem.Semaphore
	requests <-chan seatRequest
	limitSet map[*fairsem.Semaphore]bool // limits that the observer may have set
	calls    atomic.Int64
}

func (o workerConfig) run(ctx context.Context, requests <-chan seatRequest) (err error) {
	file, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	store, err := rpc.Dial("tcp", o.Store)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // the process ends
	rdb := o.Address.connect(o.Role == roleObserver)
	defer func() { _ = rdb.Close() }() // the process ends
	if single, ok := rdb.(*redis.Client); ok && o.NoMessages {
		rdb = noMessages{single}
	}
	w := &worker{config: o, journal: journal{out: file}, store: store, requests: requests, limitSet: make(map[*fairsem.Semaphore]bool)}
	o.Options.Label, o.Options.Observer = o.Process, w.recordQueued
	client, err := fairsem.New(rdb, o.Options)
	if err != nil {
		return err
	}
	w.client = client
	for name, s := range map[string]**fairsem.Semaphore{
		poolName: &w.pool, soloName: &w.solo, asideName: &w.aside, seatName: &w.seat, sharedName: &w.shared, slotsName: &w.slots,
	} {
		if *s, err = client.Semaphore(name, limitOf(name)); err != nil {
			return err
		}
	}
	err = w.runActions(ctx)
	w.resetAllLimits()
	_ = client.Close() // remaining keys expire, and a server that is down is not a failure of the worker
	return err
}

// recordQueued records when a position in the queue was confirmed.
func (w *worker) recordQueued(e fairsem.Event) {
	started, ok := e.(fairsem.WaitStartedEvent)
	if !ok {
		return
	}
	ago := time.Since(started.At) // computed before Now is read: an earlier time would accuse calls that asked meanwhile
	queued := &call{Name: queuedName, Number: w.calls.Add(1)}
	queued.Of, _ = started.Context.Value(callNumber{}).(int64)
	queued.Process, queued.ID, queued.Asked = w.config.Process, started.ID, history.Now()-int64(ago)
	_ = w.journal.write(queued) // a position that is not recorded does not count
}

// callNumber is the key of the number of a call in its context.
type callNumber struct{}

// minStall is the shortest stall of a process that is recorded.
const minStall = 30 * time.Millisecond

// recordStalls records when this process did not run for a while.
func (w *worker) recordStalls(ctx context.Context) error {
	for before := history.Now(); ctx.Err() == nil; {
		clock.Sleep(ctx, minStall/3)
		now := history.Now()
		if now-before > int64(minStall) {
			stall := &call{Name: stallName, Number: w.calls.Add(1), Returned: now}
			stall.Process, stall.Asked = w.config.Process, before
			if err := w.journal.write(stall); err != nil {
				return err
			}
		}
		before = now
	}
	return nil
}

// action is a step that a goroutine repeats. An error is a failure of the worker, not of the library.
type action func(context.Context, *rand.Rand) error

// actions returns the action of each goroutine of the process.
func (w *worker) actions() []action {
	switch w.config.Role {
	case roleObserver:
		return []action{w.observe}
	case roleOnCall:
		return []action{w.serveRequest}
	}
	return slices.Concat(
		slices.Repeat([]action{w.useShortly}, w.config.ShortHolders),
		slices.Repeat([]action{w.useLong, w.writeSlotsLater}, w.config.LongHolders),
		slices.Repeat([]action{w.writeSolo, w.writeSlots}, w.config.Writers),
		[]action{w.useAside, w.useOwnName},
		slices.Repeat(w.tenantActions(), w.config.TenantCallers),
	)
}

// runActions runs all goroutines until ctx ends.
func (w *worker) runActions(ctx context.Context) error {
	turns := w.actions()
	failures := make(chan error, len(turns)+1)
	var all sync.WaitGroup
	all.Go(func() { // ends with ctx
		if err := w.recordStalls(ctx); err != nil {
			failures <- err
		}
	})
	for g, turn := range turns {
		random := rand.New(rand.NewPCG(w.config.Seed, uint64(g)))
		all.Go(func() { // ends with ctx
			for ctx.Err() == nil {
				if err := turn(ctx, random); err != nil {
					failures <- err
					return
				}
				clock.Sleep(ctx, time.Duration(random.ExpFloat64()*float64(8*time.Millisecond)))
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}

// useShortly acquires the pool, holds it for a moment, and releases it. Acquire may time out.
func (w *worker) useShortly(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: poolName, Try: random.IntN(8) == 0, Grant: history.Grant{Weight: 1}}
	switch random.IntN(12) {
	case 0:
		c.Weight = poolLimit
	case 1, 2, 3:
		c.Weight += random.Int64N(3)
	}
	return w.acquireAndHold(ctx, w.pool, c, time.Duration((0.2+random.ExpFloat64())*float64(time.Second)), time.Duration(random.Int64N(int64(20*time.Millisecond))), random)
}

// useLong holds the pool for a long time, so that most of the time the process has a permit to lose.
func (w *worker) useLong(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: poolName, Grant: history.Grant{Weight: 1}}
	if w.config.LongWeights {
		c.Weight += random.Int64N(3)
	}
	return w.acquireAndHold(ctx, w.pool.With(w.config.LongOptions), c, 3*time.Second, w.longHold(random), random)
}

// longHold returns a time that is usually longer than a TTL.
func (w *worker) longHold(random *rand.Rand) time.Duration {
	return time.Duration((0.2 + 2.3*random.Float64()) * float64(w.config.Options.TTL))
}

// useAside holds a semaphore for a long time that no fault concerns.
func (w *worker) useAside(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: asideName, Grant: history.Grant{Weight: 1}}
	return w.acquireAndHold(ctx, w.aside, c, 3*time.Second, w.longHold(random), random)
}

// useOwnName acquires a name that no other caller uses, like a lock for each order. Half of its calls ask for a number.
func (w *worker) useOwnName(ctx context.Context, random *rand.Rand) error {
	c := &call{Name: fmt.Sprintf("%s%s-%d", ownPrefix, w.config.Process, w.calls.Add(1)), Grant: history.Grant{Weight: 1, Numbered: random.IntN(2) == 0}}
	s, err := w.client.Semaphore(c.Name, limitOf(c.Name))
	if err != nil {
		return err
	}
	clock.Sleep(ctx, time.Duration(random.Int64N(int64(200*time.Millisecond))))
	return w.acquireAndHold(ctx, s.With(fairsem.CallOptions{Numbered: c.Numbered}), c, 3*time.Second, time.Millisecond, random)
}

// serveRequest is the action of a process on call: it waits for a request and acquires the seat.
func (w *worker) serveRequest(ctx context.Context, _ *rand.Rand) error {
	select {
	case <-ctx.Done():
		return nil
	case q := <-w.requests:
		c := &call{Name: seatName, Grant: history.Grant{Weight: 1}}
		p, err := w.acquire(ctx, w.seat, c, q.Timeout)
		if p == nil {
			return err
		}
		w.holdPolling(ctx, c, p, q.Hold)
		return w.release(ctx, c, p)
	}
}

func (w *worker) acquireAndHold(ctx context.Context, s *fairsem.Semaphore, c *call, timeout, hold time.Duration, random *rand.Rand) error {
	p, err := w.acquire(ctx, s, c, timeout)
	if p == nil {
		return err
	}
	switch polls := random.IntN(2) == 0; {
	case c.Granted == 0: // dead on arrival
	case polls:
		w.holdPolling(ctx, c, p, hold)
	default:
		holdWaiting(ctx, p.Context(), c, hold)
	}
	return w.release(ctx, c, p)
}

// acquire calls Acquire or TryAcquire. If it returns no permit, the call has ended. It returns an error only if the worker failed.
func (w *worker) acquire(ctx context.Context, s *fairsem.Semaphore, c *call, timeout time.Duration) (*fairsem.Permit, error) {
	c.Process, c.Number = w.config.Process, w.calls.Add(1)
	inner, cancel := context.WithTimeout(context.WithValue(ctx, callNumber{}, c.Number), timeout)
	defer cancel()
	get := s.Acquire
	if c.Try {
		get = s.TryAcquire
	}
	c.Asked = history.Now()
	c.Deadline = c.Asked + int64(timeout)
	if err := w.journal.write(c); err != nil {
		return nil, err
	}
	p, err := get(inner, c.Weight)
	c.Returned = history.Now()
	if err != nil {
		c.Cancelled, c.Failure = true, errorClass(err)
		if errors.Is(err, fairsem.ErrNotAcquired) {
			c.Done = c.Returned // the server refused it
		}
		clock.Sleep(ctx, 10*time.Millisecond) // a server that is down refuses at once
		return nil, w.journal.write(c)
	}
	c.ID, c.Token, c.Numbers = p.ID(), p.Token(), p.Numbers()
	c.arrive(p.Context())
	return p, w.journal.write(c)
}

// checkLive reads the clock, and then reports whether the permit, which has this context, was live at that time.
func checkLive(permit context.Context, c *call) bool {
	at := history.Now()
	if permit.Err() != nil {
		c.Ended = cmp.Or(c.Ended, history.Now())
		return false
	}
	c.Released = at
	return true
}

// holdPolling holds the permit for d, or until it is lost. It checks the permit repeatedly, because what counts is when the permit
// was last live, not when the loss was noticed.
func (w *worker) holdPolling(ctx context.Context, c *call, p *fairsem.Permit, d time.Duration) {
	for end := history.Now() + int64(d); checkLive(p.Context(), c) && history.Now() < end && ctx.Err() == nil; {
		time.Sleep(min(d, time.Millisecond))
	}
}

// holdWaiting is like holdPolling for a caller that waits to be notified. While it waits it must not check the context, because a check
// ends a context whose time is over.
func holdWaiting(ctx, permit context.Context, c *call, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-permit.Done():
	case <-timer.C:
	case <-ctx.Done():
	}
	if !checkLive(permit, c) {
		c.Released, c.Awaited = c.Ended, true
	}
}

// release ends the call. The results of Release and of the context must agree.
func (w *worker) release(ctx context.Context, c *call, p *fairsem.Permit) error {
	c.Lost = !checkLive(p.Context(), c)
	c.Released = cmp.Or(c.Released, c.Granted) // it was not seen to be live again
	if err := w.journal.write(c); err != nil {
		return err
	}
	if cause := context.Cause(p.Context()); c.Lost && !errors.Is(cause, fairsem.ErrLost) {
		c.Violation = fmt.Sprintf("the context ended with %v", cause)
	}
	releaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := p.Release(releaseCtx)
	switch {
	case err == nil && c.Lost:
		c.Violation = "Release of a lost permit returned nil"
	case err == nil:
		c.Done = history.Now()
	case errors.Is(err, fairsem.ErrLost):
		c.Lost = true
	}
	return w.journal.write(c)
}

// errorClass returns the text of an error without the parts that differ each time.
func errorClass(err error) string {
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
