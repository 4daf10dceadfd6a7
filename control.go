package fairsem

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// SetLimit sets the limit by hand. It holds for all processes, whatever they declare, until ResetLimit or another SetLimit. Units of a
// higher limit are granted at once. A lower limit revokes nothing: no new permit is granted until enough units are
// released, and a waiter that weighs more than the new limit gets [ErrExceedsLimit] when its turn comes; if the limit is high enough
// again before its process hears of that, it waits on at the end of the queue. With a limit of 0 nothing is granted and calls
// wait, whatever they weigh: a pause.
//
// A limit set by hand outlives all processes, but not a loss of all state in Redis. A done ctx ends the call; the other
// errors are [ErrInvalid], for a limit below 0, and those of Acquire. After an error the limit may have been
// set all the same, or be set within the next 10 s; calling again does no harm.
//
// The change that began last stands. A change that begins after another has returned replaces it, and no late copy of the earlier
// change undoes that. If two changes overlap, one may be replaced at once; it still returns nil, as if it had come first.
// [Inspector.Status] has the limit that stands.
func (i *Inspector) SetLimit(ctx context.Context, limit int64) error {
	if limit < 0 || limit > protocol.MaxUnits {
		return i.wrap("set-limit", fmt.Errorf("%w: limit %d is not between 0 and %d", ErrInvalid, limit, int64(protocol.MaxUnits)))
	}
	return i.wrap("set-limit", i.pin(ctx, protocol.PinAt(limit)))
}

// ResetLimit removes the limit of SetLimit, so that the limit declared last holds again. Where none is set no limit changes; Redis keeps
// the time of the call for some 20 s, against late copies of others. It is otherwise like SetLimit.
func (i *Inspector) ResetLimit(ctx context.Context) error {
	return i.wrap("reset-limit", i.pin(ctx, protocol.Unpin))
}

// pin asks the server for its time first, by which scripts recognize the latest change. A change that arrives too late for that is
// repeated with a new time.
func (i *Inspector) pin(ctx context.Context, pin protocol.Pin) error {
	if err := i.check(ctx); err != nil {
		return err
	}
	for began := time.Now(); ; {
		rep, err := i.tryPin(ctx, pin)
		switch {
		case err != nil:
			return err
		case rep.Results[0].State != protocol.Gone:
			return i.promote(ctx, rep)
		case time.Since(began) >= i.client.ttl:
			return unavailable(i.client.ttl, failure.ErrNoAnswer)
		}
	}
}

func (i *Inspector) tryPin(ctx context.Context, pin protocol.Pin) (protocol.Reply, error) {
	space := i.client.keyspace
	r, err := i.client.query(ctx, i.name, space.Status(i.name, i.spec, 0, 0))
	if err != nil {
		return protocol.Reply{}, err
	}
	found, err := protocol.DecodeStock(r.Numbers)
	if err != nil {
		return protocol.Reply{}, err
	}
	r, err = i.client.query(ctx, i.name, space.Resize(i.name, i.spec, pin, found.Asks))
	if err != nil {
		return protocol.Reply{}, err
	}
	return protocol.DecodeReply(r.Numbers, 1)
}

// promote continues a call that could not grant to all waiters at once, for as long as the reply says so.
func (i *Inspector) promote(ctx context.Context, rep protocol.Reply) error {
	for rep.More {
		r, err := i.client.query(ctx, i.name, i.client.keyspace.Promote(i.name, i.spec))
		if err != nil {
			return err
		}
		if rep, err = protocol.DecodeReply(r.Numbers, 0); err != nil {
			return err
		}
	}
	return nil
}

// Evict revokes a permit, or removes a waiter; id is [Ticket.ID] or [Permit.ID]. The units are free immediately, and the holder is
// notified right after. It may still use them for as long as the message takes; if the message is lost, until its next
// renewal, a third of a TTL later at most, or with NoRefresh until the lease ends. The context of the permit then ends with [ErrLost]
// and [ErrEvicted]. The Acquire of a waiter returns ErrEvicted, but if its process stands still for a TTL right then, it joins the queue
// again.
//
// The error is [ErrNotFound] if no permit and no waiter of this name has that id, so a second call returns it, too. The
// others are those of SetLimit. After another error it may have been evicted all the same.
//
// The label of this Client, [Options.Label], is stored for some seconds: see [Inspector.EvictedBy].
func (i *Inspector) Evict(ctx context.Context, id string) error {
	return i.wrap("evict", i.evict(ctx, id))
}

func (i *Inspector) evict(ctx context.Context, id string) error {
	if err := i.checkID(ctx, id); err != nil {
		return err
	}
	r, err := i.client.query(ctx, i.name, i.client.keyspace.Evict(i.name, i.spec, id))
	if err != nil {
		return err
	}
	rep, err := protocol.DecodeReply(r.Numbers, 1)
	if err != nil {
		return err
	}
	again := r.again && rep.Results[0].State == protocol.Evicted // by the call before, whose answer was lost
	if state := rep.Results[0].State; state != protocol.Held && state != protocol.Waiting && !again {
		return fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	i.sign(ctx, id)
	return nil
}

func (i *Inspector) checkID(ctx context.Context, id string) error {
	if err := i.check(ctx); err != nil {
		return err
	}
	if id == "" {
		return fmt.Errorf("%w: the id is empty", ErrInvalid)
	}
	return ended(ctx)
}

// signatureLife is how long Redis stores who evicted an id. A process that misses the message notices at its next renewal.
const signatureLife = 20 * time.Second

// signatureWait bounds how long Evict waits for its signature to be stored.
const signatureWait = 250 * time.Millisecond

// sign stores who evicted an id. It is only for people to read, so it may fail: the id is evicted. An id that is not one of
// ours may be of any length and is not signed.
func (i *Inspector) sign(ctx context.Context, id string) {
	if len(id) > protocol.MaxName {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, signatureWait)
	defer cancel()
	c := i.client
	set := redis.NewStatusCmd(context.Background(), "set", c.keyspace.EvictedKey(id), c.label, "px", signatureLife.Milliseconds())
	c.shared.Ask(ctx, pipeline.Command{Cmd: set})
}

// EvictedBy returns the label of the Client that evicted the permit or waiter of that id within the last 20 s, or "" if that is not
// known; the label is stored right after the eviction. It is for messages to people: any user with write access to Redis may
// have stored any label. It asks once. The errors are those of [Client.Ping] and [ErrInvalid].
func (i *Inspector) EvictedBy(ctx context.Context, id string) (label string, err error) {
	label, err = i.signature(ctx, id)
	return label, i.wrap("evicted-by", err)
}

func (i *Inspector) signature(ctx context.Context, id string) (string, error) {
	if err := i.checkID(ctx, id); err != nil {
		return "", err
	}
	get := redis.NewStringCmd(context.Background(), "getrange", i.client.keyspace.EvictedKey(id), 0, maxLabel-1)
	if err := i.client.askOnce(ctx, get); err != nil {
		return "", err
	}
	return wholeRunes(get.Val()), nil
}
