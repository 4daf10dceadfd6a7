package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/history"
)

// orders are the first line that a worker reads from its standard input. A password is in neither
// its arguments nor its environment, which others can see.
type orders struct {
	URL    string `json:"url"`
	Prefix string `json:"prefix"`
	Name   string `json:"name"`
	Label  string `json:"label"`
	Weight int64  `json:"weight"`
}

// How long a worker holds, and how long it then does something else.
const (
	minHold, maxHold   = 700 * time.Millisecond, 1400 * time.Millisecond
	minThink, maxThink = 50 * time.Millisecond, 200 * time.Millisecond
)

// Work is a worker: it works until in ends, which is when the demo closes it or dies. It writes every grant to out twice:
// when it is granted, and before the release.
func Work(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var o orders
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("orders of the demo: %w; demo-worker is not meant to be run by hand", err)
	}
	there, err := dial.Parse(o.URL)
	if err != nil {
		return fmt.Errorf("the URL is %w", err)
	}
	rdb := there.Client()
	defer func() { _ = rdb.Close() }() // nothing is in flight any more
	// Seven handshakes of TLS at once can take longer on a small machine than a lease of the demo.
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("cannot reach %s: %w", there, failure.Discreet(err))
	}
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: o.Prefix, TTL: ttl, Label: o.Label})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with in, or with the process; not waited for
		_, _ = io.Copy(io.Discard, in) // an error is an end too
		cancel()
	}()
	w := worker{orders: o, client: client, log: history.NewWriter(out)}
	return w.work(ctx)
}

type worker struct {
	orders
	client *fairsem.Client
	log    *history.Writer
}

func (w *worker) work(ctx context.Context) error {
	sem, err := w.client.Semaphore(w.Name, Limit)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := w.turn(ctx, sem)
		if err != nil && ctx.Err() == nil && !errors.Is(err, fairsem.ErrUnavailable) { // the demo knows whether that lasts
			return err
		}
		clock.Sleep(ctx, between(minThink, maxThink))
	}
	return nil
}

// turn acquires the units, holds them for a while, and releases them.
func (w *worker) turn(ctx context.Context, sem *fairsem.Semaphore) error {
	g := history.Grant{Process: w.Label, Weight: w.Weight, Asked: history.Now()}
	p, err := sem.Acquire(ctx, w.Weight)
	if err != nil {
		return err
	}
	g.Granted, g.ID, g.Token = history.Now(), p.ID(), p.Token()
	if err := w.log.Write(g); err != nil {
		return err
	}
	g.Released = hold(ctx, p, g.Granted, between(minHold, maxHold))
	g.Lost = errors.Is(context.Cause(p.Context()), fairsem.ErrLost)
	// Before Release, because the demo may kill this process in between.
	if err := w.log.Write(g); err != nil {
		return err
	}
	if err := p.Release(ctx); !errors.Is(err, fairsem.ErrLost) {
		return err
	}
	g.Lost = true
	return w.log.Write(g)
}

// hold holds for d, or until ctx or the permit ends. It returns the last time at which the permit was
// known to live: a process that was stopped and goes on cannot claim the time in between.
func hold(ctx context.Context, p *fairsem.Permit, granted int64, d time.Duration) int64 {
	const step = 10 * time.Millisecond
	until := granted
	for end := time.Now().Add(d); ; clock.Sleep(ctx, min(step, time.Until(end))) {
		now := history.Now()
		if p.Context().Err() != nil {
			return until
		}
		until = now
		if ctx.Err() != nil || !time.Now().Before(end) {
			return until
		}
	}
}

func between(from, to time.Duration) time.Duration { return from + rand.N(to-from) }

// WorkerVerb is the verb of this program that calls Work.
const WorkerVerb = "demo-worker"
