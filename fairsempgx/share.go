package fairsempgx

import (
	"context"
	"math"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// share is what a pool knows of the other processes. It is guarded by the lock of the pool.
type share struct {
	watching bool
	pressed  bool // others waited at the last check
	part     int  // while pressed: how many permits the pool may have
	toShed   int  // connections to be closed
	peak     int  // most connections in use since the last check
	hurry    bool // the last check had something closed: others may want more when they have that
	pause    time.Duration
}

// most returns how many permits the pool may have now.
func (s *share) most() int {
	if !s.pressed {
		return math.MaxInt
	}
	return s.part
}

const (
	firstPause = time.Second // until the leases show the TTL
	minPause   = 20 * time.Millisecond
	maxPause   = 30 * time.Second
	maxListed  = 5000 // more holders or waiters are not counted
	checkWait  = 2 * time.Second
)

// watchLocked has the pool watch for waiters while it has connections.
func (p *pool) watchLocked() {
	if !p.share.watching {
		p.share.watching = true
		go p.watch() // ends when the last connection is closed
	}
}

// watch checks what is this pool's part whenever a call waits. The message comes with a renewal, at most once for each permit; a pool
// whose permits have all brought theirs asks Redis as often as it renews them.
func (p *pool) watch() {
	for {
		sensor, pause := p.sensor()
		var wanted, ended <-chan struct{}
		switch {
		case sensor != nil:
			wanted, ended = sensor.Wanted(), sensor.Context().Done()
		case pause < 0:
			return
		}
		timer := time.NewTimer(pause)
		if pause == 0 {
			timer.Stop()
		}
		select {
		case <-wanted:
		case <-timer.C:
		case <-ended:
			timer.Stop()
			continue
		}
		timer.Stop()
		p.check()
	}
}

// sensor returns a permit whose Wanted may still be closed, or nil, and when to check without it; 0: no sooner; below 0: the pool
// has no connections.
func (p *pool) sensor() (sensor *fairsem.Permit, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.links) == 0 {
		p.share = share{}
		return nil, -1
	}
	pause = p.share.pause
	if pause == 0 {
		pause = firstPause
	}
	if p.share.hurry {
		pause /= 4
	}
	for l := range p.links {
		if l.permit.Context().Err() != nil {
			continue
		}
		select {
		case <-l.permit.Wanted():
			continue
		default:
		}
		if !p.share.pressed {
			pause = 0
		}
		return l.permit, pause
	}
	return nil, pause
}

// check asks Redis who holds and who waits, and closes what is beyond this pool's part.
func (p *pool) check() {
	ctx, cancel := context.WithTimeout(context.Background(), checkWait)
	defer cancel()
	me := p.identity()
	now, err := p.census(ctx)
	p.mu.Lock()
	if err != nil || me == "" || !now.othersWait(me) {
		p.share.pressed, p.share.hurry, p.share.toShed = false, false, 0
		p.share.peak = int(p.inUseLocked())
		p.askLocked()
		p.mu.Unlock()
		return
	}
	p.settleLocked(now, me)
	p.askLocked()
	p.mu.Unlock()
	p.shed()
}

func (p *pool) inUseLocked() int32 {
	if p.pgx == nil {
		return 0
	}
	return p.pgx.Stat().AcquiredConns()
}

// settleLocked decides how many permits this pool may have, and how many connections it closes.
func (p *pool) settleLocked(now census, me string) {
	mine := p.countLocked()
	ours := now.all[me]
	ours.held = max(ours.held, int64(mine))
	now.all[me] = ours
	fair := part(now.limit, now.all, me)
	if ours.held > 0 && int64(mine) < ours.held { // other pools of this process have the rest
		fair = (fair*int64(mine) + ours.held - 1) / ours.held
	}
	keep := int(fair)
	if p.waiting.Len()+p.stranded.Len() == 0 {
		keep = min(keep, p.share.peak)
	}
	keep = max(keep, p.min)
	p.share.pressed = true
	p.share.part = max(int(fair), p.min, 1)
	p.share.toShed = max(0, mine-keep)
	p.share.peak = int(p.inUseLocked())
	p.share.pause = min(max(now.ttl/3, minPause), maxPause)
	p.share.hurry = p.share.toShed > 0
}

// identity returns the id of this pool's Client in Redis.
func (p *pool) identity() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		return held.ClientOf(l.permit.ID())
	}
	return ""
}

// census is who holds and who waits.
type census struct {
	limit int64
	ttl   time.Duration // at least two thirds of it
	all   map[string]process
}

func (c census) othersWait(me string) bool {
	for id, p := range c.all {
		if id != me && p.waiting > 0 {
			return true
		}
	}
	return false
}

func (p *pool) census(ctx context.Context) (now census, err error) {
	s, err := p.sem.Status(ctx)
	now = census{limit: s.Limit, all: make(map[string]process)}
	if err != nil || s.Waiting == 0 {
		return now, err
	}
	listed := 0
	for t, err := range p.sem.Waiters(ctx) {
		if listed++; err != nil || listed > maxListed {
			break
		}
		one := now.all[held.ClientOf(t.ID)]
		one.waiting += t.Weight
		now.all[held.ClientOf(t.ID)] = one
	}
	listed = 0
	for t, err := range p.sem.Holders(ctx) {
		if listed++; err != nil || listed > maxListed {
			break
		}
		one := now.all[held.ClientOf(t.ID)]
		one.held += t.Weight
		now.all[held.ClientOf(t.ID)] = one
		now.ttl = max(now.ttl, t.ExpiresIn)
	}
	return now, ctx.Err()
}

// shed closes idle connections. What is then left to be closed is closed when it is released.
func (p *pool) shed() {
	p.mu.Lock()
	for len(p.spares) > 0 && p.share.toShed > 0 {
		p.share.toShed--
		held.Release(p.spares[0])
		p.spares = p.spares[1:]
	}
	p.mu.Unlock()
	for p.shedIdle() {
		continue
	}
}

// shedIdle closes one idle connection, unless a call is about to take it.
func (p *pool) shedIdle() bool {
	p.mu.Lock()
	if p.share.toShed == 0 || p.pgx == nil || !p.hasRoomLocked() || p.pgx.Stat().IdleConns() == 0 {
		p.mu.Unlock()
		return false
	}
	p.inFlight++ // calls wait rather than find it gone
	p.share.toShed--
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), checkWait)
	defer cancel()
	conn, err := p.pgx.Acquire(inside{ctx})
	p.mu.Lock()
	p.inFlight--
	if err != nil {
		p.share.toShed++
	}
	p.mu.Unlock()
	if err != nil {
		return false
	}
	l := linkOf(conn.Conn())
	if l == nil { // not a connection of this package
		conn.Release()
		return false
	}
	l.goes.Store(true)
	l.async.Store(true)
	taken := conn.Hijack()
	if p.beforeClose != nil {
		p.beforeClose(taken)
	}
	_ = taken.Close(ctx)
	return true
}
