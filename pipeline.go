package fairsem

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Many callers share one round trip. They add requests to a pipeline. While maxInFlight batches are in flight the
// next one fills, and it is sent as soon as one of them has been answered: an idle client sends at once, a busy one
// sends few and large batches. A batch has one script call for all equal operations on a name, and an acquire also
// carries the releases for that name.

// maxInFlight is how many batches of a pipeline may be in flight. With one, Redis would idle while the client reads;
// with more than two, batches only get smaller.
const maxInFlight = 2

// A batch is bounded so that its last command is answered before the timeout, even behind another batch and with the
// shortest TTL: a late batch is late as a whole, and all of it must be sent again. How many ids fit depends on the
// machines and the network, so a pipeline starts with the ids of one call and adapts to how long its batches take.
// A batch of more than maxBatchIDs would not be faster.
const (
	maxRequests = 500
	maxBatchIDs = 12 * requestIDs
	requestIDs  = protocol.MaxIDs // per call
)

// A batch without an answer is written off after a third of the shortest TTL in it, within these bounds. That is soon
// enough to try again while the leases last, and late enough for a slow network.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 2 * time.Second
)

var errNoAnswer = errors.New("no answer in time")

// batchKey is what tickets must have in common to share a script call. Requests with equal keys are merged.
type batchKey struct {
	state  *nameState
	script *protocol.Script
	spec   protocol.LimitSpec     // declared by the call
	params protocol.AcquireParams // for an acquire
	lease  time.Duration          // for a refresh; for a release that leaves tombstones

	overdue bool // for a release: the leases have ended
}

// request is one command of a batch: a script call with its tickets, or a single command with its reply.
type request struct {
	key      batchKey
	tickets  []*ticket
	released []*ticket // for an acquire: to be released first, by the same call
	holds    bool      // all tickets are holding when it is sent
	urgent   bool      // it is sent before the others
	closed   bool      // it is full or in flight; guarded by pipeline.mu

	single redis.Cmder
	text   protocol.Call   // of single, if it is a script
	reply  chan<- response // for single; nil: the reply is discarded
}

// response is the result of a request.
type response struct {
	numbers []int64 // reply of a script
	list    []any   // reply of the script that pages
	again   bool    // the query was sent before, without an answer
	err     error
}

// pipeline is a queue of requests for one server. In a cluster each name has its own pipeline: one over several nodes
// would take as long as its slowest node, and a dead node would hold up all names.
type pipeline struct {
	rdb          redis.UniversalClient
	goroutines   *goroutines
	clock        *clock
	replicas     int    // how many must acknowledge a grant
	key          string // in a cluster: a key on the node that is called
	suspect      func() // called whenever the server may be gone
	disconnected func() // called when the connection breaks

	mu       sync.Mutex
	urgent   []*request // sent first, or leases would expire behind many new calls
	queued   []*request // both queues are in the order in which the requests were begun
	backlog  int        // ids in queued
	room     int        // ids that a batch may carry; if less than requestIDs: one call
	inFlight int
	failed   error // error of the last exchange, nil if it worked: the cause of a timeout
}

// add puts tickets into the request for their key. Without tickets it adds a request that only has the script reap and
// promote.
func (l *pipeline) add(j batchKey, tickets ...*ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	urgent := j.renews() || slices.ContainsFunc(tickets, (*ticket).isUnanswered)
	p := l.openLocked(j, urgent)
	for _, t := range tickets {
		if p.closed {
			p = l.openLocked(j, urgent)
		}
		if p.key == j {
			p.tickets = append(p.tickets, t)
		} else {
			p.released = append(p.released, t)
		}
		if !p.urgent {
			l.backlog++
		}
		p.closed = p.ids() >= requestIDs
	}
	l.startLocked()
}

func (p *request) ids() int { return len(p.tickets) + len(p.released) }

// canCarry reports whether the call for j, an acquire, can also perform the release other.
func (j batchKey) canCarry(other batchKey) bool {
	return j.script == protocol.AcquireScript && other.script == protocol.ReleaseScript && other.lease == 0 && !other.overdue && j.spec == other.spec
}

// openLocked returns a request for the key that has room, a new one if need be. Urgent and other tickets do not share a
// request: the urgent ones would be late, or the others would overtake. Behind a backlog of acquires every other
// operation is urgent.
func (l *pipeline) openLocked(j batchKey, urgent bool) *request {
	v := j.state
	crowded := l.backlog >= max(l.room, requestIDs) // an acquire would not be sent with the next batch
	urgent = urgent || crowded && j.script != protocol.AcquireScript
	var found *request
	open := v.filling[:0]
	for _, p := range v.filling {
		if p.closed {
			continue
		}
		open = append(open, p)
		switch {
		case found != nil:
		case p.urgent != urgent:
		case p.key == j || p.key.canCarry(j):
			found = p
		case j.canCarry(p.key):
			p.key, p.tickets, p.released = j, nil, p.tickets
			found = p
		}
	}
	v.filling = open
	if found != nil {
		return found
	}
	p := &request{key: j, urgent: urgent}
	v.filling = append(v.filling, p)
	if p.urgent {
		l.urgent = append(l.urgent, p)
	} else {
		l.queued = append(l.queued, p)
	}
	return p
}

// renews reports whether j concerns leases that end unless it is executed in time.
func (j batchKey) renews() bool {
	return j.script == protocol.RefreshScript || j.script == protocol.RestoreScript
}

// addSingle queues a command that shares only the round trip.
func (l *pipeline) addSingle(p *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = append(l.queued, p)
	l.startLocked()
}

// ask queues a single command and waits for its response.
func (l *pipeline) ask(ctx context.Context, p request) response {
	return l.await(ctx, l.send(p))
}

// send is the first half of ask, await the second.
func (l *pipeline) send(p request) <-chan response {
	reply := make(chan response, 1)
	p.reply = reply
	l.addSingle(&p)
	return reply
}

func (l *pipeline) await(ctx context.Context, reply <-chan response) response {
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return response{err: ctx.Err()}
	case <-l.goroutines.ctx.Done():
		return response{err: ErrClosed}
	}
}

func (l *pipeline) startLocked() {
	if l.inFlight == maxInFlight || len(l.urgent)+len(l.queued) == 0 {
		return
	}
	if l.goroutines.start(scriptCalls, l.sendLoop) { // ends when nothing is queued
		l.inFlight++
	}
}

// sendLoop sends batches until nothing is queued, or until a batch was written off: another goroutine then takes over.
func (l *pipeline) sendLoop() {
	for b := l.nextBatch(); b != nil; b = l.nextBatch() {
		if !b.deliver() {
			return
		}
	}
}

// nextBatch makes a batch of what is queued. If nothing is queued it returns nil, and the caller no longer counts as in
// flight.
func (l *pipeline) nextBatch() *batch {
	for {
		l.mu.Lock()
		requests := l.nextLocked()
		if len(requests) == 0 {
			l.inFlight--
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		if b := newBatch(l, requests); len(b.requests) > 0 {
			return b
		}
	}
}

// nextLocked dequeues the requests of one batch: urgent ones first, but at least one from each queue. A client that
// cannot keep up with its renewals must still release.
func (l *pipeline) nextLocked() (requests []*request) {
	ids := 0
	for _, queue := range []*[]*request{&l.urgent, &l.queued} {
		n := 0
		for _, p := range *queue {
			if n > 0 && (len(requests) >= maxRequests || ids+p.ids() > max(l.room, requestIDs)) {
				break
			}
			n++
			ids += p.ids()
			p.closed = true
			requests = append(requests, p)
			if !p.urgent {
				l.backlog -= p.ids()
			}
		}
		*queue = (*queue)[n:]
	}
	return requests
}

// batch is what one round trip carries.
type batch struct {
	pipeline *pipeline
	sent     instant // before sending; a reply is trusted from this moment
	requests []*request
	timeout  time.Duration
	done     atomic.Bool // answered or written off, whichever came first
}

// newBatch makes a batch of the queued requests that are still wanted.
func newBatch(l *pipeline, queued []*request) *batch {
	b := &batch{pipeline: l, sent: l.clock.now(), requests: queued[:0], timeout: maxTimeout}
	for _, p := range queued {
		if p.single == nil && !p.prepare(b.sent.Time) {
			continue
		}
		for _, t := range p.all() {
			b.timeout = min(b.timeout, t.params.TTL/3)
		}
		b.requests = append(b.requests, p)
	}
	b.timeout = max(b.timeout, minTimeout)
	return b
}

// prepare removes the tickets that were given up before anything was sent for them. It reports whether any is left.
func (p *request) prepare(now time.Time) bool {
	if len(p.tickets) == 0 {
		return true // only to reap and promote
	}
	v := p.key.state
	p.tickets, p.holds = v.prepare(p.key.script, p.tickets, now)
	if len(p.released) > 0 {
		p.released, _ = v.prepare(protocol.ReleaseScript, p.released, now)
		if len(p.tickets) == 0 {
			p.key = batchKey{state: v, script: protocol.ReleaseScript, spec: p.key.spec}
			p.tickets, p.released = p.released, nil
		}
	}
	return len(p.tickets) > 0
}

// all yields the tickets in the order of the script's results, each with its verb.
func (p *request) all() iter.Seq2[*protocol.Script, *ticket] {
	return func(yield func(*protocol.Script, *ticket) bool) {
		for _, t := range p.released {
			if !yield(protocol.ReleaseScript, t) {
				return
			}
		}
		for _, t := range p.tickets {
			if !yield(p.key.script, t) {
				return
			}
		}
	}
}

// deliver sends the batch and hands out the responses. It reports false if the batch was written off meanwhile.
func (b *batch) deliver() bool {
	timer := time.AfterFunc(b.timeout, b.writeOff)
	defer timer.Stop()
	responses := b.exchange()
	broke := b.pipeline.noteOutcome(worst(responses))
	inTime := b.done.CompareAndSwap(false, true)
	if inTime {
		b.pipeline.pace(time.Since(b.sent.Time), b.timeout)
		b.handOut(responses)
	}
	if broke {
		b.pipeline.disconnected()
	}
	return inTime
}

// pace lets batches grow while answers take a small part of the timeout, and shrinks them before they take all of it.
func (l *pipeline) pace(took, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case took > timeout/2:
		l.room = 0
	case took > timeout/4:
		l.room /= 2
	case took < timeout/8:
		l.room = min(max(2*l.room, requestIDs), maxBatchIDs)
	}
}

// writeOff stops waiting for a batch: go-redis cannot be made to return from a read in time.
func (b *batch) writeOff() {
	if !b.done.CompareAndSwap(false, true) {
		return
	}
	l := b.pipeline
	l.suspect() // another server may answer next
	l.pace(b.timeout, b.timeout)
	l.mu.Lock()
	err := errNoAnswer
	if l.failed != nil {
		err = fmt.Errorf("%w; before that: %w", errNoAnswer, l.failed)
	}
	l.mu.Unlock()
	responses := make([]response, len(b.requests))
	for i := range responses {
		responses[i].err = err
	}
	b.handOut(responses)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.startLocked()
}

// noteOutcome records the error of an exchange, even of one that was written off. It reports whether the connection has
// broken since the exchange before.
func (l *pipeline) noteOutcome(err error) (broke bool) {
	l.mu.Lock()
	broke = isConnError(err) && !isConnError(l.failed)
	l.failed = err
	l.mu.Unlock()
	if isConnError(err) {
		l.suspect()
	}
	if cluster, ok := l.rdb.(cluster); ok && moved(err) {
		cluster.ReloadState(l.goroutines.ctx)
	}
	return broke
}

// failure returns the error of the last exchange, nil if it worked.
func (l *pipeline) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// worst returns the error that says most about the server, nil if there is none.
func worst(responses []response) (err error) {
	for _, r := range responses {
		if err == nil || isConnError(r.err) {
			err = r.err
		}
		if isConnError(err) {
			break
		}
	}
	return err
}

// moved reports whether err is the reply of a node that no longer has the name.
func moved(err error) bool { return err != nil && redis.HasErrorPrefix(err, "MOVED") }

// isConnError reports whether err means that the server is gone, or is not the same server as before.
func isConnError(err error) bool {
	return err != nil && !isUnreplicated(err) && (!refused(err) ||
		redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err))
}

func (b *batch) handOut(responses []response) {
	for i, p := range b.requests {
		switch {
		case p.single == nil:
			p.key.state.answered(p, responses[i], b.sent)
		case p.reply != nil:
			p.reply <- responses[i]
		}
	}
}

// exchange runs the commands in one round trip. Scripts that the server did not have are sent again with their text, in a
// second one.
func (b *batch) exchange() []response {
	calls := make([]protocol.Call, len(b.requests))
	commands := make([]redis.Cmder, len(b.requests))
	for i, p := range b.requests {
		calls[i], commands[i] = p.text, p.single
		if p.single == nil {
			calls[i] = p.call()
			commands[i] = calls[i].Command(false)
		}
	}
	responses := b.pipeline.runDurable(calls, commands, b.timeout)

	var missing []int
	var again []protocol.Call
	var texts []redis.Cmder
	for i, r := range responses {
		if calls[i].Script != nil && r.err != nil && redis.HasErrorPrefix(r.err, "NOSCRIPT") {
			missing = append(missing, i)
			again = append(again, calls[i])
			texts = append(texts, calls[i].Command(true))
		}
	}
	if len(again) > 0 {
		for i, r := range b.pipeline.runDurable(again, texts, b.timeout) {
			responses[missing[i]] = r
		}
	}
	return responses
}

// call returns the script call of a request.
func (p *request) call() protocol.Call {
	v, j := p.key.state, p.key
	d := v.client.declared.declare(v.name, j.spec)
	d.Knows = v.knows()
	switch j.script {
	case protocol.AcquireScript:
		return protocol.Acquire(v.about, d, j.params, p.tickets, p.released...)
	case protocol.ReleaseScript:
		return protocol.Release(v.about, d, j.lease, j.overdue, p.tickets)
	case protocol.RestoreScript:
		return protocol.Restore(v.about, d, j.lease, p.tickets, v.claims(p.tickets))
	case protocol.ReduceScript:
		return protocol.Reduce(v.about, d, p.tickets, v.keeps(p.tickets))
	default:
		return protocol.Refresh(v.about, d, j.lease, p.holds, p.tickets)
	}
}

// run sends commands in one pipeline. A command with neither a value nor an error of its own was not answered. It gets
// the error of the pipeline, which may be a reply of Redis about the connection.
func (l *pipeline) run(pipe redis.Pipeliner, commands []redis.Cmder) []response {
	responses := make([]response, len(commands))
	_ = pipe.BatchProcess(l.goroutines.ctx, commands...) // only queues
	_, err := pipe.Exec(l.goroutines.ctx)
	for i, c := range commands {
		responses[i] = read(c)
		switch {
		case !errors.Is(responses[i].err, errNoAnswer):
		case refused(err):
			responses[i].err = err
		default:
			responses[i].err = errors.Join(errNoAnswer, err)
		}
	}
	return responses
}

func read(c redis.Cmder) response {
	r := response{err: c.Err()}
	answered := true
	switch c := c.(type) {
	case protocol.Numbers:
		r.numbers = c.Val()
		answered = r.numbers != nil
	case protocol.Values:
		r.list = c.Val()
		answered = r.list != nil
	}
	switch {
	case r.err == nil && !answered:
		r.err = errNoAnswer
	case answered && errors.Is(r.err, redis.Nil):
		r.err = nil // a label that does not exist
	}
	return r
}

// refused reports whether err is Redis's reply to the command, so that no copy can still be in flight. A script that failed
// at run time has granted nothing, and what it changed expires. An earlier reply that errNoAnswer wraps was about
// something else.
func refused(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && !errors.Is(err, errNoAnswer) && !isUnreplicated(err)
}

// transient reports whether a retry can help.
func transient(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return false
	}
	if !refused(err) {
		return !isUnreplicated(err) || !redis.HasErrorPrefix(err, "NOPERM")
	}
	for _, is := range []func(error) bool{
		redis.IsLoadingError, redis.IsReadOnlyError, redis.IsClusterDownError, redis.IsTryAgainError,
		redis.IsMasterDownError, redis.IsMaxClientsError, redis.IsOOMError, redis.IsNoReplicasError,
	} {
		if is(err) {
			return true
		}
	}
	for _, prefix := range []string{"BUSY", "MISCONF", "NOSCRIPT", "MOVED", "ASK"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
