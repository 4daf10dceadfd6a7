package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem"
)

// Exit codes of run, beside those of main.go and of the command that is run.
const (
	exitNotAcquired = 75 // EX_TEMPFAIL: try again later
	exitLost        = 76
	exitCannotExec  = 126
	exitNotFound    = 127
)

type runOptions struct {
	waiting
	holding
}

// holding is how the permit is held.
type holding struct {
	limit     int64
	ttl       time.Duration
	onLost    string
	killAfter time.Duration
	minHold   time.Duration
}

// What --on-lost can be.
const (
	lostTerm   = "term"
	lostKill   = "kill"
	lostIgnore = "ignore"
)

var onLost = []cobra.Completion{
	cobra.CompletionWithDesc(lostTerm, "TERM, and KILL before the units can be granted again"),
	cobra.CompletionWithDesc(lostKill, "KILL at once"),
	cobra.CompletionWithDesc(lostIgnore, "only a warning"),
}

const runTTL = 10 * time.Second

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run NAME --limit N [flags] -- CMD [ARG...]",
		Short: "Run a command while holding a permit",
		Long: `Waits in the queue of NAME, runs CMD while it holds a permit, and releases the permit
when CMD and its process group have ended. CMD is executed without a shell, with
standard input and output untouched. Its environment has FAIRSEM_NAME, FAIRSEM_ID,
FAIRSEM_TOKEN and FAIRSEM_WEIGHT. It has neither FAIRSEM_SERVE_TOKEN nor REDIS_URL, which
may contain a password and is passed on with --pass-redis-url. Signals are passed
on to its process group, which has the terminal while it runs.

A permit is lost if Redis cannot be reached for nine tenths of the TTL, or if it is
evicted. CMD is then ended with TERM, and with KILL so early that it is dead before
the units can expire and be granted to others. fairsem evict is the exception: it
does not wait for that.

A process of another user in the process group, such as one started by sudo, gets no
signals from fairsem and is not ended. The permit is held and renewed until that
process has ended by itself, and a warning is written. After a loss the units may be
granted while it runs.

If fairsem itself dies, by KILL or for lack of memory, CMD and its process group are
killed at once, by a small /bin/sh that waits beside CMD only for this, and on Linux by
the kernel. A process that left the group, belongs to another user or has no /bin/sh
continues while the units expire.

Exit code: that of CMD; 128+n if signal n killed it, or stopped the wait; 75 if
the permit was not acquired (-E changes it; with -E 0 no message is written), 76 if
it was lost, 125 if fairsem failed itself, such as without a server, 126 if CMD cannot
be executed, 127 if it was not found, 2 for a wrong command line.`,
		Example: `  fairsem run nightly --limit 1 -n -E 0 --min-hold 1m -- /usr/local/bin/report
  fairsem run staging --limit 2 --wait 20m -- ./integration-tests.sh
  fairsem run disk --limit 4 -w 2 -c 'tar c /srv | zstd > /backup/srv.tar.zst'`,
		RunE:              ownFailure(o.complete, func(cmd *cobra.Command) error { return runCommand(cmd.Context(), o) }),
		ValidArgsFunction: completeRun,
	}
	o.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("on-lost", cobra.FixedCompletions(onLost, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	return cmd
}

func (o *runOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.waiting.flags(f)
	f.Int64Var(&o.limit, "limit", 0, "units in use at once, everywhere together (required)")
	f.DurationVar(&o.ttl, "ttl", runTTL, "lease of the permit, which expires without renewals; choose it longer than outages to survive")
	f.StringVar(&o.onLost, "on-lost", lostTerm, "what to do with CMD when the permit is lost: term, kill or ignore")
	f.DurationVar(&o.killAfter, "kill-after", 0, "time from TERM to KILL (default the most that --ttl allows)")
	f.DurationVar(&o.minHold, "min-hold", 0, "hold at least that long, where clocks of machines differ")
}

// complete takes the arguments and refuses what can never work.
func (o *runOptions) complete(cmd *cobra.Command) error {
	if _, err := o.parseArgs(cmd, "fairsem run NAME --limit N -- CMD", "NAME"); err != nil {
		return err
	}
	f := cmd.Flags()
	if !f.Changed("kill-after") {
		o.killAfter = max(0, killAfterMost(o.ttl))
	}
	return o.check(f.Changed("limit"))
}

func (o *runOptions) check(limited bool) error {
	switch {
	case len(o.command) == 0:
		return usage("the command is missing: put it after --, or give -c")
	case !limited:
		return usage("--limit is missing: say how many units may be in use at once")
	case o.limit < 1:
		return usage("--limit %d is below 1", o.limit)
	case o.ttl <= 0:
		return usage("--ttl %v is not above 0", o.ttl)
	case o.minHold < 0 || o.killAfter < 0:
		return usage("--min-hold and --kill-after cannot be negative")
	case o.onLost != lostTerm && o.onLost != lostKill && o.onLost != lostIgnore:
		return usage("--on-lost %q is not term, kill or ignore", o.onLost)
	case o.killAfter > max(0, killAfterMost(o.ttl)):
		return usage("--kill-after %v is too long for --ttl %v: at most %v, or the units are granted again while CMD still runs; make --ttl longer",
			o.killAfter, o.ttl, max(0, killAfterMost(o.ttl)))
	}
	return o.waiting.check(o.limit, fmt.Sprintf("--limit %d", o.limit))
}

// killReserve is the least time that is left for a killed process to be gone.
const killReserve = 50 * time.Millisecond

// killAfterMost is how long CMD may live on after its permit. The context of a permit ends a tenth of
// the TTL before the lease does; a fifth of that is kept for the KILL to be sent and to work.
func killAfterMost(ttl time.Duration) time.Duration { return ttl/10 - max(ttl/50, killReserve) }

// runCommand is the whole life of a run. It must be called on the main thread: see orphan_linux.go.
func runCommand(ctx context.Context, o runOptions) error {
	signals, stop := catch()
	defer stop()
	return o.journalled(func(j *journal) error {
		r := &runner{caller: caller{waiting: o.waiting, signals: signals, journal: j}, holding: o.holding}
		return r.run(ctx)
	})
}

// runner is one run under way.
type runner struct {
	caller
	holding
	path   string // of the command
	sem    *fairsem.Semaphore
	permit *fairsem.Permit
}

func (r *runner) run(ctx context.Context) (err error) {
	if r.path, err = findCommand(r.command[0]); err != nil {
		return err
	}
	return r.connect(r.ttl, func(client *fairsem.Client) error {
		sem, err := client.Semaphore(r.name, r.limit)
		if err != nil {
			return err
		}
		r.sem, r.queue = sem.With(fairsem.CallOptions{HeadStart: r.headStart, MaxQueue: r.maxQueue}), sem.Inspector
		if err := r.untilSignal(ctx, r.target.Reach); err != nil {
			return err
		}
		if err := r.acquire(ctx); err != nil {
			return err
		}
		r.journal.note(note{Event: "granted", ID: r.permit.ID(), Token: r.permit.Token(), Weight: r.weight, WaitedMS: r.permit.Waited().Milliseconds()})
		err = r.hold()
		r.release(ctx)
		return err
	})
}

// acquire waits in the queue until r has its permit, a signal comes, or the time to wait is over.
func (r *runner) acquire(ctx context.Context) error {
	stop := r.showPosition(ctx)
	defer stop()
	err := r.untilSignal(ctx, func(ctx context.Context) (err error) {
		if r.wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, r.wait)
			defer cancel()
		}
		return r.ask(ctx)
	})
	if err != nil && r.permit != nil { // the signal was later than the grant
		r.release(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, fairsem.ErrUnavailable) { // which may wrap a time-out
		err = fmt.Errorf("%w: %q was not free within %v", fairsem.ErrNotAcquired, r.name, r.wait)
	}
	return r.refused(err, "rate limit, which is for fairsem limit")
}

func (r *runner) ask(ctx context.Context) (err error) {
	if !r.noWait {
		r.permit, err = r.sem.Acquire(ctx, r.weight)
		return err
	}
	return promptly(ctx, func(ctx context.Context) (err error) {
		r.permit, err = r.sem.TryAcquire(ctx, r.weight)
		return err
	})
}

const releaseLimit = 3 * time.Second

// release gives the permit back, also after a signal. CMD has ended, so its exit code stands whatever
// happens here.
func (r *runner) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	err := r.permit.Release(ctx)
	switch {
	case err == nil:
		r.journal.note(note{Event: "released"})
	case !errors.Is(err, fairsem.ErrLost):
		r.journal.warn("the permit was not released and expires within %v: %v", r.ttl, err)
	}
}
