// Package demo shows processes that share a limit, and what happens when one of them is killed.
package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// Defaults of a demo.
const (
	Workers = 7 // processes
	Limit   = 3 // units they share
	Length  = 10 * time.Second
)

const (
	ttl       = 2 * time.Second
	pollEvery = 100 * time.Millisecond
	timeout   = 5 * ttl // after which a server without an answer counts as gone
)

// weights has the weight of each worker. Two that take 2 units make the queue interesting, and one of them is killed.
var weights = [Workers]int64{1, 1, 2, 1, 1, 2, 1}

// Options of a demo.
type Options struct {
	Redis     string        // URL of the server; "" is an embedded one
	Prefix    string        // of every key
	Length    time.Duration // at least
	JSON      bool          // write the result as JSON, and nothing else
	Interrupt func()        // called for Ctrl-C on a terminal that sends no signal; to end the context
}

// Run returns when all processes and the embedded server are gone. It must be called on the main thread, for the
// kernel kills the workers when the thread that started them ends. The error is that of a broken promise, which has
// the exit code exit.No, the cause of ctx, or the failure that ended the demo.
func Run(ctx context.Context, out io.Writer, o Options) error {
	srv, err := openServer(ctx, o)
	if err != nil {
		return err
	}
	defer srv.close()
	client, err := fairsem.New(srv.client, fairsem.Options{Prefix: srv.prefix, TTL: timeout, Label: "demo"})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it holds nothing
	sem, err := client.Semaphore(newName(), Limit)
	if err != nil {
		return err
	}
	d := &demo{options: o, server: srv, client: client, sem: sem, orderings: make(orderings)}
	if err := d.run(ctx, out); err != nil {
		return err
	}
	return d.conclude(ctx, out)
}

// newName is the name of a semaphore that nobody else uses.
func newName() string { return "demo-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12] }

// demo is one run of it.
type demo struct {
	options Options
	server  *server
	client  *fairsem.Client
	sem     *fairsem.Semaphore
	team    *team

	began     time.Time
	ended     time.Time
	orderings orderings
	mostSeen  int64
	death     death
	events    []event

	lateness    lateness
	lateAtDeath int64 // its total when the worker was killed
}

// run starts the workers, shows them at work, and returns when they are gone.
func (d *demo) run(ctx context.Context, out io.Writer) error {
	d.began = time.Now()
	d.addEvent("%d processes share %d units: first come, first served", Workers, Limit)
	defer d.lateness.measure()()
	var err error
	d.team, err = startTeam(d.orders())
	defer d.team.stop()
	if err != nil {
		return err
	}
	show, end := newDisplay(out, d.options, "fairsem demo", &scene{}, func(l logWriter) func(frame) { return (&plain{logWriter: l}).show })
	defer end()
	err = poll(ctx, d.team.failed, d.over, func() error {
		s, err := observe(ctx, d.client, d.sem.Name())
		if err != nil {
			return d.server.stateError(d.sem, err)
		}
		d.update(s)
		show(d.frame(s))
		return nil
	})
	d.ended = time.Now()
	return err
}

func (d *demo) orders() []orders {
	all := make([]orders, Workers)
	for i, weight := range weights {
		all[i] = orders{
			URL:    d.server.url,
			Prefix: d.server.prefix,
			Name:   d.sem.Name(),
			Label:  fmt.Sprintf("worker %d", i+1),
			Weight: weight,
		}
	}
	return all
}

// poll calls query again and again until it is over. It returns the cause of ctx, the error from failed, or the first error of query.
func poll(ctx context.Context, failed <-chan error, over func() bool, query func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !over() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case <-tick.C:
		}
		err := query()
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether everything was shown, or cannot happen any more.
func (d *demo) over() bool {
	elapsed := time.Since(d.began)
	if elapsed < d.options.Length {
		return false
	}
	if d.death.killed == 0 {
		return elapsed > d.options.Length+killGrace
	}
	settled := d.death.gone != 0 && d.death.regained != 0 && since(d.death.regained) > aftermath
	return settled || since(d.death.killed) > 2*(ttl+deathGrace)
}

// conclude judges the observations, and reports them.
func (d *demo) conclude(ctx context.Context, out io.Writer) error {
	end, err := d.sem.Status(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return d.server.stateError(d.sem, err)
	}
	e := evidence{
		grants:    d.team.history(),
		orderings: d.orderings,
		mostSeen:  d.mostSeen,
		death:     d.death,
		end:       end,
	}
	header := fmt.Sprintf("%d processes shared %d units for %s", Workers, Limit, seconds(d.ended.Sub(d.began)))
	return d.report(judge(e)).write(out, d.options, header, d.events)
}

// broken is nil if every promise held.
func broken(verdicts []verdict) error {
	var claims []string
	for _, v := range verdicts {
		if !v.Held {
			claims = append(claims, fmt.Sprintf("%q (%s)", v.Promise, v.Found))
		}
	}
	if len(claims) == 0 {
		return nil
	}
	return &exit.Error{Code: exit.No, Err: fmt.Errorf("promise broken: %s", strings.Join(claims, ", "))}
}
