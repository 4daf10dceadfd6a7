package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Errors, to be tested for with [errors.Is]. What is returned names the semaphore and the cause.
var (
	// ErrNotAcquired: a call that does not wait, such as TryAcquire or TryLock, found no room, or somebody
	// waiting; or CallOptions.MaxWait is over. Nothing is left in Redis.
	ErrNotAcquired = errors.New("fairsem: not acquired")
	// ErrQueueFull: as many as CallOptions.MaxQueue allows wait already. Nothing is left in Redis.
	ErrQueueFull = errors.New("fairsem: queue full")
	// ErrExceedsLimit: the weight is above the limit in force, so waiting would never end.
	ErrExceedsLimit = errors.New("fairsem: weight exceeds the limit")
	// ErrLost: the permit lapsed, or could not be confirmed in time. Somebody else may have its units.
	ErrLost = errors.New("fairsem: permit lost")
	// ErrEvicted: somebody took the permit, or the place in line, away: see [Inspector.Evict].
	ErrEvicted = errors.New("fairsem: evicted")
	// ErrNotFound: there is no permit and no place in line of that id.
	ErrNotFound = errors.New("fairsem: not found")
	// ErrReleased is the cause of a permit's context after Release.
	ErrReleased = errors.New("fairsem: permit released")
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("fairsem: client closed")
	// ErrUnavailable: Redis has not answered for a whole TTL, or until the context of the call ended. It wraps what
	// happened last. In Release: for a second.
	ErrUnavailable = errors.New("fairsem: Redis unavailable")
	// ErrInvalid: an argument that can never work. Nothing was sent.
	ErrInvalid = errors.New("fairsem: invalid argument")
)

// errTaken is how the permit of an evicted holder ends.
var errHolderEvicted = fmt.Errorf("%w: %w", ErrLost, ErrEvicted)

// errGone: Redis knows nothing of a ticket that was not released; its lease lapsed while this
// process or Redis stood still. Acquire asks again.
var errPositionLost = errors.New("fairsem: place in line lost")

const (
	defaultPrefix = "fairsem"
	defaultTTL    = 10 * time.Second
	minTTL        = 100 * time.Millisecond
	maxTTL        = 24 * time.Hour
	defaultGrace  = time.Second
	maxName       = 512                  // bytes
	maxLabel      = 256                  // bytes
	maxHeadStart  = 366 * 24 * time.Hour // keeps places in line positive
)

// Options are what a Client can be told. The zero value is the documented default.
type Options struct {
	// Prefix begins every key and channel, "fairsem" if empty. It may not contain "{" or "}".
	// Clients with different prefixes know nothing of each other.
	Prefix string

	// TTL is how long a silent process keeps what it has: 10 s if zero, else 100 ms to 24 h. The
	// units of a process that was killed come back after at most this time; a process that cannot
	// reach Redis loses its permits after nine tenths of it.
	TTL time.Duration

	// Label is what operators see beside a permit, at most 256 bytes; "<hostname>:<pid>" if empty.
	Label string

	// Logger gets a record of each [Event], which see for messages and levels: what cannot be returned
	// from a call at Warn and Info, the rest at Debug. Its handler is called as an [Observer] is, and
	// before it; only Enabled is called by everybody who asks for a permit. Nil: nobody is told.
	Logger *slog.Logger `json:"-"`

	// Observer gets each [Event] itself. Nil: nobody does, and it costs nothing.
	Observer Observer `json:"-"`

	// WaitReplicas is how many replicas must have acknowledged a grant, or a renewal, before it counts
	// here: permits then survive the failover to such a replica. While fewer answer, nothing is granted.
	// It costs a round trip between Redis servers. In a cluster it counts the replicas of the master.
	WaitReplicas int

	// Grace is how long a server that may have lost state, by a restart or a failover, only takes back
	// what its clients tell it that they have, before it grants anything new. 1 s if zero, or the TTL
	// where that is shorter; at most the TTL. One second is enough for a holder that sees its connection
	// to that server break; 5 s where in a cluster a replica takes over, for go-redis may look for its
	// master for that long. One that does not see it, because it is stopped or cut off, or because the
	// server hangs instead of dying, finds out with its next renewal, within half a TTL, or when its lease
	// ends: with the whole TTL nobody is let in beside it. A server that was just started counts as one
	// that lost state, so the first calls after it wait for up to a second more than Grace, in a cluster
	// three, with TryAcquire too, and MaxQueue counts them. So does, for a name that it does not know, a server
	// that took over from another, until this client has known it for so long. All processes should have the
	// same Grace.
	Grace time.Duration
}

// Client shares one subscription, one refresh loop and one batcher between all semaphores of a
// process; in a cluster there is one more subscription for each master that has something of it. It is
// safe for concurrent use. It owns no connection: they are the go-redis client's.
type Client struct {
	rdb      redis.UniversalClient
	keyspace keyspace
	ttl      time.Duration
	label    string
	cluster  cluster // nil: it is none
	grace    time.Duration
	servers  *servers
	replicas int

	shared     *pipeline // for all names, but in a cluster
	goroutines *goroutines
	events     *events // nil: nobody wants to be told any
	clock      *clock
	scheduler  *scheduler
	wake       *wake
	masters    *masters
	declared   *declarations
	lastSeq    atomic.Int64
	unseen     atomic.Int32                    // how many servers could go away without this client seeing it
	labelDue   atomic.Int64                    // unix ns
	labelled   atomic.Pointer[<-chan response] // tells that the label was set last

	mu     sync.Mutex
	states map[string]*nameState
	closed bool
}

// New makes a Client on a go-redis client, which stays the caller's to close, after this one. It
// does no I/O. The error is [ErrInvalid].
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	if err := opts.check(rdb); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	opts = opts.withDefaults()
	c := &Client{
		rdb:        rdb,
		keyspace:   keyspace{prefix: opts.Prefix, clientID: uuid.NewString(), grace: opts.Grace},
		ttl:        opts.TTL,
		label:      opts.Label,
		grace:      opts.Grace,
		servers:    &servers{settled: opts.Grace, met: make(map[int64]time.Time)},
		replicas:   opts.WaitReplicas,
		goroutines: newGoroutines(),
		clock:      newClock(wallSinceStart, suspended),
		declared:   &declarations{began: time.Now()},
		states:     make(map[string]*nameState),
	}
	c.scheduler = newScheduler(c.clock)
	c.cluster, _ = rdb.(cluster)
	c.events = newEvents(opts.Observer, opts.Logger, c.goroutines)
	c.shared = c.newPipeline("")
	c.wake = newWake(c)
	c.masters = newMasters(c)
	return c, nil
}

func (o Options) check(rdb redis.UniversalClient) error {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return errors.New("the Redis client is nil")
	}
	if _, ring := rdb.(*redis.Ring); ring {
		return errors.New("a redis.Ring moves names to other servers when one fails, and limits with them")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return fmt.Errorf("prefix %q contains a brace", o.Prefix)
	}
	if len(o.Label) > maxLabel {
		return fmt.Errorf("label of %d bytes is longer than %d", len(o.Label), maxLabel)
	}
	if o.TTL != 0 {
		if err := checkTTL(o.TTL); err != nil {
			return err
		}
	}
	if o.WaitReplicas < 0 {
		return fmt.Errorf("WaitReplicas %d is below 0", o.WaitReplicas)
	}
	if ttl := cmp.Or(o.TTL, defaultTTL); o.Grace < 0 || o.Grace > ttl {
		return fmt.Errorf("grace %v is not between 0 and the TTL, %v", o.Grace, ttl)
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("TTL %v is not between %v and %v", ttl, minTTL, maxTTL)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Grace == 0 {
		o.Grace = min(defaultGrace, o.TTL)
	}
	if o.Label == "" {
		host, _ := os.Hostname() // a machine without a name is ":pid"
		pid := ":" + strconv.Itoa(os.Getpid())
		o.Label = host[:min(len(host), maxLabel-len(pid))] + pid
	}
	return o
}

// Semaphore returns a handle on the semaphore of that name, at most limit units of which are in use
// at once. Handles are cheap: it does no I/O, and thousands are fine. The name may be any bytes, 1
// to 512 of them, and may not start with "}".
//
// The limit belongs to the semaphore: what this client declares with its first operation replaces
// what others declared before, and stays until a later client declares another. A lower limit takes
// no permit away; nobody gets a new one until enough are released.
//
// The error is [ErrInvalid].
func (c *Client) Semaphore(name string, limit int64) (*Semaphore, error) {
	return c.semaphore(name, limit, 1)
}

// semaphore is Semaphore for a limit of at least so much.
func (c *Client) semaphore(name string, limit, least int64) (*Semaphore, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if limit < least || limit > maxUnits {
		return nil, wrap("semaphore", name, fmt.Errorf("%w: limit %d is not between %d and %d", ErrInvalid, limit, least, int64(maxUnits)))
	}
	return &Semaphore{Inspector: &Inspector{c, name, limitSpec{limit: limit}}}, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrInvalid)
	case name[0] == '}':
		return fmt.Errorf("%w: the name %.40q starts with a closing brace, which would spread its keys over a cluster", ErrInvalid, name)
	case len(name) > maxName:
		return fmt.Errorf("%w: the name %.40q... has %d bytes, more than %d", ErrInvalid, name, len(name), maxName)
	}
	return nil
}

// Semaphore is a handle on a semaphore in Redis. It is safe for concurrent use. Its [Inspector] shows what is held and who
// waits, sets the limit by hand and evicts; where no process has declared a limit, Status says that of the handle.
type Semaphore struct {
	*Inspector
	opts CallOptions
}

// CallOptions change what a call does. The zero value changes nothing.
type CallOptions struct {
	// HeadStart queues the call as if it had come this much earlier: priority that starves nobody,
	// because whoever waits longer than that goes first all the same.
	HeadStart time.Duration

	// MaxQueue, if above 0, makes Acquire return ErrQueueFull instead of becoming waiter number
	// MaxQueue+1.
	MaxQueue int64

	// MaxWait, if above 0, is how long a call waits before it returns ErrNotAcquired. So the context of a call can be
	// that of the work that comes after it, as for Do. If Redis has not answered by then the error is ErrUnavailable, too.
	MaxWait time.Duration

	// TTL replaces Options.TTL. Zero: it does not.
	TTL time.Duration

	// NoRefresh ends the permit at most TTL after the grant: it is never renewed.
	NoRefresh bool
}

func (o CallOptions) check() error {
	if o.HeadStart < 0 || o.HeadStart > maxHeadStart {
		return fmt.Errorf("%w: HeadStart %v is not between 0 and %v", ErrInvalid, o.HeadStart, maxHeadStart)
	}
	if o.MaxQueue < 0 || o.MaxQueue > maxUnits {
		return fmt.Errorf("%w: MaxQueue %d is not between 0 and %d", ErrInvalid, o.MaxQueue, int64(maxUnits))
	}
	if o.MaxWait < 0 {
		return fmt.Errorf("%w: MaxWait %v is below 0", ErrInvalid, o.MaxWait)
	}
	if o.TTL != 0 {
		if err := checkTTL(o.TTL); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}

// With returns a handle on the same semaphore whose calls have these options, instead of those that
// s has. With options that can never work Acquire, TryAcquire and Do return [ErrInvalid].
func (s *Semaphore) With(o CallOptions) *Semaphore {
	other := *s
	other.opts = o
	return &other
}

// Acquire waits until n units are free and everybody who asked before has been served, and returns
// the permit for them. First come, first served holds whatever the weights: a large request at the
// head of the line holds up the small ones behind it. The caller must release the permit.
//
// A done ctx fails at once and sends nothing. If ctx ends while waiting, Acquire returns within
// milliseconds, with an error that wraps ctx.Err() and [context.Cause]. It is [ErrUnavailable], too, if Redis had not
// answered the last question for a tenth of a second, or for half of the call. The position in the queue, or a permit
// that was granted meanwhile, is released in the background. A process that stood still for so long that its
// position expired goes to the end of the queue.
//
// Other errors are [ErrNotAcquired] after CallOptions.MaxWait, [ErrExceedsLimit], [ErrQueueFull], [ErrEvicted],
// [ErrInvalid], [ErrClosed], [ErrUnavailable], or what Redis said that trying again cannot heal, such as a missing right. After any error the
// caller has nothing, and what Redis may still have lapses within a TTL.
func (s *Semaphore) Acquire(ctx context.Context, n int64) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, true)
}

// TryAcquire is Acquire without waiting in line: if n units are not free, or if anybody waits for
// some, it returns [ErrNotAcquired]. It waits for Redis to say so, for as long as ctx allows.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) (*Permit, error) {
	return s.acquire(ctx, "try-acquire", n, false)
}

// Do runs fn while it holds n units. The context of fn has the values of ctx, and ends with ctx or
// with the permit, whichever is first; see [context.Cause] for which. As with [Permit.Context] its Err reports a loss at the
// first call, and contexts derived from it follow within a second. The units are given back when
// fn returns or panics. The result joins the errors of fn and of the release, so it is [ErrLost]
// when the permit was lost while fn ran.
func (s *Semaphore) Do(ctx context.Context, n int64, fn func(context.Context) error) error {
	return s.do(ctx, "do", n, fn)
}

// do is Do for a caller that calls it op.
func (s *Semaphore) do(ctx context.Context, op string, n int64, fn func(context.Context) error) (err error) {
	if fn == nil {
		return wrap(op, s.name, fmt.Errorf("%w: the function is nil", ErrInvalid))
	}
	p, err := s.acquire(ctx, op, n, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Release(ctx)) }()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(p.Context(), func() { cancel(context.Cause(p.Context())) })
	defer stop()
	return fn(permitContext{inner, p, cancel})
}

// acquire is Acquire, or without wait TryAcquire, for a caller that calls it op.
func (s *Semaphore) acquire(ctx context.Context, op string, n int64, wait bool) (*Permit, error) {
	t, err := s.obtain(ctx, op, n, wait)
	if err != nil {
		return nil, err
	}
	return t.permit, nil
}

// obtain returns a ticket that has its permit or, beside the error, the one that was not granted, if
// there was any.
func (s *Semaphore) obtain(ctx context.Context, op string, n int64, wait bool) (*ticket, error) {
	if err := s.check(ctx, n, op); err != nil {
		return nil, err
	}
	if s.client.events.begin() {
		defer s.client.events.end()
	}
	asked := time.Now()
	cutShort := s.opts.cutShort(ctx, asked)
	inLine := wait && (s.spec.window == 0 || cutShort.IsZero()) // a rate can tell beforehand that the wait would be in vain
	for {
		t, err := s.client.ask(ctx, s, n, inLine, asked)
		if err == nil {
			err = t.await(ctx, s.opts.latest(asked))
		}
		if wait && !inLine && errors.Is(err, ErrNotAcquired) && t.isDone() { // or MaxWait was over before an answer
			if time.Now().Add(t.quoted.retry).Before(cutShort) {
				inLine = true
				continue
			}
			err = &WaitError{t.quoted.retry}
		}
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, errPositionLost):
			s.client.events.positionLost(t)
		default:
			err = wrap(op, s.name, err)
			s.client.events.notAcquired(s.name, t, err)
			return t, err
		}
	}
}

// check is everything that fails before any I/O.
func (s *Semaphore) check(ctx context.Context, n int64, op string) error {
	if s == nil || s.Inspector == nil {
		return wrap(op, "", errNoClient)
	}
	if ctx == nil {
		return nilContext(op, s.name)
	}
	if n < 1 || n > maxUnits {
		return wrap(op, s.name, fmt.Errorf("%w: weight %d is not between 1 and %d", ErrInvalid, n, int64(maxUnits)))
	}
	if err := s.opts.check(); err != nil {
		return wrap(op, s.name, err)
	}
	return wrap(op, s.name, ended(ctx))
}

// ask opens a ticket. The error is [ErrClosed]; there is a ticket all the same, which nobody has heard of.
func (c *Client) ask(ctx context.Context, s *Semaphore, n int64, wait bool, asked time.Time) (*ticket, error) {
	t := &ticket{
		seq:       c.lastSeq.Add(1),
		weight:    n,
		params:    acquireParams{ttl: s.opts.TTL, wait: wait, maxQueue: s.opts.MaxQueue, headStart: s.opts.HeadStart},
		spec:      s.spec,
		noRefresh: s.opts.NoRefresh,
		observed:  c.events.wants(ctx),
		asked:     asked,
		values:    ctx,
		done:      make(chan struct{}),
		released:  make(chan struct{}),
	}
	t.id = c.keyspace.ticketID(t.seq)
	if t.params.ttl == 0 {
		t.params.ttl = c.ttl
	}
	for {
		v, err := c.stateOf(s.name)
		if err != nil {
			return t, err
		}
		if v.open(t) {
			c.announce(asked)
			return t, nil
		}
	}
}

// view returns the view of a name, a new one if need be.
func (c *Client) stateOf(name string) (*nameState, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	v := c.states[name]
	if v == nil {
		v = c.newState(name)
		c.states[name] = v
	}
	return v, nil
}

func (c *Client) newState(name string) *nameState {
	v := &nameState{
		client:   c,
		name:     name,
		about:    c.keyspace.about(name),
		pipeline: c.pipelineOf(name),
		tickets:  make(map[int64]*ticket),
	}
	v.timer = timer{state: v, index: -1}
	return v
}

// lane returns the lane for a name that has none yet.
func (c *Client) pipelineOf(name string) *pipeline {
	if c.cluster != nil {
		return c.newPipeline(name)
	}
	return c.shared
}

func (c *Client) newPipeline(name string) *pipeline {
	return &pipeline{rdb: c.rdb, goroutines: c.goroutines, clock: c.clock, replicas: c.replicas, key: c.keyspace.keys(name)[0], suspect: c.reload, disconnected: c.verifyAll}
}

// forget is called by a view that retires.
func (c *Client) forget(v *nameState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states[v.name] == v {
		delete(c.states, v.name)
	}
}

// everyView returns the views that there are now.
func (c *Client) everyState() []*nameState {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*nameState, 0, len(c.states))
	for _, v := range c.states {
		all = append(all, v)
	}
	return all
}

// gap is called when wake messages may have been lost.
func (c *Client) gap() {
	for _, v := range c.everyState() {
		v.gap()
	}
}

// woken hands the grants of a wake message to whom they concern.
func (c *Client) woken(name string, epoch int64, grants []grant) {
	c.mu.Lock()
	v := c.states[name]
	c.mu.Unlock()
	if v != nil {
		v.woken(epoch, grants)
	}
}

// announce keeps the label of this process in Redis while it has tickets. It is sent along with
// something else, and nobody waits for it: a label is only for people to read.
func (c *Client) announce(now time.Time) {
	due := c.labelDue.Load()
	if now.UnixNano() < due || !c.labelDue.CompareAndSwap(due, now.Add(c.ttl).UnixNano()) {
		return
	}
	key := c.keyspace.labelKey(c.keyspace.clientID)
	set := redis.NewStatusCmd(background, "set", key, c.label, "px", (3 * c.ttl).Milliseconds())
	answer := c.shared.send(request{single: set})
	c.labelled.Store(&answer)
}

// withdraw takes the label away, after it was set: batches overtake each other. If that fails it expires.
func (c *Client) withdraw(ctx context.Context) {
	answer := c.labelled.Load()
	if answer == nil {
		return
	}
	c.shared.await(ctx, *answer)
	del := redis.NewIntCmd(background, "del", c.keyspace.labelKey(c.keyspace.clientID))
	c.shared.ask(ctx, request{single: del})
}

// closeGrace bounds how long Close waits for Redis to confirm that everything was given back.
const closeGrace = 5 * time.Second

// Close gives back every permit, leaves every line, and ends every goroutine of the Client. Calls
// that wait return [ErrClosed], and so do calls that come later; contexts of permits end with
// [ErrReleased]. The go-redis client stays open.
//
// The error is [ErrUnavailable] if Redis has not confirmed all of it within 5 s; the rest comes back
// by itself when its lease ends. Close then waits for up to 5 s more until go-redis has returned from every
// call. If it has not, because Redis is silent and its ReadTimeout is longer or disabled, the error is
// ErrUnavailable too and names what still runs, which ends when go-redis returns. Close also waits for the
// observer and the logger, however long they take: both get everything before it returns. Later calls do nothing and
// return nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	views := c.everyState()
	err := c.giveBackAll(views)
	c.scheduler.close()
	c.goroutines.close()
	for _, v := range views {
		v.abandon()
	}
	c.events.close()
	return errors.Join(err, c.goroutines.hanging())
}

// giveBackAll has all tickets leave, takes the label away, and waits until Redis has confirmed it.
func (c *Client) giveBackAll(views []*nameState) error {
	ctx, cancel := context.WithTimeout(background, closeGrace)
	defer cancel()
	var tickets []*ticket
	for _, v := range views {
		tickets = append(tickets, v.close()...)
	}
	missing := 0
	for _, t := range tickets {
		select {
		case <-t.released:
		case <-ctx.Done():
		}
		if !t.isGone() {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: close: %d permits or places in line were not given back and lapse within their TTL", ErrUnavailable, missing)
	}
	c.withdraw(ctx)
	return nil
}

// opError says which operation on which name went wrong.
type opError struct {
	op, name string
	err      error
}

// wrap returns err with the operation and the name; nil stays nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{op, name, err}
}

func nilContext(op, name string) error {
	return wrap(op, name, fmt.Errorf("%w: the context is nil", ErrInvalid))
}

func (e *opError) Error() string {
	return fmt.Sprintf("fairsem: %s %q: %s", e.op, e.name, strings.TrimPrefix(e.err.Error(), "fairsem: "))
}

func (e *opError) Unwrap() error { return e.err }

// advice is what to do about errors of Redis that trying again cannot heal, by how they begin.
var advice = map[string]string{
	"WRONGTYPE":                           "another program uses a key of this name: choose another name or Options.Prefix",
	"FAIRSEMKIND":                         "a Limiter and a Semaphore need names of their own",
	"FAIRSEMLAYOUT":                       "another process uses a later version of this package: upgrade this one",
	"NOPERM":                              rightsAdvice,
	"ACL failure in script":               rightsAdvice,
	"The user executing the script can't": rightsAdvice, // how Redis 7.0 says it
}

const rightsAdvice = "give this Redis user the rights that the README lists"

// advise adds what to do to err.
func advise(err error) error {
	for begin, what := range advice {
		if redis.HasErrorPrefix(err, begin) {
			return fmt.Errorf("%w (%s)", err, what)
		}
	}
	return err
}
