package fairsempgx

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// requests is how a pool acquires: one unit at a time, so that pools take turns in the queue of the name. It is guarded by the lock of
// the pool.
type requests struct {
	cancel  context.CancelFunc // of the request under way; nil: there is none
	err     error              // of the last one
	ticking bool
	wanted  time.Time // when a call last waited
	probed  time.Time // when tick last called probe
}

const (
	tickEvery = 250 * time.Millisecond
	lingerFor = time.Second // how long a request, or its permit, waits for another call
	retryWait = 100 * time.Millisecond

	probeEvery = 2 * time.Second // how long calls of a pool with connections may wait before they know that it was closed
)

// hungryLocked reports whether the pool wants one more permit, and may have it.
func (p *pool) hungryLocked() bool {
	mine := p.countLocked()
	return !p.closing && p.waiting.Len()+p.stranded.Len() > len(p.spares) && mine < p.max && mine < p.share.most()
}

// askLocked has the pool acquire one more permit, if it wants one.
func (p *pool) askLocked() {
	if p.waiting.Len()+p.stranded.Len() > 0 {
		p.requests.wanted = time.Now()
		p.tickLocked()
	}
	if p.requests.cancel != nil || !p.hungryLocked() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.requests.cancel = cancel
	go p.request(ctx, cancel) // ends when no call wants a permit: tick cancels it then
}

// request acquires while calls want more.
func (p *pool) request(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	for more := true; more; {
		p.fair.Begin()
		permit, err := p.sem.Acquire(ctx, 1)
		p.fair.End()
		p.mu.Lock()
		p.requests.err = err
		surplus := err == nil && p.countLocked() >= p.share.most() // pools with less come first
		if err == nil && !surplus {
			p.grantLocked(permit)
		}
		pause := err != nil && !p.refusedLocked(ctx, err)
		more = p.hungryLocked() && ctx.Err() == nil
		if !more {
			p.requests.cancel = nil
		}
		p.mu.Unlock()
		if surplus {
			held.Release(permit)
		}
		if pause && more {
			wait(ctx, retryWait)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// refusedLocked ends the wait of all calls if nothing but a permit could help them.
func (p *pool) refusedLocked(ctx context.Context, err error) bool {
	final := errors.Is(err, fairsem.ErrClosed) || errors.Is(err, fairsem.ErrInvalid)
	if ctx.Err() != nil || !final && p.countLocked() > 0 {
		return false
	}
	p.failLocked(err)
	return true
}

// tickLocked has tick run while calls wait, and a little longer.
func (p *pool) tickLocked() {
	if !p.requests.ticking {
		p.requests.ticking = true
		time.AfterFunc(tickEvery, p.tick)
	}
}

// tick ends requests that no call wants any more, and wakes the first call, even if an event was missed.
func (p *pool) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests.ticking = false
	if p.waiting.Len()+p.stranded.Len() > 0 {
		p.requests.wanted = time.Now()
		if p.mayBeClosedLocked() || p.mayUnstrandLocked() {
			p.requests.probed = time.Now()
			p.inFlight++ // calls wait rather than find an idle connection gone
			go p.probe() // does not wait
		}
		p.askLocked()
		p.wakeLocked()
	}
	idle := time.Since(p.requests.wanted) > lingerFor
	if idle && p.requests.cancel != nil {
		p.requests.cancel()
	}
	if idle {
		for _, permit := range p.spares {
			held.Release(permit)
		}
		p.spares = nil
	}
	if p.requests.cancel != nil || len(p.spares) > 0 || p.waiting.Len()+p.stranded.Len() > 0 {
		p.tickLocked()
	}
}

// mayBeClosedLocked reports whether to ask the pool if it was closed. Only the failure of a dial tells, so with an idle connection there is
// no question, and where connections are in use it is not asked often: pgxpool counts it as a new connection.
func (p *pool) mayBeClosedLocked() bool {
	return p.pgx != nil && p.pgx.Stat().IdleConns() == 0 && (len(p.links) == 0 || time.Since(p.requests.probed) > probeEvery)
}

// mayUnstrandLocked reports whether a dial waits for a permit that an idle connection has. pgxpool's own checks take idle connections for
// a moment, so that a call finds none, and return them without a word.
func (p *pool) mayUnstrandLocked() bool {
	return p.stranded.Len() > 0 && p.pgx.Stat().IdleConns() > 0 && p.hasRoomLocked()
}

// probe takes an idle connection, and releases it: that closes it for a stranded dial. It ends the wait of all calls if the pool was
// closed.
func (p *pool) probe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	conn, err := p.pgx.Acquire(inside{ctx})
	p.mu.Lock()
	p.inFlight--
	if errors.Is(err, puddle.ErrClosedPool) {
		p.closing = true
		p.failLocked(err)
		if p.requests.cancel != nil {
			p.requests.cancel()
		}
	}
	p.wakeLocked()
	p.mu.Unlock()
	if err == nil {
		conn.Release()
	}
}
