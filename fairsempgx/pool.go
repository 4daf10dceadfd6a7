package fairsempgx

import (
	"container/list"
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/fair"
	"github.com/fairsem/fairsem/internal/held"
)

// pool is the state of one pgxpool.Pool: its permits, and the calls that wait for a connection.
//
// pgxpool has a call that finds no idle connection wait for a dial of its own, whatever other calls release meanwhile. Here a call
// waits before pgxpool sees it, until a connection is idle or there is a permit to dial one, whichever comes first.
type pool struct {
	sem               *fairsem.Semaphore
	keepLost          bool
	min, max          int
	beforeClose       func(*pgx.Conn)
	shedsAfterRelease bool // a released connection that is to be closed is closed by pgxpool

	fair fair.Pool // its calls are requests

	mu       sync.Mutex
	pgx      *pgxpool.Pool
	links    map[*link]struct{} // connections, including those being closed
	dials    int                // permits of dials under way, and of those to be repeated
	spares   []*fairsem.Permit  // granted, not used yet
	inFlight int                // calls that may take a connection, and have not yet
	dialing  int                // of these: calls that dial
	waiting  list.List          // of *call, first come, first served
	stranded list.List          // of *stranded
	closing  bool
	misused  bool // connections of this pool have no link

	requests requests
	share    share
}

func newPool(s *fairsem.Semaphore, keepLost bool, least, most int) *pool {
	return &pool{sem: s, keepLost: keepLost, min: least, max: most, links: make(map[*link]struct{})}
}

// call is one call of Pool.Acquire, and its context.
type call struct {
	context.Context
	wake     chan struct{} // something has changed; nil: the call has not waited
	err      error         // why it gets no connection
	inFlight bool
	attempt  *attempt // its dials
}

type callKey struct{}

func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

var closedChan = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done and Err are how a call gets an error of this package.
func (c *call) Done() <-chan struct{} {
	if c.err != nil {
		return closedChan
	}
	return c.Context.Done()
}

func (c *call) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.Context.Err()
}

// enter waits until pgxpool can serve the call, or says why it cannot.
func (p *pool) enter(ctx context.Context, from *pgxpool.Pool) context.Context {
	c := &call{Context: ctx}
	p.mu.Lock()
	if p.pgx == nil {
		p.pgx = from
	}
	switch {
	case p.pgx != from:
		c.err = errTwoPools
		p.mu.Unlock()
		return c
	case p.misused:
		c.err = errBeforeConnect
		p.mu.Unlock()
		return c
	case p.closing || p.waiting.Len() == 0 && p.hasRoomLocked():
		p.admitLocked(c)
		p.mu.Unlock()
		return c
	}
	c.wake = make(chan struct{}, 1)
	at := p.waiting.PushBack(c)
	p.askLocked()
	p.mu.Unlock()
	p.wait(c, at)
	return c
}

// hasRoomLocked reports whether one more call would find an idle connection or a permit. The figures of pgxpool are the truth: it takes
// idle connections for its own checks, and a connection that is being released is not idle yet.
func (p *pool) hasRoomLocked() bool {
	now := p.pgx.Stat()
	p.share.peak = max(p.share.peak, int(now.AcquiredConns())+1)
	return int(now.IdleConns())+len(p.spares)+p.dialing > p.inFlight
}

func (p *pool) admitLocked(c *call) {
	c.inFlight = true
	p.inFlight++
}

// settle is how often, and from what time on, the first call checks again what was announced to it.
const (
	settleTries = 9
	settleFrom  = 20 * time.Microsecond
)

func (p *pool) wait(c *call, at *list.Element) {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	pause.Stop()
	for tries := 0; ; {
		select {
		case <-c.wake:
			tries = 0
		case <-pause.C:
		case <-c.Context.Done():
			p.giveUp(c, at)
			return
		}
		p.mu.Lock()
		switch {
		case c.err != nil:
			p.mu.Unlock()
			return
		case p.waiting.Front() == at && (p.closing || p.hasRoomLocked()):
			p.waiting.Remove(at)
			p.admitLocked(c)
			p.wakeLocked()
			p.mu.Unlock()
			return
		}
		first := p.waiting.Front() == at
		p.mu.Unlock()
		if first && tries < settleTries { // the connection is announced before it is idle
			pause.Reset(settleFrom << tries)
			tries++
		}
	}
}

func (p *pool) giveUp(c *call, at *list.Element) {
	p.mu.Lock()
	if c.err == nil {
		p.waiting.Remove(at)
		p.wakeLocked()
	}
	why := c.err
	p.mu.Unlock()
	if why == nil {
		c.err = p.explain(c.Context.Err())
	}
}

// wakeLocked announces to the first call that something has changed.
func (p *pool) wakeLocked() {
	if first := p.waiting.Front(); first != nil {
		select {
		case first.Value.(*call).wake <- struct{}{}:
		default:
		}
	}
}

// failLocked ends the wait of all calls.
func (p *pool) failLocked(why error) {
	for e := p.waiting.Front(); e != nil; e = p.waiting.Front() {
		c := p.waiting.Remove(e).(*call)
		c.err = why
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	for e := p.stranded.Front(); e != nil; e = p.stranded.Front() {
		p.stranded.Remove(e).(*stranded).got <- grant{err: why}
	}
}

// end is called when a call has a connection, or an error.
func (p *pool) end(c *call, conn *pgx.Conn) {
	p.mu.Lock()
	if conn != nil && !conn.IsClosed() && linkOf(conn) == nil { // one that is closed may have lost its link
		p.misused = true
		p.failLocked(errBeforeConnect)
	}
	if !c.inFlight {
		p.mu.Unlock()
		return
	}
	c.inFlight = false
	p.inFlight--
	if c.attempt != nil {
		p.dialing--
	}
	p.wakeLocked()
	p.mu.Unlock()
}

// release is called right before a connection becomes idle.
func (p *pool) release(conn *pgx.Conn) {
	l := linkOf(conn)
	if l == nil {
		return
	}
	usable := !conn.IsClosed() && !conn.PgConn().IsBusy() && conn.PgConn().TxStatus() == 'I'
	p.mu.Lock()
	goes := false
	switch {
	case !usable:
	case p.stranded.Len() > 0:
		goes = true
		l.recycle.Store(true)
	case p.share.toShed > 0:
		goes = true
		p.share.toShed--
	}
	if goes {
		l.goes.Store(true)
	}
	p.wakeLocked()
	p.mu.Unlock()
	if goes && !p.shedsAfterRelease {
		l.stopWaiting()
		_ = conn.Close(context.Background()) // pgxpool drops a connection that is closed
	}
}

// stranded is a dial without a permit: the call had been admitted to an idle connection that is gone. The next connection that is
// released is closed for it.
type stranded struct{ got chan grant }

type grant struct {
	permit *fairsem.Permit
	err    error
}

// permitFor returns the permit for a dial.
func (p *pool) permitFor(ctx context.Context, a *attempt) (*fairsem.Permit, error) {
	c := callOf(ctx)
	if c == nil {
		return p.background(ctx)
	}
	p.mu.Lock()
	if c.inFlight && c.attempt == nil {
		c.attempt = a
		p.dialing++
	}
	if permit := p.spareLocked(); permit != nil {
		p.dials++
		p.mu.Unlock()
		return permit, nil
	}
	s := &stranded{make(chan grant, 1)}
	at := p.stranded.PushBack(s)
	p.askLocked()
	p.mu.Unlock()
	over := ctx
	select {
	case g := <-s.got:
		return g.permit, g.err
	case <-ctx.Done():
	case <-c.Context.Done(): // pgxpool goes on with a dial whose call has ended
		over = c.Context
	}
	p.mu.Lock()
	p.stranded.Remove(at)
	p.mu.Unlock()
	select {
	case g := <-s.got: // at the same moment
		return g.permit, g.err
	default:
		return nil, p.explain(over.Err())
	}
}

// spareLocked takes a permit that was kept for the next dial, unless it was lost meanwhile.
func (p *pool) spareLocked() *fairsem.Permit {
	for n := len(p.spares); n > 0; n-- {
		permit := p.spares[n-1]
		p.spares = p.spares[:n-1]
		if permit.Context().Err() == nil {
			return permit
		}
	}
	return nil
}

// backgroundWait bounds the wait of pgxpool's own dials: they go on while Pool.Close waits for them.
const backgroundWait = 2 * time.Second

// background acquires for a connection that no call asked for. Beyond MinConns it does not compete with calls of other processes. pgxpool
// does not count hijacked connections, and those whose sessions have not ended.
func (p *pool) background(ctx context.Context) (permit *fairsem.Permit, err error) {
	p.mu.Lock()
	mine := p.countLocked()
	if mine >= p.max {
		p.mu.Unlock()
		return nil, errFull
	}
	p.dials++
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, backgroundWait)
	defer cancel()
	if mine < p.min {
		permit, err = p.sem.Acquire(ctx, 1)
	} else {
		permit, err = p.sem.TryAcquire(ctx, 1)
	}
	if err != nil {
		p.dropped()
	}
	return permit, err
}

// dropped ends a dial that has failed.
func (p *pool) dropped() {
	p.mu.Lock()
	p.dials--
	p.mu.Unlock()
}

// countLocked returns how many permits the pool has.
func (p *pool) countLocked() int { return len(p.links) + p.dials + len(p.spares) }

func (p *pool) newLink(a *attempt, inner net.Conn, permit *fairsem.Permit) *link {
	l := &link{Conn: inner, attempt: a, permit: permit}
	l.closeCtx, l.stopWaiting = context.WithCancel(context.Background())
	if !p.keepLost {
		l.stop = context.AfterFunc(permit.Context(), l.lose)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials--
	p.links[l] = struct{}{}
	p.watchLocked()
	return l
}

// closed is called once, after a connection was closed.
func (p *pool) closed(l *link) {
	p.mu.Lock()
	_, counted := p.links[l]
	if counted {
		delete(p.links, l)
		p.dials++
	}
	p.mu.Unlock()
	switch {
	case !counted: // its permit was lost
		held.Release(l.permit)
	case l.attempt.closed(l):
	case l.isForOthers():
		p.dropped()
		held.Release(l.permit)
	default:
		p.recycle(l.permit)
	}
}

// forget no longer counts a connection whose permit was lost: one less is to be closed for others.
func (p *pool) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, is := p.links[l]; is && !l.isForOthers() {
		p.shedOneLocked()
	}
	delete(p.links, l)
}

// shedOneLocked counts a permit that the pool has given up among those that it gives up for others.
func (p *pool) shedOneLocked() { p.share.toShed = max(0, p.share.toShed-1) }

// recycle ends a dial, and gives its permit to a call of this pool that waits for one. Without such a call, or if others are to have it, it
// is released.
func (p *pool) recycle(permit *fairsem.Permit) {
	p.mu.Lock()
	p.dials--
	keep := permit.Context().Err() == nil && p.waiting.Len()+p.stranded.Len() > 0 && p.share.toShed == 0
	if keep {
		p.grantLocked(permit)
	} else {
		p.shedOneLocked()
	}
	p.mu.Unlock()
	if !keep {
		held.Release(permit)
	}
}

// grantLocked gives a permit to the first dial without one, or keeps it for the first call.
func (p *pool) grantLocked(permit *fairsem.Permit) {
	if e := p.stranded.Front(); e != nil {
		p.dials++
		p.stranded.Remove(e).(*stranded).got <- grant{permit: permit}
		return
	}
	p.spares = append(p.spares, permit)
	p.wakeLocked()
	p.tickLocked()
}
