package fairsem

import (
	"context"
	"fmt"
	"time"
)

// Resize pins the limit for everybody, whatever processes declare, until Unpin or another Resize. More
// room is given to who waits at once. Less takes no permit away: nobody gets a new one until enough are
// released, and a waiter that weighs more than the new limit gets [ErrExceedsLimit] when its turn comes.
// With a limit of 0 nobody gets in, and who waits or comes waits on: a pause.
//
// A pin outlives all processes, but not the loss of all state in Redis. A done ctx ends the call; the other
// errors are [ErrInvalid], for a limit below 0, and those of Acquire. After an error the limit may have been
// pinned all the same, or be pinned within the next 10 s; calling again does no harm.
//
// The change that began last stands. One that began after an earlier call returned replaces it, and no copy of the
// earlier one that arrives late undoes that. Of two that overlap one may be replaced at once; it returns nil all the same,
// as if it had come first: [Semaphore.Status] has the limit that stands.
func (s *Semaphore) Resize(ctx context.Context, limit int64) error {
	if limit < 0 || limit > maxUnits {
		return wrap("resize", s.name, fmt.Errorf("%w: limit %d is not between 0 and %d", ErrInvalid, limit, int64(maxUnits)))
	}
	return wrap("resize", s.name, s.pin(ctx, limit))
}

// Unpin takes away what Resize has pinned, so that the limit declared last holds again. Where none is
// pinned the limit stays as it is. It is otherwise like Resize.
func (s *Semaphore) Unpin(ctx context.Context) error { return wrap("unpin", s.name, s.pin(ctx, unpin)) }

// pin asks the server for the time first, by which scripts know the last change. A change that arrives too late for that is
// made anew.
func (s *Semaphore) pin(ctx context.Context, limit int64) error {
	for began := time.Now(); ; {
		rep, err := s.tryPin(ctx, limit)
		switch {
		case err != nil:
			return err
		case rep.results[0].state != stateGone:
			return s.promote(ctx, rep)
		case time.Since(began) >= s.client.ttl:
			return unavailable(s.client.ttl, errNoAnswer)
		}
	}
}

func (s *Semaphore) tryPin(ctx context.Context, limit int64) (reply, error) {
	space := s.client.keyspace
	r, err := s.client.query(ctx, s.name, space.status(s.name, s.quota, 0, 0))
	if err != nil {
		return reply{}, err
	}
	found, err := decodeStock(r.numbers)
	if err != nil {
		return reply{}, err
	}
	r, err = s.client.query(ctx, s.name, space.resize(s.name, s.quota, limit, found.asks))
	if err != nil {
		return reply{}, err
	}
	return decodeReply(r.numbers, 1)
}

// promote grants to more waiters than the call before did, as long as its reply says so.
func (s *Semaphore) promote(ctx context.Context, rep reply) error {
	for rep.more {
		r, err := s.client.query(ctx, s.name, s.client.keyspace.promote(s.name, s.quota))
		if err != nil {
			return err
		}
		if rep, err = decodeReply(r.numbers, 0); err != nil {
			return err
		}
	}
	return nil
}

// Evict takes a permit, or a place in line, away from whoever has it; id is [Ticket.ID] or [Permit.ID].
// The units are free at once, so for the time that a message takes, or where it is lost up to the next
// renewal, their holder may still use them: a third of a TTL, or with NoRefresh all of it. The context of the permit then ends with
// [ErrLost] and [ErrEvicted]; the Acquire of a waiter returns ErrEvicted.
//
// The error is [ErrNotFound] if this semaphore has no such id, so that a second call returns it, too; the
// others are those of Resize. After another error it may have been evicted all the same.
func (s *Semaphore) Evict(ctx context.Context, id string) error {
	if id == "" {
		return wrap("evict", s.name, fmt.Errorf("%w: the id is empty", ErrInvalid))
	}
	r, err := s.client.query(ctx, s.name, s.client.keyspace.evict(s.name, s.quota, id))
	if err != nil {
		return wrap("evict", s.name, err)
	}
	rep, err := decodeReply(r.numbers, 1)
	again := r.again && err == nil && rep.results[0].state == stateEvicted // by the one before, whose answer was lost
	if err == nil && rep.results[0].state != stateHeld && rep.results[0].state != stateWaiting && !again {
		err = fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return wrap("evict", s.name, err)
}
