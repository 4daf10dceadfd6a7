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

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
)

const (
	defaultPrefix = "fairsem"
	defaultTTL    = 10 * time.Second
	minTTL        = 100 * time.Millisecond
	maxTTL        = 24 * time.Hour
	defaultGrace  = time.Second
	maxLabel      = 256                  // bytes
	maxHeadStart  = 366 * 24 * time.Hour // keeps position numbers positive
)

// Options configure a Client. The zero value is the documented default.
type Options struct {
	// Prefix begins every key and channel; "fairsem" if empty. It must not contain "{" or "}". Clients with different prefixes
	// are independent of each other.
	Prefix string

	// TTL is the length of a lease: 10 s if zero, else 100 ms to 24 h. The units of a process that was killed are free
	// again after at most one TTL. A process that cannot reach Redis loses its permits after nine tenths of it.
	TTL time.Duration

	// Label is what operators see beside a permit, at most 256 bytes; "<hostname>:<pid>" if empty.
	Label string

	// Logger receives a record for every Event; see [Event] for messages and levels. What a call cannot return is at Warn or
	// Info, the rest at Debug. Its handler is called like an [Observer] and before it; only Enabled is called by every
	// caller. If nil, nothing is logged.
	Logger *slog.Logger `json:"-"`

	// Observer receives every [Event] itself. If nil, events cost nothing.
	Observer Observer `json:"-"`

	// WaitReplicas is how many replicas must acknowledge a grant or a renewal before it counts. Permits then survive
	// the failover to such a replica. While fewer replicas answer, nothing is granted. It costs a round trip between
	// Redis servers. In a cluster it counts the replicas of the primary.
	WaitReplicas int

	// Grace is how long a server that may have lost state, by a restart or a failover, grants nothing new, so that clients
	// can restore what they have. If zero it is 1 s, or the TTL where that is shorter; at most the TTL.
	//
	// One second is enough for a holder that sees its connection to that server break. It takes 5 s where a replica takes over
	// in a cluster, because go-redis may search for the new primary for that long. A holder that does not see the break, because it
	// is stopped or disconnected, or because the server hangs instead of dying, notices at its next renewal, within half a
	// TTL, or when its lease ends. With a grace period of a whole TTL no units are granted beside it.
	//
	// A server that was just started counts as one that lost state, so the first calls after its start wait for up to a second more
	// than Grace, in a cluster three. That holds for TryAcquire, too, and such calls count for MaxQueue. It also holds, for
	// a name that it does not have, for a server that took over from another, until this client has known it for that long.
	// All processes should have the same Grace.
	Grace time.Duration
}

// Client shares one subscription, one scheduler of renewals and one pipeline between all semaphores of a process; in a
// cluster there is one more subscription for each primary that stores something of the client. It is safe for concurrent
// use. The connections belong to the go-redis client.
type Client struct {
	rdb      redis.UniversalClient
	keyspace protocol.Keyspace
	ttl      time.Duration
	label    string
	cluster  cluster // nil: not a cluster
	grace    time.Duration
	servers  *servers
	replicas int

	shared     *pipeline // for all names, except in a cluster
	goroutines *goroutines.Group
	events     *events // nil: neither an observer nor a logger
	clock      *clock.Clock
	scheduler  *scheduler
	wake       *wake
	masters    *masters
	declared   *declarations
	lastSeq    atomic.Int64
	unseen     atomic.Int32                    // how many servers could go away unnoticed
	labelDue   atomic.Int64                    // unix ns
	labelled   atomic.Pointer[<-chan response] // receives the answer to the last command that set the label

	mu     sync.Mutex
	states map[string]*nameState
	closed bool
}

// New creates a Client on a go-redis client, which the caller closes after this one. It does no I/O. The error is [ErrInvalid].
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	if err := opts.check(rdb); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	opts = opts.withDefaults()
	c := &Client{
		rdb:        rdb,
		keyspace:   protocol.Keyspace{Prefix: opts.Prefix, ClientID: uuid.NewString(), Grace: opts.Grace},
		ttl:        opts.TTL,
		label:      opts.Label,
		grace:      opts.Grace,
		servers:    &servers{settled: opts.Grace, met: make(map[int64]time.Time)},
		replicas:   opts.WaitReplicas,
		goroutines: goroutines.New(),
		clock:      clock.New(),
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

// Semaphore returns a handle on the semaphore of that name, of which at most limit units are in use at once. It does no
// I/O, and thousands of handles are fine. The name may be any 1 to 512 bytes, and must not start with "}".
//
// The limit belongs to the semaphore: what this client declares with its first operation replaces what other clients
// declared before, and stays until a later client declares another limit. A lower limit revokes no permit; no new permit is
// granted until enough units are released.
//
// The error is [ErrInvalid].
func (c *Client) Semaphore(name string, limit int64) (*Semaphore, error) {
	return c.semaphore(name, limit, 1)
}

// semaphore is Semaphore for a limit of at least least.
func (c *Client) semaphore(name string, limit, least int64) (*Semaphore, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if limit < least || limit > protocol.MaxUnits {
		return nil, wrap("semaphore", name, fmt.Errorf("%w: limit %d is not between %d and %d", ErrInvalid, limit, least, int64(protocol.MaxUnits)))
	}
	return &Semaphore{Inspector: &Inspector{c, name, protocol.LimitSpec{Limit: limit}}}, nil
}

func checkName(name string) error {
	if err := protocol.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// stateOf returns the state of a name, a new one if there is none.
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
		about:    c.keyspace.About(name),
		pipeline: c.pipelineOf(name),
		tickets:  make(map[int64]*ticket),
	}
	v.timer = timer{state: v, index: -1}
	return v
}

// pipelineOf returns the pipeline for a name that has no state yet.
func (c *Client) pipelineOf(name string) *pipeline {
	if c.cluster != nil {
		return c.newPipeline(name)
	}
	return c.shared
}

func (c *Client) newPipeline(name string) *pipeline {
	return &pipeline{rdb: c.rdb, goroutines: c.goroutines, clock: c.clock, replicas: c.replicas, key: c.keyspace.Keys(name)[0], suspect: c.reload, disconnected: c.verifyAll}
}

// forget is called by a state that retires.
func (c *Client) forget(v *nameState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states[v.name] == v {
		delete(c.states, v.name)
	}
}

// everyState returns the states of all names that this client uses now.
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

// woken passes the grants of a wake message to the state of their name.
func (c *Client) woken(name string, epoch int64, grants []protocol.Grant) {
	c.mu.Lock()
	v := c.states[name]
	c.mu.Unlock()
	if v != nil {
		v.woken(epoch, grants)
	}
}

// announce keeps the label of this process in Redis while it has tickets. The label is sent along with other commands, and
// no call waits for it: it is only for people to read.
func (c *Client) announce(now time.Time) {
	due := c.labelDue.Load()
	if now.UnixNano() < due || !c.labelDue.CompareAndSwap(due, now.Add(c.ttl).UnixNano()) {
		return
	}
	key := c.keyspace.LabelKey(c.keyspace.ClientID)
	set := redis.NewStatusCmd(background, "set", key, c.label, "px", (3 * c.ttl).Milliseconds())
	answer := c.shared.send(request{single: set})
	c.labelled.Store(&answer)
}

// withdraw deletes the label once it has been set, because batches overtake each other. If that fails, the label expires.
func (c *Client) withdraw(ctx context.Context) {
	answer := c.labelled.Load()
	if answer == nil {
		return
	}
	c.shared.await(ctx, *answer)
	del := redis.NewIntCmd(background, "del", c.keyspace.LabelKey(c.keyspace.ClientID))
	c.shared.ask(ctx, request{single: del})
}

// closeGrace bounds how long Close waits for Redis to confirm all releases.
const closeGrace = 5 * time.Second

// Close releases every permit, removes every waiter, and ends every goroutine of the Client. Waiting calls and later calls return
// [ErrClosed]. Contexts of permits end with [ErrReleased]. The go-redis client stays open.
//
// The error is [ErrUnavailable] if Redis has not confirmed all releases within 5 s; the remaining units are free when their
// leases end. Close then waits for up to 5 s more for all calls of go-redis to return. If one has not, because Redis is
// silent and its ReadTimeout is longer or disabled, the error is ErrUnavailable, too, and names what still runs; that ends
// when go-redis returns. Close also waits for the observer and the logger, however long they take: both receive every event before it
// returns. Further calls of Close do nothing and return nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	states := c.everyState()
	err := c.releaseAll(states)
	c.scheduler.close()
	c.goroutines.Close()
	for _, v := range states {
		v.abandon()
	}
	c.events.close()
	return errors.Join(err, hanging(c.goroutines))
}

// releaseAll releases all tickets, deletes the label, and waits until Redis has confirmed it.
func (c *Client) releaseAll(states []*nameState) error {
	ctx, cancel := context.WithTimeout(background, closeGrace)
	defer cancel()
	var tickets []*ticket
	for _, v := range states {
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
		return fmt.Errorf("%w: close: %d permits or positions in the queue were not released and expire within their TTL", ErrUnavailable, missing)
	}
	c.withdraw(ctx)
	return nil
}

// hanging returns ErrUnavailable if some work did not end in time, nil if all did.
func hanging(g *goroutines.Group) error {
	all := g.Hanging()
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: close: after %v these have not ended: %s (go-redis without a ReadTimeout waits for Redis without end)",
		ErrUnavailable, goroutines.Grace, strings.Join(all, ", "))
}
