package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
)

// Exit codes of run, beside those of main.go and of the command that is run.
const (
	exitNotAcquired = 75 // EX_TEMPFAIL: try again later
	exitLost        = 76
	exitCannotExec  = 126
	exitNotFound    = 127
)

type runOptions struct {
	connection
	limit     int64
	weight    int64
	wait      time.Duration
	noWait    bool
	conflict  int
	ttl       time.Duration
	headStart time.Duration
	maxQueue  int64
	label     string
	onLost    string
	killAfter time.Duration
	minHold   time.Duration
	shell     string
	json      bool
	quiet     bool
	passURL   bool

	name    string
	command []string
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
		Long: `Waits in line for NAME, runs CMD while it holds a permit, and gives it back when CMD
and its process group have ended. CMD is executed without a shell, with standard
input and output untouched, and finds FAIRSEM_NAME, FAIRSEM_ID, FAIRSEM_TOKEN and
FAIRSEM_WEIGHT in its environment, but neither REDIS_URL, which may hold a password,
without --pass-redis-url, nor FAIRSEM_SERVE_TOKEN. Signals are passed on to its process group; a
terminal is its own while it runs.

A permit that is lost (Redis out of reach for nine tenths of the TTL, or somebody
took it away) ends CMD with TERM, and with KILL so early that it is dead before
the units can lapse and be granted to anybody else. Who takes it away with fairsem
evict does not wait for that.

What runs as another user in its process group, by sudo say, gets no signals from
fairsem. It is not ended: the permit is held and renewed until it has ended by itself,
a warning says so, and after a loss the units may be granted while it runs.

If fairsem itself dies, of KILL or for want of memory, CMD and its process group are
killed at once, by a small /bin/sh that waits beside CMD for nothing else, and on
Linux by the kernel. What left the group, is another user's or has no /bin/sh, goes on
while the units lapse.

Exit code: that of CMD; 128+n if signal n killed it, or stopped the wait; 75 if
the permit was not acquired (-E changes it; with -E 0 nothing is said of it), 76 if it was lost, 125 if fairsem
failed itself, such as without a server, 126 if CMD cannot be executed, 127 if it
was not found, 2 for a wrong command line.`,
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
	o.connection.flags(f)
	f.Int64Var(&o.limit, "limit", 0, "units in use at once, everywhere together (required)")
	f.Int64VarP(&o.weight, "weight", "w", 1, "units to hold")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait in line at most; 0: for ever")
	f.BoolVarP(&o.noWait, "no-wait", "n", false, "do not wait in line")
	f.IntVarP(&o.conflict, "conflict-exit-code", "E", exitNotAcquired, "exit code if the permit was not acquired")
	f.DurationVar(&o.ttl, "ttl", runTTL, "after which silence the permit comes back; longer than any outage to sit out")
	f.DurationVar(&o.headStart, "head-start", 0, "queue as if it had come that much earlier")
	f.Int64Var(&o.maxQueue, "max-queue", 0, "do not become waiter number `N`+1; 0: any")
	f.StringVar(&o.label, "label", "", "what operators see beside the permit, at most 256 bytes (default host:pid)")
	f.StringVar(&o.onLost, "on-lost", lostTerm, "what a lost permit does to CMD: term, kill or ignore")
	f.DurationVar(&o.killAfter, "kill-after", 0, "from TERM to KILL (default the most that --ttl allows)")
	f.DurationVar(&o.minHold, "min-hold", 0, "hold at least that long, for clocks that are apart")
	f.StringVarP(&o.shell, "command", "c", "", "run `STRING` with /bin/sh instead of CMD")
	f.BoolVar(&o.passURL, "pass-redis-url", false, "leave $REDIS_URL in the environment of CMD, which needs it for fairsem, say")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "tell nothing but what fairsem failed at itself: the exit code has the rest")
	f.BoolVar(&o.json, "json", false, "tell what happens as JSON lines on standard error")
}

// complete takes the arguments and refuses what can never work.
func (o *runOptions) complete(cmd *cobra.Command) error {
	f := cmd.Flags()
	if err := o.take(f.Args(), f.ArgsLenAtDash(), f.Changed("command")); err != nil {
		return err
	}
	if !f.Changed("kill-after") {
		o.killAfter = max(0, killAfterMost(o.ttl))
	}
	if err := o.check(f.Changed("limit")); err != nil {
		return err
	}
	_, err := o.server()
	return err
}

// take takes the name and the command. dash is how many arguments are before "--", -1 without one.
func (o *runOptions) take(args []string, dash int, shell bool) error {
	before := args
	if dash >= 0 {
		before, o.command = args[:dash], args[dash:]
	}
	switch {
	case len(before) == 0:
		return usage("NAME is missing: fairsem run NAME --limit N -- CMD")
	case shell && len(before)+len(o.command) > 1:
		return usage("there is a command beside -c: give one of them")
	case len(before) > 1:
		return usage("%q is too much: put the command behind --, as in fairsem run NAME --limit N -- CMD", before[1])
	case shell && o.shell == "":
		return usage("-c is empty: give a shell command")
	case shell:
		o.command = []string{"/bin/sh", "-c", o.shell}
	case len(o.command) == 0 || o.command[0] == "":
		return usage("there is no command: put one behind --, or give -c")
	}
	o.name = before[0]
	return nil
}

func (o *runOptions) check(limited bool) error {
	switch {
	case !limited:
		return usage("--limit is missing: say how many units may be in use at once")
	case o.limit < 1:
		return usage("--limit %d is below 1", o.limit)
	case o.weight < 1 || o.weight > o.limit:
		return usage("--weight %d is not between 1 and --limit %d", o.weight, o.limit)
	case o.ttl <= 0:
		return usage("--ttl %v is not above 0", o.ttl)
	case o.wait < 0 || o.headStart < 0 || o.maxQueue < 0 || o.minHold < 0 || o.killAfter < 0:
		return usage("--wait, --head-start, --max-queue, --min-hold and --kill-after cannot be negative")
	case o.noWait && (o.wait > 0 || o.maxQueue > 0 || o.headStart > 0):
		return usage("--no-wait goes with none of --wait, --max-queue and --head-start: leave it out, or them")
	case o.quiet && o.json:
		return usage("--quiet and --json are opposites: give one of them")
	case o.conflict < 0 || o.conflict > 255:
		return usage("--conflict-exit-code %d is not between 0 and 255", o.conflict)
	case o.onLost != lostTerm && o.onLost != lostKill && o.onLost != lostIgnore:
		return usage("--on-lost %q is none of term, kill and ignore", o.onLost)
	case o.killAfter > max(0, killAfterMost(o.ttl)):
		return usage("--kill-after %v is too long for --ttl %v: at most %v, or the units are granted again while CMD still runs; make --ttl longer",
			o.killAfter, o.ttl, max(0, killAfterMost(o.ttl)))
	}
	return nil
}

// killReserve is the least time that is left for a killed process to be gone.
const killReserve = 50 * time.Millisecond

// killAfterMost is how long CMD may live on after its permit. The context of a permit ends a tenth of
// the TTL before the lease does; a fifth of that is kept for the KILL to be sent and to work.
func killAfterMost(ttl time.Duration) time.Duration { return ttl/10 - max(ttl/50, killReserve) }

// runCommand is the whole life of a run. It must be called on the main thread: see orphan_linux.go.
func runCommand(ctx context.Context, o runOptions) error {
	// The channel keeps a signal that comes between two phases. One that came before it has ended ctx.
	signals := make(chan os.Signal, 16)
	notify(signals, forwarded...)
	defer signal.Stop(signals)
	// Words that nobody reads must not end this process, and with it CMD. This is for good, for the last are after this.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	r := &runner{runOptions: o, signals: signals, journal: newJournal(os.Stderr, o)}
	defer r.journal.close()
	return r.journal.conclude(r.run(ctx))
}

// runner is one run under way.
type runner struct {
	runOptions
	path    string // of the command
	signals <-chan os.Signal
	journal *journal

	there  *dial.Server
	sem    *fairsem.Semaphore
	mark   string // the label, if it is the only one of its kind
	permit *fairsem.Permit
	waits  atomic.Pointer[string] // the id under which it waits
}

// observe notes the id of a call that waits, which only events tell.
func (r *runner) observe(e fairsem.Event) {
	if e, ok := e.(fairsem.WaitStartedEvent); ok {
		r.waits.Store(&e.ID)
	}
}

func (r *runner) run(ctx context.Context) (err error) {
	if r.path, err = lookUp(r.command[0]); err != nil {
		return err
	}
	if r.there, err = r.server(); err != nil {
		return err
	}
	rdb := r.there.Client()
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: r.keys(), TTL: r.ttl, Label: r.labelled(), Observer: r.observe})
	if err != nil {
		return asUsage(err)
	}
	defer shut(client)
	if r.sem, err = client.Semaphore(r.name, r.limit); err != nil {
		return asUsage(err)
	}
	r.sem = r.sem.With(fairsem.CallOptions{HeadStart: r.headStart, MaxQueue: r.maxQueue})
	if err := r.untilSignal(ctx, r.there.Reach); err != nil {
		return err
	}
	if err := r.acquire(ctx); err != nil {
		return asUsage(err)
	}
	r.journal.note(note{Event: "granted", ID: r.permit.ID(), Token: r.permit.Token(), Weight: r.weight, WaitedMS: r.permit.Waited().Milliseconds()})
	err = r.hold()
	r.release(ctx)
	return err
}

// untilSignal runs f and ends its context with the first signal, which is then the error. ctx may have
// ended with one before.
func (r *runner) untilSignal(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }() // ends with ctx; waited for below
	for {
		select {
		case s := <-r.signals:
			cancel(signalled{s})
		case err := <-done:
			var stop signalled
			if errors.As(context.Cause(ctx), &stop) {
				return stop
			}
			return err
		}
	}
}

// longestLabel is what Options.Label takes.
const longestLabel = 256

// labelled is the label for the client. Where the place in line is shown it needs one of its own kind.
func (r *runner) labelled() string {
	host, _ := os.Hostname() // a machine without a name is ":pid"
	label := cmp.Or(r.label, fmt.Sprintf("%s:%d", host, os.Getpid()))
	if !r.journal.json && !r.quiet && term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb" {
		mark := "#" + uuid.NewString()[:8]
		r.mark = label[:min(len(label), longestLabel-len(mark))] + mark
		return r.mark
	}
	return label
}

const (
	releaseLimit = 3 * time.Second
	shutLimit    = 2 * time.Second
)

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
		r.journal.warn("the permit was not given back and lapses within %v: %v", r.ttl, err)
	}
}

// shut closes the client, which leaves every line, for as long as that is worth waiting for.
func shut(client *fairsem.Client) {
	closed := make(chan struct{})
	go func() { // ends soon where Redis answers, else with the process
		_ = client.Close() // what is not given back lapses
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(shutLimit):
	}
}

// asUsage makes errors of arguments those of the command line.
func asUsage(err error) error {
	if errors.Is(err, fairsem.ErrInvalid) {
		return &failure{exitUsage, err}
	}
	return err
}

// lookUp finds the command before anybody waits for it.
func lookUp(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotStart(command, err)
	}
	return path, nil
}

func cannotStart(command string, err error) error {
	code := exitCannotExec
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var detail *exec.Error
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return &failure{code, fmt.Errorf("cannot run %q: %w", command, err)}
}
