// Package pipeline sends requests of many callers in few round trips. It knows go-redis and the calls of package protocol,
// but not their meaning.
//
// Callers queue requests. While MaxInFlight batches are in flight the next one fills, and it is sent as soon as one of them
// has been answered: an idle client sends at once, a busy one sends few and large batches. After a message, or the answer
// to a small batch, that has woken 2 to 8 callers of a name with a queue, the next batch lets these run first, for at most a
// millisecond, so that it carries their requests. An urgent request does not wait for that.
package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Request is one command of a batch. No lock of the pipeline is held when its methods are called, except for IDs.
type Request interface {
	// IDs is how many ids it has ever carried; it may grow until Prepare returns. It must not wait for a lock.
	IDs() int
	// Prepare is called once, when the request is about to be sent: now is the time from which its answer is trusted. It
	// returns the command, and how long to wait for the answer; false: it is no longer wanted.
	Prepare(now clock.Instant) (c Command, timeout time.Duration, wanted bool)
	// Done is called once after a Prepare that returned true, with the answer or the reason why there is none. It returns how
	// many callers it has woken if they share a name with a queue, else 0.
	Done(r Response, sent clock.Instant) (woken int)
}

// Command is a script call, or any other command.
type Command struct {
	Call      protocol.Call
	Otherwise Fallback    // what is sent if a plain script declines the call
	Cmd       redis.Cmder // nil: the script call

	withText bool // the script is sent itself, for a server that has not cached it
	declined bool // it was plain, and the full one is to be sent
}

// Fallback makes the call of the full script, which is needed only if the plain one has declined: most do not.
type Fallback interface{ Full() protocol.Call }

// Response is the answer to a command. A command that has a result of its own has only the error here.
type Response struct {
	Numbers []int64 // reply of a script
	List    []any   // reply of a script that lists
	Err     error

	sentAgain bool // in another form: this is no response
}

// MaxInFlight is how many batches of a pipeline may be in flight. With one, Redis would idle while the client reads;
// with more than two, batches only get smaller.
const MaxInFlight = 2

// A batch is bounded so that its last command is answered before the timeout, even behind another batch and with the
// shortest TTL: a late batch is late as a whole, and all of it must be sent again. How many ids fit depends on the
// machines and the network, so a pipeline starts with the ids of one call and adapts to how long its batches take.
// A batch of more than MaxBatchIDs would not be faster.
const (
	MaxRequests = 500
	MaxBatchIDs = 12 * requestIDs
	requestIDs  = protocol.MaxIDs // per call
)

// A batch without an answer is written off after the shortest timeout in it, within these bounds. That is soon
// enough to try again while the leases last, and late enough for a slow network.
const (
	MinTimeout = 100 * time.Millisecond
	MaxTimeout = 2 * time.Second
)

// Config has the parts that a Pipeline works with.
type Config struct {
	Client       redis.UniversalClient
	Goroutines   *goroutines.Group
	Clock        *clock.Clock
	Replicas     int                                          // how many must acknowledge a grant
	Primary      func(context.Context) (*redis.Client, error) // in a cluster: the node that is called; nil: one server
	Suspect      func()                                       // called whenever the server may be gone, or another one has the name
	Disconnected func()                                       // called when a connection that has worked breaks
	Yield        func()                                       // lets other goroutines run; nil: runtime.Gosched
}

// Pipeline is a queue of requests for one server. In a cluster each name has its own pipeline: one over several nodes
// would take as long as its slowest node, and a dead node would hold up all names.
type Pipeline struct {
	Config
	backlog atomic.Int64 // ids in queued, and in the batch being prepared
	room    atomic.Int64 // ids that a batch may carry; if less than requestIDs: one call

	mu        sync.Mutex
	urgent    []Request // sent first, or leases would expire behind many new calls
	queued    []Request // both queues are in the order in which the requests were begun
	inFlight  int
	holds     int       // while there is one, only urgent requests start a batch
	heldSince time.Time // when the first of them began
	failed    error     // error of the last exchange, nil if it worked: the cause of a timeout
	connected bool      // an exchange has worked
}

// New returns a Pipeline, which needs no closing: its goroutines are those of the group.
func New(c Config) *Pipeline {
	if c.Yield == nil {
		c.Yield = runtime.Gosched
	}
	return &Pipeline{Config: c}
}

// Queue queues a request. Urgent ones are sent before the others.
func (p *Pipeline) Queue(r Request, urgent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if urgent {
		p.urgent = append(p.urgent, r)
	} else {
		p.backlog.Add(int64(r.IDs()))
		p.queued = append(p.queued, r)
	}
	p.startLocked()
}

// Grown is called after a request that is not urgent has got n more ids, before its Prepare returns.
func (p *Pipeline) Grown(n int) { p.backlog.Add(int64(n)) }

// Crowded reports whether a request that is not urgent would not be sent with the next batch.
func (p *Pipeline) Crowded() bool { return p.backlog.Load() >= p.Most() }

// Most is how many ids a batch may carry.
func (p *Pipeline) Most() int64 { return max(p.room.Load(), requestIDs) }

// Failure returns the error of the last exchange, nil if it worked.
func (p *Pipeline) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// query is the Request of a command that shares only the round trip.
type query struct {
	command Command
	reply   chan Response
}

func (q query) IDs() int { return 0 }

// Prepare gives the batch arguments of its own: go-redis may still be about to write those of an earlier batch with the same call.
func (q query) Prepare(clock.Instant) (Command, time.Duration, bool) {
	q.command.Call.Args = slices.Clone(q.command.Call.Args)
	return q.command, MaxTimeout, true
}

func (q query) Done(r Response, _ clock.Instant) (woken int) {
	q.reply <- r
	return 0
}

// Ask sends a command and waits for its response.
func (p *Pipeline) Ask(ctx context.Context, c Command) Response { return p.Await(ctx, p.Send(c)) }

// Send is the first half of Ask, Await the second.
func (p *Pipeline) Send(c Command) <-chan Response {
	q := query{c, make(chan Response, 1)}
	p.Queue(q, false)
	return q.reply
}

// Await waits for a response, until ctx ends or the client is closed. It returns one that is there even then.
func (p *Pipeline) Await(ctx context.Context, reply <-chan Response) Response {
	select {
	case r := <-reply:
		return r
	default:
	}
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return Response{Err: ctx.Err()}
	case <-p.Goroutines.Context.Done():
		return Response{Err: failure.ErrClosed}
	}
}

// readyLocked reports whether there is something to send.
func (p *Pipeline) readyLocked() bool {
	return len(p.urgent) > 0 || len(p.queued) > 0 && !p.holdsLocked()
}

func (p *Pipeline) canStartLocked() bool { return p.inFlight < MaxInFlight && p.readyLocked() }

func (p *Pipeline) startLocked() {
	if !p.canStartLocked() {
		return
	}
	if p.Goroutines.Start(goroutines.ScriptCalls, p.sendLoop) { // ends when nothing is to be sent
		p.inFlight++
	}
}

// sendLoop sends batches until nothing is to be sent, or until another goroutine has taken over.
func (p *Pipeline) sendLoop() {
	for b := p.nextBatch(); b != nil; b = p.nextBatch() {
		if !b.deliver() {
			return
		}
	}
}

// nextBatch makes a batch of the queued requests. If nothing is to be sent it returns nil, and the caller no longer counts as in
// flight.
func (p *Pipeline) nextBatch() *batch {
	for {
		p.mu.Lock()
		if !p.readyLocked() {
			p.inFlight--
			p.mu.Unlock()
			return nil
		}
		urgent, others := p.nextLocked()
		p.mu.Unlock()
		b := newBatch(p, len(urgent)+len(others))
		for _, r := range urgent {
			b.add(r)
		}
		for _, r := range others {
			b.add(r)
			p.backlog.Add(-int64(r.IDs())) // not before: until then it may have grown
		}
		clear(urgent) // the queues have them in their arrays still, and with them all that belongs to their calls
		clear(others)
		if len(b.prepared) > 0 {
			b.sent = p.Clock.Now() // after the last operation that joined a request
			return b
		}
	}
}

// nextLocked dequeues the requests of one batch: urgent ones first, but at least one from each queue. A client that
// cannot keep up with its renewals must still release.
func (p *Pipeline) nextLocked() (urgent, others []Request) {
	requests, ids := 0, 0
	dequeue := func(queue *[]Request) []Request {
		n := 0
		for _, r := range *queue {
			if n > 0 && (requests >= MaxRequests || int64(ids+r.IDs()) > p.Most()) {
				break
			}
			n, requests, ids = n+1, requests+1, ids+r.IDs()
		}
		some := (*queue)[:n]
		*queue = (*queue)[n:]
		return some
	}
	return dequeue(&p.urgent), dequeue(&p.queued)
}

// pace lets batches grow while answers take a small part of the timeout, and shrinks them before they take all of it.
func (p *Pipeline) pace(took, timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch room := p.room.Load(); {
	case took > timeout/2:
		p.room.Store(0)
	case took > timeout/4:
		p.room.Store(room / 2)
	case took < timeout/8:
		p.room.Store(min(max(2*room, requestIDs), MaxBatchIDs))
	}
}

// writtenOff is called when a batch got no answer in time.
func (p *Pipeline) writtenOff(timeout time.Duration) error {
	p.Suspect() // another server may answer next
	p.pace(timeout, timeout)
	if failed := p.Failure(); failed != nil {
		return fmt.Errorf("%w; before that: %w", failure.ErrNoAnswer, failed)
	}
	return failure.ErrNoAnswer
}

// takeOver lets another goroutine send, because one does not return from a batch that was written off.
func (p *Pipeline) takeOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	p.startLocked()
}

// noteOutcome records the error of an exchange, even of one that was written off. It reports whether the connection has
// broken since the exchange before: one that never worked has nothing to lose, and in a cluster each new name on a dead node has one.
func (p *Pipeline) noteOutcome(err error) (broke bool) {
	isGone := failure.IsConnection(err)
	p.mu.Lock()
	broke = p.connected && isGone && !failure.IsConnection(p.failed)
	p.connected, p.failed = p.connected || !isGone, err
	p.mu.Unlock()
	if isGone || failure.Moved(err) {
		p.Suspect()
	}
	return broke
}
