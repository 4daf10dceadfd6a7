package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Status is what a semaphore looks like at one moment.
type Status struct {
	Name       string
	At         time.Time     // server time, by which Ticket.Since is told too; it goes on where the clock is stepped back
	Limit      int64         // in force
	Declared   int64         // by the latest process that declared one; of the handle if none is left
	Pinned     bool          // whether Limit was set by hand
	Used       int64         // units held
	Holders    int64         // permits held
	Waiting    int64         // calls in line
	OldestWait time.Duration // how long the head of the line has waited; 0: there is no line
	NextExpiry time.Duration // until the next lease ends if nobody renews it; 0: there is none
	Window     time.Duration // after which a grant of a Limiter lapses; 0: it is none
	Known      bool          // whether Redis knows the name: it is in use, was within half a minute or so, or is pinned
	Granted    int64         // permits and calls granted since Redis got to know the name
	Lapsed     int64         // permits since then whose lease ended before they were given back; none of a Limiter
}

// Ticket is a permit that is held, or a place in line.
type Ticket struct {
	ID        string        // the permit id
	Label     string        // of the process, see Options.Label; "" if it has shown no sign of life for long
	Token     int64         // the fencing token; 0 while waiting
	Weight    int64         // units
	Since     time.Time     // server time of the grant, or of the arrival less the head start
	ExpiresIn time.Duration // until the lease ends if nobody renews it; 0: it has ended
}

// Status asks Redis what the semaphore looks like. Leases that are over do not count. Asking declares
// no limit, changes nothing and lets nobody in. A done ctx ends it; the other errors are those of Acquire.
func (s *Semaphore) Status(ctx context.Context) (Status, error) {
	found, err := s.stock(ctx)
	return found.status(s.name), wrap("status", s.name, err)
}

// stock counts as of one moment. Where more is expired than one call counts it takes several, and begins again
// if somebody has removed any of it meanwhile.
func (s *Semaphore) stock(ctx context.Context) (stock, error) {
	var all stock
	for {
		r, err := s.client.query(ctx, s.name, s.client.keyspace.status(s.name, s.quota, all.asOf, all.counted))
		if err != nil {
			return stock{}, err
		}
		found, err := decodeStock(r.numbers)
		if err != nil {
			return stock{}, err
		}
		same := true
		if all.counted > 0 {
			found, same = all.with(found)
		}
		if same && found.counted >= found.expired {
			return found, nil
		}
		all = stock{}
		if same {
			all = found
		}
	}
}

// Holders yields those who hold, in the order of their tokens. It reads page by page: each page is
// of one moment, and what changes behind it is not seen. It ends with the first error, which comes
// with an empty Ticket.
func (s *Semaphore) Holders(ctx context.Context) iter.Seq2[Ticket, error] {
	return s.list(ctx, "owner")
}

// Waiters is [Semaphore.Holders] for those who wait, in the order of the line.
func (s *Semaphore) Waiters(ctx context.Context) iter.Seq2[Ticket, error] {
	return s.list(ctx, "queue")
}

// pageSize keeps a line of any length from holding up the server.
const pageSize = 200

func (s *Semaphore) list(ctx context.Context, key string) iter.Seq2[Ticket, error] {
	return func(yield func(Ticket, error) bool) {
		for p := (page{more: true}); p.more; {
			var err error
			if p, err = s.page(ctx, key, p.last); err != nil {
				yield(Ticket{}, wrap("list", s.name, err))
				return
			}
			for _, t := range p.tickets {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}

func (s *Semaphore) page(ctx context.Context, key string, after bookmark) (page, error) {
	r, err := s.client.query(ctx, s.name, s.client.keyspace.about(s.name).page(key, after, pageSize))
	if err != nil {
		return page{}, err
	}
	p, err := decodePage(r.list, key)
	if err != nil {
		return page{}, err
	}
	s.client.readLabels(ctx, p.tickets)
	return p, nil
}

// readLabels fills in the labels of a page. They are in other slots than the semaphore, and one that
// cannot be read is missing: it is only for people to read. Who else can write to Redis can write a label of
// any length, so no more of one is fetched than New accepts.
func (c *Client) readLabels(ctx context.Context, page []Ticket) {
	labels := make(map[string]*redis.StringCmd)
	var answers []<-chan response
	for _, t := range page {
		id := clientOf(t.ID)
		if labels[id] == nil {
			labels[id] = redis.NewStringCmd(background, "getrange", c.keyspace.labelKey(id), 0, maxLabel-1)
			answers = append(answers, c.shared.send(parcel{lone: labels[id]}))
		}
	}
	for _, answer := range answers {
		if r := c.shared.await(ctx, answer); r.err != nil && !refused(r.err) {
			return // the others will not come either
		}
	}
	for i, t := range page {
		page[i].Label = wholeRunes(labels[clientOf(t.ID)].Val())
	}
}

// during runs f, which does I/O, until ctx ends: go-redis would not return then.
func (c *Client) during(ctx context.Context, f func() error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !c.crew.launch(listings, func() { done <- f() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ended(ctx)
	case <-c.crew.ctx.Done():
		return ErrClosed
	}
}

// query runs a script of no view's, and again while trouble may pass, for up to a TTL.
func (c *Client) query(ctx context.Context, name string, q call) (response, error) {
	if ctx == nil {
		return response{}, fmt.Errorf("%w: the context is nil", ErrInvalid)
	}
	if ctx.Err() != nil {
		return response{}, ended(ctx)
	}
	began, pause := time.Now(), firstRetry
	var failed error // of the last try
	lane := c.lane(name)
	for again := false; ; again = true {
		if c.isClosed() {
			return response{}, ErrClosed
		}
		r := lane.ask(ctx, parcel{lone: q.command(false), text: q})
		switch {
		case r.err == nil:
			r.again = again
			return r, nil
		case ctx.Err() != nil:
			return response{}, withDoubt(ended(ctx), unavailable(time.Since(began), cmp.Or(failed, lane.failure())))
		case !transient(r.err):
			return response{}, advise(r.err)
		case time.Since(began) >= c.ttl:
			return response{}, unavailable(c.ttl, r.err)
		}
		failed = r.err
		switch err := c.crew.sleep(ctx, pause/2+rand.N(pause)); {
		case ctx.Err() != nil:
			return response{}, withDoubt(ended(ctx), unavailable(time.Since(began), failed))
		case err != nil:
			return response{}, err
		}
		pause = min(2*pause, lastRetry)
	}
}

// Ping asks Redis for a sign of life, once: nil if it gave one. Without one until ctx ends the error is [ErrUnavailable], and
// wraps that of ctx and what go-redis said. In a cluster any node answers.
func (c *Client) Ping(ctx context.Context) error {
	const op = "ping"
	if ctx == nil {
		return nilContext(op, c.keyspace.prefix)
	}
	if ctx.Err() != nil {
		return wrap(op, c.keyspace.prefix, ended(ctx))
	}
	if c.isClosed() {
		return wrap(op, c.keyspace.prefix, ErrClosed)
	}
	began := time.Now()
	err := c.shared.ask(ctx, parcel{lone: redis.NewStatusCmd(background, "ping")}).err
	switch {
	case err == nil || errors.Is(err, ErrClosed):
	case ctx.Err() != nil:
		err = withDoubt(ended(ctx), unavailable(time.Since(began), c.shared.failure()))
	case !refused(err) || transient(err):
		err = unavailable(time.Since(began), err)
	}
	return wrap(op, c.keyspace.prefix, err)
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
