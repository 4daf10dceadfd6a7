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
const maxFlying = 2

// A batch is bounded, so that its last command is answered while its patience lasts, also behind another one and
// with the shortest TTL: what is late is late as a whole, and has to be asked for again. How many ids that are
// depends on the machines and the network, so a lane starts with one call's worth, and goes by how long its
// batches take. More than maxBatchIDs would not be faster.
const (
	maxParcels  = 500
	maxBatchIDs = 12 * parcelIDs
	parcelIDs   = maxIDs // of a call
)

// A batch without an answer is written off after a third of the shortest TTL in it, within these
// bounds: soon enough to try again while the leases last, late enough for a slow network.
const (
	minPatience = 100 * time.Millisecond
	maxPatience = 2 * time.Second
)

var errNoAnswer = errors.New("no answer in time")

// job is what tickets of one name can share a script call for. Equal jobs go together.
type job struct {
	view   *view
	script *script
	quota  quota         // that is declared
	terms  terms         // of an acquire
	lease  time.Duration // of a refresh; of a release that leaves tombstones, or is overdue
}

// parcel is one command of a batch: a job with its tickets, or a lone command with its reply.
type parcel struct {
	job     job
	tickets []*ticket
	back    []*ticket // of an acquire: to be released first, by the same call
	holds   bool      // all of the tickets do, as it is sent
	urgent  bool      // it goes first
	closed  bool      // it is full, or on its way; guarded by lane.mu

	lone  redis.Cmder
	text  call            // of lone, if it is a script
	reply chan<- response // of lone; nil: nobody waits for it
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
type lane struct {
	rdb      redis.UniversalClient
	crew     *crew
	clock    *clock
	replicas int    // that must have what is granted
	key      string // any of those that are asked about, in a cluster
	failing  func() // is called whenever the server seems to be gone
	broke    func() // is called when that begins

	mu      sync.Mutex
	urgent  []*parcel // these go first, or leases would expire behind a crowd of new calls
	queued  []*parcel // either in the order in which they were begun
	backlog int       // ids in queued
	room    int       // ids that a batch may carry; less than parcelIDs: one call
	flying  int
	failed  error // of the last exchange, nil if it worked: it tells what is behind a silence
}

// add puts tickets into the parcel for their job; without tickets it makes a parcel that asks for
// nothing but the script's reaping and promoting.
func (l *lane) add(j job, tickets ...*ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	urgent := j.renews() || slices.ContainsFunc(tickets, (*ticket).isOwed)
	p := l.openLocked(j, urgent)
	for _, t := range tickets {
		if p.closed {
			p = l.openLocked(j, urgent)
		}
		if p.job == j {
			p.tickets = append(p.tickets, t)
		} else {
			p.back = append(p.back, t)
		}
		if !p.urgent {
			l.backlog++
		}
		p.closed = p.ids() >= parcelIDs
	}
	l.launchLocked()
}

func (p *parcel) ids() int { return len(p.tickets) + len(p.back) }

// takes reports whether the call for j, an acquire, can release what other is to release.
func (j job) takes(other job) bool {
	return j.script == acquireScript && other.script == releaseScript && other.lease == 0 && j.quota == other.quota
}

// openLocked returns the parcel for a job that has room, a new one if need be. What is urgent goes alone: it would
// be late with what is not, and that would be ahead of its turn. Behind a crowd of acquires everything else is.
func (l *lane) openLocked(j job, urgent bool) *parcel {
	v := j.view
	crowded := l.backlog >= max(l.room, parcelIDs) // an acquire does not leave with the next batch
	urgent = urgent || crowded && j.script != acquireScript
	var found *parcel
	open := v.filling[:0]
	for _, p := range v.filling {
		if p.closed {
			continue
		}
		open = append(open, p)
		switch {
		case found != nil:
		case p.urgent != urgent:
		case p.job == j || p.job.takes(j):
			found = p
		case j.takes(p.job):
			p.job, p.tickets, p.back = j, nil, p.tickets
			found = p
		}
	}
	v.filling = open
	if found != nil {
		return found
	}
	p := &parcel{job: j, urgent: urgent}
	v.filling = append(v.filling, p)
	if p.urgent {
		l.urgent = append(l.urgent, p)
	} else {
		l.queued = append(l.queued, p)
	}
	return p
}

// renews reports whether j is about leases that end unless it is done in time.
func (j job) renews() bool { return j.script == refreshScript || j.script == restoreScript }

// addLone queues a command that shares nothing but the round trip.
func (l *lane) addLone(p *parcel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = append(l.queued, p)
	l.launchLocked()
}

// ask is addLone for who wants the reply.
func (l *lane) ask(ctx context.Context, p parcel) response {
	return l.await(ctx, l.send(p))
}

// send is the first half of ask, await the second.
func (l *lane) send(p parcel) <-chan response {
	reply := make(chan response, 1)
	p.reply = reply
	l.addLone(&p)
	return reply
}

func (l *lane) await(ctx context.Context, reply <-chan response) response {
	select {
	case r := <-reply:
		return r
	case <-ctx.Done():
		return response{err: ctx.Err()}
	case <-l.crew.ctx.Done():
		return response{err: ErrClosed}
	}
}

func (l *lane) launchLocked() {
	if l.flying == maxFlying || len(l.urgent)+len(l.queued) == 0 {
		return
	}
	if l.crew.launch(scriptCalls, l.fly) { // ends when nothing is queued
		l.flying++
	}
}

// fly sends batches until nothing is queued, or until one of them was written off: its place is
// then taken by another goroutine.
func (l *lane) fly() {
	for b := l.take(); b != nil; b = l.take() {
		if !b.deliver() {
			return
		}
	}
}

// take makes a batch of what is queued. Nil: there is nothing to send, and the place is given up.
func (l *lane) take() *batch {
	for {
		l.mu.Lock()
		parcels := l.nextLocked()
		if len(parcels) == 0 {
			l.flying--
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		if b := newBatch(l, parcels); len(b.parcels) > 0 {
			return b
		}
	}
}

// nextLocked takes as many parcels from the queues as go into a batch, the urgent ones first, and at least one
// of each queue: a client that has more to renew than it can must still release.
func (l *lane) nextLocked() (parcels []*parcel) {
	ids := 0
	for _, queue := range []*[]*parcel{&l.urgent, &l.queued} {
		n := 0
		for _, p := range *queue {
			if n > 0 && (len(parcels) >= maxParcels || ids+p.ids() > max(l.room, parcelIDs)) {
				break
			}
			n++
			ids += p.ids()
			p.closed = true
			parcels = append(parcels, p)
			if !p.urgent {
				l.backlog -= p.ids()
			}
		}
		*queue = (*queue)[n:]
	}
	return parcels
}

// batch is what one pipeline carries.
type batch struct {
	lane     *lane
	sent     instant // before sending: what a reply confirms, it confirms as of here
	parcels  []*parcel
	patience time.Duration
	settled  atomic.Bool // answered or written off, whichever came first
}

// newBatch takes aboard what is still wanted of the queue.
func newBatch(l *lane, queued []*parcel) *batch {
	b := &batch{lane: l, sent: l.clock.now(), parcels: queued[:0], patience: maxPatience}
	for _, p := range queued {
		if p.lone == nil && !p.board(b.sent.Time) {
			continue
		}
		for _, t := range p.all() {
			b.patience = min(b.patience, t.terms.ttl/3)
		}
		b.parcels = append(b.parcels, p)
	}
	b.patience = max(b.patience, minPatience)
	return b
}

// board drops the tickets that were given up before anything was sent for them. False: none is left.
func (p *parcel) board(now time.Time) bool {
	if len(p.tickets) == 0 {
		return true // a parcel for the script's own sake
	}
	v := p.job.view
	p.tickets, p.holds = v.board(p.job.script, p.tickets, now)
	if len(p.back) > 0 {
		p.back, _ = v.board(releaseScript, p.back, now)
		if len(p.tickets) == 0 {
			p.job = job{view: v, script: releaseScript, quota: p.job.quota}
			p.tickets, p.back = p.back, nil
		}
	}
	return len(p.tickets) > 0
}

// all are the tickets in the order of the script's results, each with the verb that it is there for.
func (p *parcel) all() iter.Seq2[*script, *ticket] {
	return func(yield func(*script, *ticket) bool) {
		for _, t := range p.back {
			if !yield(releaseScript, t) {
				return
			}
		}
		for _, t := range p.tickets {
			if !yield(p.job.script, t) {
				return
			}
		}
	}
}

// deliver sends the batch and hands out what came back. False: it was written off meanwhile.
func (b *batch) deliver() bool {
	timer := time.AfterFunc(b.patience, b.writeOff)
	defer timer.Stop()
	responses := b.exchange()
	broke := b.lane.note(worst(responses))
	inTime := b.settled.CompareAndSwap(false, true)
	if inTime {
		b.lane.pace(time.Since(b.sent.Time), b.patience)
		b.handOut(responses)
	}
	if broke {
		b.lane.broke()
	}
	return inTime
}

// pace has batches grow that are answered in a fraction of their patience, and shrink before they need all of it.
func (l *lane) pace(took, patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case took > patience/2:
		l.room = 0
	case took > patience/4:
		l.room /= 2
	case took < patience/8:
		l.room = min(max(2*l.room, parcelIDs), maxBatchIDs)
	}
}

// writeOff gives up waiting for a batch: go-redis cannot be made to return from a read in time.
func (b *batch) writeOff() {
	if !b.settled.CompareAndSwap(false, true) {
		return
	}
	l := b.lane
	l.failing() // whoever answers next may be another server
	l.pace(b.patience, b.patience)
	l.mu.Lock()
	err := errNoAnswer
	if l.failed != nil {
		err = fmt.Errorf("%w; before that: %w", errNoAnswer, l.failed)
	}
	l.mu.Unlock()
	responses := make([]response, len(b.parcels))
	for i := range responses {
		responses[i].err = err
	}
	b.handOut(responses)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.launchLocked()
}

// note keeps what came of an exchange, also of one that was written off, and reports whether the server
// seems to have gone since the one before.
func (l *lane) note(err error) (broke bool) {
	l.mu.Lock()
	broke = broken(err) && !broken(l.failed)
	l.failed = err
	l.mu.Unlock()
	if broken(err) {
		l.failing()
	}
	if cluster, ok := l.rdb.(cluster); ok && moved(err) {
		cluster.ReloadState(l.crew.ctx)
	}
	return broke
}

// failure is what came of the last exchange: nil if it worked.
func (l *lane) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// worst is the error that tells most of the server, nil if all went well.
func worst(responses []response) (err error) {
	for _, r := range responses {
		if err == nil || broken(r.err) {
			err = r.err
		}
		if broken(err) {
			break
		}
	}
	return err
}

// moved reports whether err is what a node says that does not have the name any more.
func moved(err error) bool { return err != nil && redis.HasErrorPrefix(err, "MOVED") }

// broken reports whether err tells of a server that is gone, or is not the one it was.
func broken(err error) bool {
	return err != nil && !mayHaveRun(err) && (!refused(err) ||
		redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err))
}

func (b *batch) handOut(responses []response) {
	for i, p := range b.parcels {
		switch {
		case p.lone == nil:
			p.job.view.answered(p, responses[i], b.sent)
		case p.reply != nil:
			p.reply <- responses[i]
		}
	}
}

// exchange runs the commands in one round trip, and those whose script the server did not have in
// a second one, with the script's text.
func (b *batch) exchange() []response {
	calls := make([]call, len(b.parcels))
	commands := make([]redis.Cmder, len(b.parcels))
	for i, p := range b.parcels {
		calls[i], commands[i] = p.text, p.lone
		if p.lone == nil {
			calls[i] = p.call()
			commands[i] = calls[i].command(false)
		}
	}
	responses := b.lane.runSurely(calls, commands, b.patience)

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
		for i, r := range b.lane.runSurely(again, texts, b.patience) {
			responses[missing[i]] = r
		}
	}
	return responses
}

// call returns the script call of a job.
func (p *parcel) call() call {
	v, j := p.job.view, p.job
	d := v.client.declared.declare(v.name, j.quota)
	d.knows = v.knows()
	switch j.script {
	case acquireScript:
		return v.about.acquire(d, j.terms, p.tickets, p.back...)
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
func (l *lane) run(pipe redis.Pipeliner, commands []redis.Cmder) []response {
	responses := make([]response, len(commands))
	_ = pipe.BatchProcess(l.crew.ctx, commands...) // only queues
	_, err := pipe.Exec(l.crew.ctx)
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
	return errors.As(err, &said) && !errors.Is(err, errNoAnswer) && !mayHaveRun(err)
}

// transient reports whether trying again can help.
func transient(err error) bool {
	if errors.Is(err, redis.ErrClosed) {
		return false
	}
	if !refused(err) {
		return !mayHaveRun(err) || !redis.HasErrorPrefix(err, "NOPERM")
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
