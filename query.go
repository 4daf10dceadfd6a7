package fairsem

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// during runs f, which does I/O, and returns when ctx ends or after a TTL even if f has not returned: go-redis would not return then.
func (c *Client) during(ctx context.Context, f func() error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	began, done, err := time.Now(), make(chan error, 1), failure.ErrNoAnswer
	if !c.goroutines.Start(goroutines.Listings, func() { done <- f() }) {
		return ErrClosed
	}
	timer := time.NewTimer(c.ttl)
	defer timer.Stop()
	select {
	case err = <-done:
	case <-ctx.Done():
	case <-timer.C:
	case <-c.goroutines.Context.Done():
		return ErrClosed
	}
	return c.outcome(ctx, began, err)
}

// queried is the answer to a query; again means that the query was sent before, without an answer.
type queried struct {
	pipeline.Response
	again bool
}

// query runs a script that concerns no ticket. It retries transient failures, for up to a TTL.
func (c *Client) query(ctx context.Context, name string, q protocol.Call) (queried, error) {
	if ctx.Err() != nil {
		return queried{}, ended(ctx)
	}
	began, backoff := time.Now(), firstRetry
	var failed error // error of the last try
	server := c.pipelineOf(name)
	for again := false; ; again = true {
		if c.isClosed() {
			return queried{}, ErrClosed
		}
		r := server.Ask(ctx, pipeline.Command{Call: q})
		switch {
		case r.Err == nil:
			return queried{r, again}, nil
		case ctx.Err() != nil:
			return queried{}, withDoubt(ended(ctx), unavailable(time.Since(began), cmp.Or(failed, server.Failure())))
		case !failure.Transient(r.Err):
			return queried{}, advise(r.Err)
		case time.Since(began) >= c.ttl:
			return queried{}, unavailable(c.ttl, r.Err)
		}
		failed = r.Err
		switch err := c.goroutines.Sleep(ctx, backoff/2+rand.N(backoff)); {
		case ctx.Err() != nil:
			return queried{}, withDoubt(ended(ctx), unavailable(time.Since(began), failed))
		case err != nil:
			return queried{}, err
		}
		backoff = min(2*backoff, lastRetry)
	}
}

// Ping sends one PING and returns nil if Redis answers. If it does not answer before ctx ends, or within 2 s, the error is
// [ErrUnavailable] and wraps that of ctx, if it has one, and the last error of go-redis. In a process that also makes calls with a TTL below
// 6 s it may be a third of that TTL instead of 2 s, but at least 100 ms. With a done ctx it returns the error of ctx, and sends nothing. In a cluster it asks
// one node, whichever go-redis chooses.
func (c *Client) Ping(ctx context.Context) error {
	const op = "ping"
	if ctx == nil {
		return nilContext(op, "")
	}
	err := cmp.Or(c.check(), ended(ctx))
	if err == nil {
		err = c.askOnce(ctx, redis.NewStatusCmd(context.Background(), "ping"))
	}
	return wrap(op, "", err)
}

// askOnce sends a command that is about no semaphore, once.
func (c *Client) askOnce(ctx context.Context, cmd redis.Cmder) error {
	if c.isClosed() {
		return ErrClosed
	}
	began := time.Now()
	return c.outcome(ctx, began, c.shared.Ask(ctx, pipeline.Command{Cmd: cmd}).Err)
}

// outcome returns the error of a call that tried once, with the error err, nil if it has worked.
func (c *Client) outcome(ctx context.Context, began time.Time, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrClosed):
		return err
	case ctx.Err() != nil:
		return withDoubt(ended(ctx), unavailable(time.Since(began), c.shared.Failure()))
	case !failure.Refused(err) || failure.Transient(err):
		return unavailable(time.Since(began), err)
	}
	return advise(err)
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
