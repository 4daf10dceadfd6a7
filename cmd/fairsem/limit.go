package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem"
)

type limitOptions struct {
	waiting
	rate rate
}

func newLimit() *cobra.Command {
	var o limitOptions
	cmd := &cobra.Command{
		Use:   "limit NAME RATE [flags] [-- CMD [ARG...]]",
		Short: "Start a command at a limited rate",
		Long: `Waits in the queue of the rate limit NAME until RATE allows one more unit, and then
becomes CMD. RATE is units and a window: 100/1m, 20/90s, or 5/s, where a unit of time
alone is one of it. At most that many units are granted in any window of that length,
to all processes on all machines together, first come, first served. Without CMD it
only waits, for use in a loop.

A grant counts until its window is over and is never released. So no permit is held
while CMD runs, and none can be lost. CMD replaces fairsem: it has its process id, its
terminal and all signals from then on. CMD is executed without a shell, with standard
input and output untouched. Its environment is that of fairsem without REDIS_URL,
which may contain a password and is passed on with --pass-redis-url, and without
FAIRSEM_SERVE_TOKEN.

With --no-wait, or if the units would be granted only after --wait, it fails at once
and reports how long the wait would be, with --json as retry_after_ms.

The rate belongs to NAME: the one that was declared last applies to all. A name is
either a rate limit or a semaphore of fairsem run. Grants that Redis loses, in a
restart without persistence, are not restored.

Exit code: that of CMD, and 0 without one; 128+n if signal n stopped the wait; 75 if
the units were not granted (-E changes it; with -E 0 no message is written), 125 if
fairsem failed itself, such as without a server, 126 if CMD cannot be executed, 127
if it was not found, 2 for a wrong command line.`,
		Example: `  fairsem limit geocoder 5/s -- curl -fsS https://api.example.com/lisbon
  while read -r id; do fairsem limit geocoder 5/s && ./geocode "$id"; done <ids
  fairsem limit mails 100/1m --no-wait -E 0 -- ./send-digest`,
		RunE:              ownFailure(o.complete, func(cmd *cobra.Command) error { return limitCommand(cmd.Context(), o) }),
		ValidArgsFunction: completeLimitArgs,
	}
	o.flags(cmd.Flags())
	return cmd
}

// complete takes the arguments and refuses what can never work.
func (o *limitOptions) complete(cmd *cobra.Command) error {
	words, err := o.parseArgs(cmd, "fairsem limit NAME RATE -- CMD", "NAME", "RATE")
	if err != nil {
		return err
	}
	if o.rate, err = parseRate(words[1]); err != nil {
		return err
	}
	if len(o.command) > 0 && !canBecome {
		return usage("limit needs a Unix system to run a command: leave the command out, and run it after fairsem")
	}
	return o.check(o.rate.units, fmt.Sprintf("the %d of RATE", o.rate.units))
}

// limitCommand waits for a grant, and is then replaced by the command.
func limitCommand(ctx context.Context, o limitOptions) error {
	signals, stop := catch()
	defer stop()
	var path string
	err := o.journalled(func(j *journal) (err error) {
		if len(o.command) > 0 {
			if path, err = findCommand(o.command[0]); err != nil {
				return err
			}
		}
		l := &limiter{caller{waiting: o.waiting, signals: signals, journal: j}, o.rate}
		return l.run(ctx)
	})
	if err != nil || len(o.command) == 0 {
		return err
	}
	return o.journalled(func(*journal) error { return become(path, o.command, o.environment(), signals) })
}

// limiter is one wait for a grant.
type limiter struct {
	caller
	rate rate
}

func (l *limiter) run(ctx context.Context) error {
	return l.connect(runTTL, func(client *fairsem.Client) error {
		handle, err := client.Limiter(l.name, l.rate.units, l.rate.window)
		if err != nil {
			return err
		}
		l.queue = handle.Inspector
		if err := l.untilSignal(ctx, l.target.Reach); err != nil {
			return err
		}
		began := time.Now()
		if err := l.obtain(ctx, handle); err != nil {
			return l.refused(err, "semaphore, which is for fairsem run")
		}
		l.journal.note(note{Event: "granted", Weight: l.weight, WaitedMS: time.Since(began).Milliseconds()})
		return nil
	})
}

// obtain returns when the units are granted, a signal comes, or it is known that they are not granted in time.
func (l *limiter) obtain(ctx context.Context, handle *fairsem.Limiter) error {
	stop := l.showPosition(ctx)
	defer stop()
	err := l.untilSignal(ctx, func(ctx context.Context) error {
		if l.noWait {
			return promptly(ctx, func(ctx context.Context) error { return l.allow(ctx, handle) })
		}
		return handle.With(fairsem.CallOptions{HeadStart: l.headStart, MaxQueue: l.maxQueue, MaxWait: l.wait}).Wait(ctx, l.weight)
	})
	var refusal *fairsem.WaitError
	if errors.As(err, &refusal) {
		return tooLate{refusal, l.name}
	}
	return err
}

// allow is Limiter.Allow with an error for a refusal, as Wait has it.
func (l *limiter) allow(ctx context.Context, handle *fairsem.Limiter) error {
	d, err := handle.Allow(ctx, l.weight)
	if err != nil || d.Allowed {
		return err
	}
	return &fairsem.WaitError{RetryAfter: d.RetryAfter}
}

// tooLate is a refusal that says when the units would be granted.
type tooLate struct {
	refusal *fairsem.WaitError
	name    string
}

func (e tooLate) Error() string {
	return fmt.Sprintf("not acquired: %q would grant the units in %v at the earliest: try again then", e.name, e.refusal.RetryAfter)
}

func (e tooLate) Unwrap() error { return e.refusal }
