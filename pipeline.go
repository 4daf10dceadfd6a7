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
)

// Many callers, one round trip. Callers leave what they want in a lane. While maxFlying batches are
// on their way the next one fills, and it leaves the moment one of them is back: an idle client
// sends at once, a busy one sends few and large batches. In a batch there is one call for all who ask
// the same of a name, and it takes along what is to be given back there.

// maxFlying is how many batches of a lane may be on their way. With one, Redis would idle while the
// client reads; beyond two, batches only get smaller.
const maxInFlight = 2

// A batch is bounded, so that its last command is answered while its patience lasts, also behind another one and
// with the shortest TTL: what is late is late as a whole, and has to be asked for again. How many ids that are
// depends on the machines and the network, so a lane starts with one call's worth, and goes by how long its
// batches take. More than maxBatchIDs would not be faster.
const (
	maxParcels  = 500
	maxBatchIDs = 12 * requestIDs
	requestIDs  = maxIDs // of a call
)

// A batch without an answer is written off after a third of the shortest TTL in it, within these
// bounds: soon enough to try again while the leases last, late enough for a slow network.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 2 * time.Second
)

var errNoAnswer = errors.New("no answer in time")

// job is what tickets of one name can share a script call for. Equal jobs go together.
type batchKey struct {
	state  *nameState
	script *script
	spec   limitSpec     // that is declared
	params acquireParams // of an acquire
	lease  time.Duration // of a refresh; of a release that leaves tombstones, or is overdue
}

// parcel is one command of a batch: a job with its tickets, or a lone command with its reply.
type request struct {
	key      batchKey
	tickets  []*ticket
	released []*ticket // of an acquire: to be released first, by the same call
	holds    bool      // all of the tickets do, as it is sent
	urgent   bool      // it goes first
	closed   bool      // it is full, or on its way; guarded by lane.mu

	single redis.Cmder
	text   call            // of lone, if it is a script
	reply  chan<- response // of lone; nil: nobody waits for it
}

// response is what became of a parcel.
type response struct {
	numbers []int64 // of a script
	list    []any   // of the script that pages
	again   bool    // to a query that was sent before, without an answer
	err     error
}

// lane is a queue of parcels for one server. A cluster has a lane for every name: one pipeline over
// several nodes would take as long as its slowest node, and a dead node would hold up all names.
type pipeline struct {
	rdb          redis.UniversalClient
	goroutines   *goroutines
	clock        *clock
	replicas     int    // that must have what is granted
	key          string // any of those that are asked about, in a cluster
	suspect      func() // is called whenever the server seems to be gone
	disconnected func() // is called when that begins

	mu       sync.Mutex
	urgent   []*request // these go first, or leases would expire behind a crowd of new calls
	queued   []*request // either in the order in which they were begun
	backlog  int        // ids in queued
	room     int        // ids that a batch may carry; less than parcelIDs: one call
	inFlight int
	failed   error // of the last exchange, nil if it worked: it tells what is behind a silence
}

// add puts tickets into the parcel for their job; without tickets it makes a parcel that asks for
// nothing but the script's reaping and promoting.
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

// takes reports whether the call for j, an acquire, can release what other is to release.
func (j batchKey) canCarry(other batchKey) bool {
	return j.script == acquireScript && other.script == releaseScript && other.lease == 0 && j.spec == other.spec
}

// openLocked returns the parcel for a job that has room, a new one if need be. What is urgent goes alone: it would
// be late with what is not, and that would be ahead of its turn. Behind a crowd of acquires everything else is.
func (l *pipeline) openLocked(j batchKey, urgent bool) *request {
	v := j.state
	crowded := l.backlog >= max(l.room, requestIDs) // an acquire does not leave with the next batch
	urgent = urgent || crowded && j.script != acquireScript
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

// renews reports whether j is about leases that end unless it is done in time.
func (j batchKey) renews() bool { return j.script == refreshScript || j.script == restoreScript }

// addLone queues a command that shares nothing but the round trip.
func (l *pipeline) addSingle(p *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = append(l.queued, p)
	l.startLocked()
}

// ask is addLone for who wants the reply.
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

// fly sends batches until nothing is queued, or until one of them was written off: its place is
// then taken by another goroutine.
func (l *pipeline) sendLoop() {
	for b := l.nextBatch(); b != nil; b = l.nextBatch() {
		if !b.deliver() {
			return
		}
	}
}

// take makes a batch of what is queued. Nil: there is nothing to send, and the place is given up.
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

// nextLocked takes as many parcels from the queues as go into a batch, the urgent ones first, and at least one
// of each queue: a client that has more to renew than it can must still release.
func (l *pipeline) nextLocked() (requests []*request) {
	ids := 0
	for _, queue := range []*[]*request{&l.urgent, &l.queued} {
		n := 0
		for _, p := range *queue {
			if n > 0 && (len(requests) >= maxParcels || ids+p.ids() > max(l.room, requestIDs)) {
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

// batch is what one pipeline carries.
type batch struct {
	pipeline *pipeline
	sent     instant // before sending: what a reply confirms, it confirms as of here
	requests []*request
	timeout  time.Duration
	settled  atomic.Bool // answered or written off, whichever came first
}

// newBatch takes aboard what is still wanted of the queue.
func newBatch(l *pipeline, queued []*request) *batch {
	b := &batch{pipeline: l, sent: l.clock.now(), requests: queued[:0], timeout: maxTimeout}
	for _, p := range queued {
		if p.single == nil && !p.prepare(b.sent.Time) {
			continue
		}
		for _, t := range p.all() {
			b.timeout = min(b.timeout, t.params.ttl/3)
		}
		b.requests = append(b.requests, p)
	}
	b.timeout = max(b.timeout, minTimeout)
	return b
}

// board drops the tickets that were given up before anything was sent for them. False: none is left.
func (p *request) prepare(now time.Time) bool {
	if len(p.tickets) == 0 {
		return true // a parcel for the script's own sake
	}
	v := p.key.state
	p.tickets, p.holds = v.prepare(p.key.script, p.tickets, now)
	if len(p.released) > 0 {
		p.released, _ = v.prepare(releaseScript, p.released, now)
		if len(p.tickets) == 0 {
			p.key = batchKey{state: v, script: releaseScript, spec: p.key.spec}
			p.tickets, p.released = p.released, nil
		}
	}
	return len(p.tickets) > 0
}

// all are the tickets in the order of the script's results, each with the verb that it is there for.
func (p *request) all() iter.Seq2[*script, *ticket] {
	return func(yield func(*script, *ticket) bool) {
		for _, t := range p.released {
			if !yield(releaseScript, t) {
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

// deliver sends the batch and hands out what came back. False: it was written off meanwhile.
func (b *batch) deliver() bool {
	timer := time.AfterFunc(b.timeout, b.writeOff)
	defer timer.Stop()
	responses := b.exchange()
	broke := b.pipeline.noteOutcome(worst(responses))
	inTime := b.settled.CompareAndSwap(false, true)
	if inTime {
		b.pipeline.pace(time.Since(b.sent.Time), b.timeout)
		b.handOut(responses)
	}
	if broke {
		b.pipeline.disconnected()
	}
	return inTime
}

// pace has batches grow that are answered in a fraction of their patience, and shrink before they need all of it.
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

// writeOff gives up waiting for a batch: go-redis cannot be made to return from a read in time.
func (b *batch) writeOff() {
	if !b.settled.CompareAndSwap(false, true) {
		return
	}
	l := b.pipeline
	l.suspect() // whoever answers next may be another server
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

// note keeps what came of an exchange, also of one that was written off, and reports whether the server
// seems to have gone since the one before.
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

// failure is what came of the last exchange: nil if it worked.
func (l *pipeline) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// worst is the error that tells most of the server, nil if all went well.
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

// moved reports whether err is what a node says that does not have the name any more.
func moved(err error) bool { return err != nil && redis.HasErrorPrefix(err, "MOVED") }

// broken reports whether err tells of a server that is gone, or is not the one it was.
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

// exchange runs the commands in one round trip, and those whose script the server did not have in
// a second one, with the script's text.
func (b *batch) exchange() []response {
	calls := make([]call, len(b.requests))
	commands := make([]redis.Cmder, len(b.requests))
	for i, p := range b.requests {
		calls[i], commands[i] = p.text, p.single
		if p.single == nil {
			calls[i] = p.call()
			commands[i] = calls[i].command(false)
		}
	}
	responses := b.pipeline.runDurable(calls, commands, b.timeout)

	var missing []int
	var again []call
	var texts []redis.Cmder
	for i, r := range responses {
		if calls[i].script != nil && r.err != nil && redis.HasErrorPrefix(r.err, "NOSCRIPT") {
			missing = append(missing, i)
			again = append(again, calls[i])
			texts = append(texts, calls[i].command(true))
		}
	}
	if len(again) > 0 {
		for i, r := range b.pipeline.runDurable(again, texts, b.timeout) {
			responses[missing[i]] = r
		}
	}
	return responses
}

// call returns the script call of a job.
func (p *request) call() call {
	v, j := p.key.state, p.key
	d := v.client.declared.declare(v.name, j.spec)
	d.knows = v.knows()
	switch j.script {
	case acquireScript:
		return v.about.acquire(d, j.params, p.tickets, p.released...)
	case releaseScript:
		return v.about.release(d, j.lease, p.tickets)
	case restoreScript:
		return v.about.restore(d, j.lease, p.tickets, v.claims(p.tickets))
	case reduceScript:
		return v.about.reduce(d, p.tickets, v.keeps(p.tickets))
	default:
		return v.about.refresh(d, j.lease, p.holds, p.tickets)
	}
}

// run sends commands in one pipeline. A command without a value and without an error of its own was
// not reached: the pipeline's error is its error, which may be Redis's own word on the connection.
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
	case numbers:
		r.numbers = c.Val()
		answered = r.numbers != nil
	case values:
		r.list = c.Val()
		answered = r.list != nil
	}
	switch {
	case r.err == nil && !answered:
		r.err = errNoAnswer
	case answered && errors.Is(r.err, redis.Nil):
		r.err = nil // a label that is not there
	}
	return r
}

// refused reports whether Redis itself said err, so that nothing can still be on its way. A script that
// failed at run time has let nobody in, and what it changed lapses. What Redis said before it fell silent was
// about something else.
func refused(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && !errors.Is(err, errNoAnswer) && !isUnreplicated(err)
}

// transient reports whether trying again can help.
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
