package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/pubsub"
)

// Client shares one subscription, one scheduler of renewals and one pipeline between all semaphores of a process; in a
// cluster there is one more subscription for each primary that stores something of the client. It is safe for concurrent
// use. The connections belong to the go-redis client.
type Client struct {
	host
	rdb        redis.UniversalClient
	cluster    pubsub.Cluster // nil: one server
	label      string
	shared     *pipeline.Pipeline // for all names, except in a cluster; also for commands that concern no name
	goroutines *goroutines.Group
	pubsub     *pubsub.Hub
	lastSeq    atomic.Int64
	labelDue   atomic.Int64                             // in ns since the start of the process, suspensions included; 0: now
	longest    atomic.Int64                             // lease of a call so far, in ns
	labelled   atomic.Pointer[<-chan pipeline.Response] // receives the answer to the last command that set the label

	mu     sync.Mutex
	states map[string]*nameState
	closed bool
}

// New creates a Client on a go-redis client, which the caller closes after this one. It does no I/O. The error is [ErrInvalid].
//
// A type that wraps a [redis.ClusterClient] must also have the methods MasterForKey, ReloadState and ForEachMaster; otherwise it
// is treated as a single server.
func New(rdb redis.UniversalClient, opts Options) (*Client, error) {
	if err := opts.check(rdb); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	opts = opts.withDefaults()
	cluster, _ := rdb.(pubsub.Cluster)
	keyspace := protocol.Keyspace{Prefix: opts.Prefix, ClientID: protocol.NewClientID(), Cluster: cluster != nil, Grace: opts.Grace}
	c := &Client{
		rdb:        rdb,
		cluster:    cluster,
		label:      opts.Label,
		goroutines: goroutines.New(),
		states:     make(map[string]*nameState),
	}
	c.host = host{
		keyspace:  keyspace,
		ttl:       opts.TTL,
		grace:     opts.Grace,
		replicas:  opts.WaitReplicas,
		clock:     clock.New(),
		releasing: clock.NewWait(releaseWait),
		declared:  &declarations{began: time.Now()},
		servers:   &servers{knownFor: opts.Grace, firstSeen: make(map[int64]time.Time)},
		inUse:     c.announce,
		retired:   c.forget,
	}
	c.longest.Store(int64(opts.TTL))
	c.scheduler = newScheduler(c.clock)
	c.events = newEvents(opts.Observer, opts.Logger, c.goroutines)
	c.pubsub = pubsub.New(rdb, cluster, keyspace, opts.TTL, c.goroutines, pubsub.Hooks{
		Woken: c.woken, Gap: c.gap, VerifyAll: c.verifyAll, Verify: c.verify, Names: c.names,
		Disconnected: func(channel, node string, err error) { c.events.disconnected(channel, node, err) },
		Reconnected:  func(channel, node string, silent time.Duration) { c.events.reconnected(channel, node, silent) },
	})
	c.hub = c.pubsub
	c.shared = c.newPipeline("")
	return c, nil
}

// check returns an error for a Client that New has not made.
func (c *Client) check() error {
	if c == nil || c.rdb == nil {
		return errZeroClient
	}
	return nil
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
		host:     &c.host,
		name:     name,
		about:    c.keyspace.About(name),
		pipeline: c.pipelineOf(name),
		tickets:  make(map[int64]*ticket),
	}
	v.timer = timer{owner: v, index: -1}
	return v
}

// pipelineOf returns a pipeline for a name. In a cluster it is a new one, which nothing else uses: a name with tickets keeps its own.
func (c *Client) pipelineOf(name string) *pipeline.Pipeline {
	if c.keyspace.Cluster {
		return c.newPipeline(name)
	}
	return c.shared
}

func (c *Client) newPipeline(name string) *pipeline.Pipeline {
	config := pipeline.Config{
		Client: c.rdb, Goroutines: c.goroutines, Clock: c.clock, Replicas: c.replicas, Suspect: c.pubsub.Reload, Disconnected: c.verifyAll,
	}
	if c.cluster != nil {
		config.Primary = func(ctx context.Context) (*redis.Client, error) {
			return c.cluster.MasterForKey(ctx, c.keyspace.Key(name, protocol.Owner))
		}
	}
	return pipeline.New(config)
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

// names returns the names that this client uses now.
func (c *Client) names() (all []string) {
	for _, v := range c.everyState() {
		all = append(all, v.name)
	}
	return all
}

// stateInUse returns the state of a name, nil if there is none.
func (c *Client) stateInUse(name string) *nameState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states[name]
}

// verifyAll is called when the server may have changed: every name queries all its tickets.
func (c *Client) verifyAll() {
	for _, v := range c.everyState() {
		v.verify()
	}
}

// verify is verifyAll for one name.
func (c *Client) verify(name string) {
	if v := c.stateInUse(name); v != nil {
		v.verify()
	}
}

// gap is called when the subscription was established: before, wake messages may have been lost.
func (c *Client) gap() {
	c.servers.setSubscribed()
	for _, v := range c.everyState() {
		v.gap()
	}
}

// woken passes the grants of a wake message to the state of their name.
func (c *Client) woken(name string, epoch int64, grants []protocol.Grant) {
	if v := c.stateInUse(name); v != nil {
		v.woken(epoch, grants)
	}
}

// announce keeps the label of this process in Redis while it has tickets, for three of the longest leases of its calls: with each
// renewal it is called again. The label is sent along with other commands, and no call waits for it: it is only for people to read.
func (c *Client) announce(now time.Time, lease time.Duration) {
	for longest := c.longest.Load(); int64(lease) > longest; longest = c.longest.Load() {
		if c.longest.CompareAndSwap(longest, int64(lease)) {
			c.labelDue.Store(0)
		}
	}
	due, age := c.labelDue.Load(), now.Sub(clock.Start)+c.clock.Asleep() // a wall clock could be set back
	if due != 0 && int64(age) < due || !c.labelDue.CompareAndSwap(due, int64(age+c.ttl)) {
		return
	}
	key := c.keyspace.LabelKey(c.keyspace.ClientID)
	set := redis.NewStatusCmd(context.Background(), "set", key, c.label, "px", 3*time.Duration(c.longest.Load()).Milliseconds())
	answer := c.shared.Send(pipeline.Command{Cmd: set})
	c.labelled.Store(&answer)
}

// withdraw deletes the label once it has been set, because batches overtake each other. If that fails, the label expires.
func (c *Client) withdraw(ctx context.Context) {
	answer := c.labelled.Load()
	if answer == nil {
		return
	}
	c.shared.Await(ctx, *answer)
	del := redis.NewIntCmd(context.Background(), "del", c.keyspace.LabelKey(c.keyspace.ClientID))
	c.shared.Ask(ctx, pipeline.Command{Cmd: del})
}

// Close releases every permit, removes every waiter, and ends every goroutine of the Client. Waiting calls and later calls return
// [ErrClosed]. The contexts of permits end with an error that is both [ErrReleased] and ErrClosed. The go-redis client stays
// open.
//
// The error is [ErrUnavailable] if Redis has not confirmed all releases within 5 s, or before their leases ended, or has refused
// one; the units that were not released are free when their leases end. The error wraps the cause if it is known by then.
// Releases that have failed before do not count. Close then waits for up to 5 s more for all calls of go-redis to return. If one
// has not, because Redis is silent and the ReadTimeout of all its tries is longer, or disabled, the error is ErrUnavailable, too,
// and names the tasks that still run; they end when go-redis returns. A function given to [Weighted.OnLost] that has not returned
// is an error that is not ErrUnavailable. Close also waits for the observer and the logger, however long they take: both receive
// every event before it returns. Further calls of Close do nothing and return nil.
func (c *Client) Close() error {
	if err := c.check(); err != nil {
		return wrap("close", "", err)
	}
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
		v.removeUnanswered()
	}
	c.events.close()
	return errors.Join(err, hanging(c.goroutines))
}

// releaseAll releases all tickets, deletes the label, and waits until Redis has confirmed it.
func (c *Client) releaseAll(states []*nameState) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	var tickets []*ticket
	for _, v := range states {
		tickets = append(tickets, v.close()...)
	}
	missing := 0
	var cause error
	for _, t := range tickets {
		select {
		case <-t.released:
		case <-ctx.Done():
		}
		if t.isReleased() {
			continue
		}
		missing++
		if isClosed(t.released) {
			cause = cmp.Or(cause, t.releaseErr)
		} else {
			cause = cmp.Or(cause, t.state.pipeline.Failure())
		}
	}
	if missing > 0 {
		err = fmt.Errorf("%w: close: not released: %d of the permits and positions in the queue, which expire within their TTL; grants of a Limiter expire with their window", ErrUnavailable, missing)
	}
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	c.withdraw(ctx)
	return err
}

// hanging returns an error if some work did not end in time: ErrUnavailable, unless it is only that of the user.
func hanging(g *goroutines.Group) error {
	all := g.Hanging()
	switch {
	case len(all) == 0:
		return nil
	case slices.Equal(all, []string{string(goroutines.LossReports)}):
		return fmt.Errorf("fairsem: close: a function given to OnLost has not returned after %v", goroutines.Grace)
	}
	return fmt.Errorf("%w: close: still running after %v: %s (go-redis waits for its ReadTimeout in each attempt, or forever if it is disabled)",
		ErrUnavailable, goroutines.Grace, strings.Join(all, ", "))
}
