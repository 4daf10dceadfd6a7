package fairsempgx

import (
	"context"
	"math"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/fair"
	"github.com/fairsem/fairsem/internal/held"
)

// share is a pool's knowledge of the other processes. It is guarded by the lock of the pool.
type share struct {
	watching bool
	pressed  bool          // others waited at the last check
	part     int           // while pressed: how many permits the pool may have
	toShed   int           // connections to be closed
	peak     int           // most connections in use since the last check
	checks   fair.Schedule // while there is a permit that brings a message, none is due unless the pool is pressed
}

// most returns how many permits the pool may have now.
func (s *share) most() int {
	if !s.pressed {
		return math.MaxInt
	}
	return s.part
}

// watchLocked has the pool watch for waiters while it has permits.
func (p *pool) watchLocked() {
	if !p.share.watching {
		p.share.watching = true
		go fair.Watch(p.sensor, p.check) // ends when the last permit has ended
	}
}

// sensor returns the sensor that may report a waiting call, and when to check without that; zero: no sooner. When all permits of a pool
// have brought their messages, checks are due as often as it renews them.
func (p *pool) sensor() (sensor fair.Sensor, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sensor = fair.SensorOf(func(yield func(*fairsem.Permit) bool) {
		for l := range p.links {
			if !yield(l.permit) {
				return
			}
		}
	})
	switch {
	case sensor.Ended():
		p.fair.Leave()
		p.share = share{}
	case p.share.pressed || !sensor.Fresh:
		due = p.share.checks.Due()
	}
	return sensor, due
}

// plan sets when the next check is due: soon after one that had something closed, since others may want more when they have that.
func (s *share) plan() {
	pause := s.checks.Pause()
	if s.toShed > 0 {
		pause /= 4
	}
	s.checks.Next(pause)
}

// check queries holders and waiters, and closes the connections beyond this pool's part.
func (p *pool) check() {
	ctx, cancel := context.WithTimeout(context.Background(), fair.CheckWait)
	defer cancel()
	id := p.permitID()
	now, err := p.fair.Take(ctx, p.sem.Inspector, id)
	p.mu.Lock()
	if err != nil || id == "" || !now.OthersWait() {
		p.share.pressed, p.share.toShed = false, 0
		p.share.peak = int(p.inUseLocked())
		p.share.plan()
		p.askLocked()
		p.mu.Unlock()
		return
	}
	p.settleLocked(now)
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
func (p *pool) settleLocked(now fair.Census) {
	mine := p.countLocked()
	part := int(p.fair.PartOf(now, int64(mine)))
	keep := part
	if p.waiting.Len()+p.stranded.Len() == 0 {
		keep = min(keep, p.share.peak)
	}
	keep = max(keep, p.min)
	p.share.pressed = true
	p.share.checks.Follow(now)
	p.share.part = max(part, p.min, 1)
	p.share.toShed = max(0, mine-p.goingLocked()-keep)
	p.share.peak = int(p.inUseLocked())
	p.share.plan()
}

// permitID returns the id of one of the permits.
func (p *pool) permitID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		return l.permit.ID()
	}
	return ""
}

// shed closes idle connections. Any others that are to be closed are closed when they are released.
func (p *pool) shed() {
	p.mu.Lock()
	for len(p.spares) > 0 && p.share.toShed > 0 {
		p.share.toShed--
		held.Release(p.spares[0])
		p.spares = p.spares[1:]
	}
	if p.pgx == nil {
		p.shedUnusedLocked()
	}
	p.mu.Unlock()
	for p.shedIdle() {
		continue
	}
}

// shedUnusedLocked closes connections of a pool of which no call has ever taken one: pgxpool alone keeps them idle.
func (p *pool) shedUnusedLocked() {
	for l := range p.links {
		if p.share.toShed == 0 {
			return
		}
		if l.attempt.succeeded.Load() && l.goes.CompareAndSwap(false, true) {
			p.share.toShed--
			l.stopWaiting()
			_ = l.Close() // prepareConn has pgxpool drop it
		}
	}
}

// goingLocked counts the connections that are being closed for others.
func (p *pool) goingLocked() (n int) {
	for l := range p.links {
		if l.isForOthers() {
			n++
		}
	}
	return n
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
	ctx, cancel := context.WithTimeout(context.Background(), fair.CheckWait)
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
	l.stopWaiting()
	taken := conn.Hijack()
	if p.beforeClose != nil {
		p.beforeClose(taken)
	}
	_ = taken.Close(ctx)
	return true
}
