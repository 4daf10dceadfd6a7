package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/run"
)

type runOptions struct {
	common requestFlags
	job    run.PermitJob
}

var onLost = []cobra.Completion{
	cobra.CompletionWithDesc(run.OnLostTerm, "TERM, and KILL before the units can be granted again"),
	cobra.CompletionWithDesc(run.OnLostKill, "KILL at once"),
	cobra.CompletionWithDesc(run.OnLostIgnore, "only a warning"),
}

const runTTL = 10 * time.Second

const howRun = `Waits in the queue of NAME, runs CMD while it holds a permit, and releases the permit
when CMD has ended. It then ends what CMD has left in its process group, such as
processes in the background: with TERM at once, and with KILL after --kill-after. A process
that is to continue needs its own process group, for example through setsid: it is neither
ended nor waited for. In a script timeout makes one, too, unless it has --foreground or is
called by exec. If Redis does not answer then, fairsem waits for it for about 3 s, and warns
that the permit expires.

With --no-wait CMD runs if the units can be granted at once, and fairsem fails otherwise.
On a server that was just started the first call waits for up to 2 s even so, in a
cluster 4 s (longer with --grace): earlier holders restore their permits meanwhile.

CMD is executed without a shell, with standard input and output untouched, except that
those that are closed are /dev/null. Its environment has FAIRSEM_NAME, FAIRSEM_ID,
FAIRSEM_TOKEN, FAIRSEM_WEIGHT, FAIRSEM_TENANT, FAIRSEM_NUMBER and FAIRSEM_NUMBERS. It
has neither FAIRSEM_SERVE_TOKEN nor REDIS_URL, which may contain a password and is passed
on with --pass-redis-url.

CMD has a process group of its own, which has the terminal while it runs. INT, TERM, HUP,
QUIT, USR1, USR2, TSTP and CONT are passed on to that group; other signals, such as ALRM
and WINCH, are not. A Ctrl-C or Ctrl-\ that ends CMD also goes to the process group of
fairsem, so that it ends a script, too; so does a Ctrl-C once CMD has ended. If fairsem
was started with HUP or INT ignored, as by nohup, they stay ignored; CMD may get other
signals that were ignored or blocked.

With --tenant, tenants share the limit fairly, however many calls of each wait: the next
permit goes to the tenant that holds the fewest units per --share, and there to the call
that came first. --share and --tenant-limit belong to the tenant, and what was declared
last is in effect. Calls without --tenant are of one tenant, whose name is empty.
--max-queue then counts the waiters of the tenant.

With --numbered the units have numbers below the limit in force, which fairsem resize may
have raised above --limit. The lowest free ones are granted; no two holders have one at
the same time. FAIRSEM_NUMBER says which of four databases, licences or ports CMD has. The
fencing token grows with every grant of a number, so a store that keeps the highest one of
each number refuses a CMD whose permit was lost.

A permit is lost if it is evicted, or if nine tenths of the TTL are over since it was last
renewed, because Redis could not be reached: after an outage of 57 to 90 % of the TTL.
CMD is then ended with TERM, and with KILL so early that it is dead before the units can
expire and be granted to others. fairsem evict does not wait for that. If fairsem is
stopped and CMD is not, such as by kill -STOP, the permit expires unnoticed, and CMD runs
beside the next holder until fairsem continues and ends it.

A process of another user in the process group, such as one started by sudo, gets no
signals from fairsem and is not ended. The permit is held and renewed until that
process has ended by itself, and a warning is written. After a loss the units may be
granted while it runs.

If fairsem itself dies, CMD and its process group are killed at once, even if CMD has just
started, by a small /bin/sh beside it, and on Linux by the kernel. A process that left the
group, is another user's or has no /bin/sh goes on while the units expire.

With --json each event is a JSON object, a line of standard error, with time, event and
name: granted with id, tenant, token, weight, numbers and waited_ms; started with pid;
ended with exit, which is 128+n if signal n ended CMD, also one that was passed on;
released, which is then the last one; lost with reason, which is evicted or expired; and
warning with message. After a loss there is no released. If CMD was not started, or was
ended because the permit was lost, the last one is failed, or stopped if a signal ended
the wait, with exit, message and maybe reason. A field other than exit is missing if it
is 0 or empty. What is not UTF-8 is also there as name_base64, id_base64 or
tenant_base64.

Exit code: that of CMD; 128+n if signal n killed it, or stopped the wait; 75 if the permit
was not acquired (-E changes it; with -E 0 only --json reports that), 76 if it was lost,
unless CMD was meant to continue or had ended before the loss was noticed, 125 if fairsem
itself failed, as when the server does not answer, 126 if CMD cannot be executed, 127 if it
was not found, 2 for a wrong command line.`

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run NAME --limit N [flags] -- CMD [ARG...]",
		Short: "Run a command while holding a permit",
		Long:  howRun,
		Example: `  fairsem run nightly --limit 1 -n -E 0 --min-hold 1m -- /usr/local/bin/report
  fairsem run staging --limit 2 --wait 20m -- ./integration-tests.sh
  fairsem run render --limit 12 --tenant acme --share 2 --tenant-limit 8 -- ./render
  fairsem run testdb --limit 4 --numbered -c 'go test -db "test_$FAIRSEM_NUMBER" ./...'
  fairsem run disk --limit 4 -w 2 -c 'tar c /srv | zstd > /backup/srv.tar.zst'`,
		RunE:              ownFailure(o.complete, func(cmd *cobra.Command) error { return o.job.Run(cmd.Context()) }),
		ValidArgsFunction: completeCommand(1),
	}
	o.flags(cmd)
	return cmd
}

func (o *runOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.common.flags(cmd)
	numberFlag(f, &o.job.Limit, "limit", "", "most units in use at once, on all machines together (required)")
	f.DurationVar(&o.job.TTL, "ttl", runTTL, "lease of the permit, which expires without renewals; choose it at least twice as long as outages to survive")
	f.StringVar(&o.job.OnLost, "on-lost", run.OnLostTerm, "what to do with CMD when the permit is lost: term, kill or ignore")
	f.DurationVar(&o.job.KillAfter, "kill-after", 0, "time from TERM to KILL (default and most: 8 % of --ttl, such as 0.8s of 10s, and less than that below 2.5s)")
	f.DurationVar(&o.job.MinHold, "min-hold", 0, "hold at least that long, where clocks of machines differ, unless INT, TERM or QUIT ends it; a loss meanwhile is a warning")
	f.BoolVar(&o.job.Numbered, "numbered", false, "number the units: 0 to the limit minus 1, each held once at a time")
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("on-lost", cobra.FixedCompletions(onLost, cobra.ShellCompDirectiveNoFileComp))
}

// complete parses the arguments and refuses invalid combinations of flags.
func (o *runOptions) complete(cmd *cobra.Command) error {
	if _, err := o.common.parseArgs(cmd, "fairsem run NAME --limit N -- CMD", "NAME"); err != nil {
		return err
	}
	f := cmd.Flags()
	if !f.Changed("kill-after") {
		o.job.KillAfter = run.MaxKillAfter(o.job.TTL)
	}
	if err := o.check(f.Changed("limit")); err != nil {
		return err
	}
	err := o.common.complete(o.job.Limit, fmt.Sprintf("--limit %d", o.job.Limit))
	o.job.Request = o.common.request
	if grace := o.job.Request.Grace; err == nil && grace > o.job.TTL {
		return exit.Usagef("the grace period of %v is longer than --ttl %v: give --ttl %v at least", grace, o.job.TTL, grace)
	}
	return err
}

// check refuses a missing command and invalid flags of run itself.
func (o *runOptions) check(limited bool) error {
	switch {
	case !run.CanBecome:
		return exit.Usagef("run needs a Unix system: limit without a command works here")
	case len(o.common.request.Command) == 0:
		return exit.Usagef("the command is missing: put it after --, or give -c")
	case !limited:
		return exit.Usagef("--limit is missing: say how many units may be in use at once")
	case o.job.Limit < 1:
		return exit.Usagef("--limit %d is below 1", o.job.Limit)
	case o.job.TTL <= 0:
		return exit.Usagef("--ttl %v is not above 0", o.job.TTL)
	case o.job.MinHold < 0 || o.job.KillAfter < 0:
		return exit.Usagef("--min-hold and --kill-after cannot be negative")
	case o.job.OnLost != run.OnLostTerm && o.job.OnLost != run.OnLostKill && o.job.OnLost != run.OnLostIgnore:
		return exit.Usagef("--on-lost %q is not term, kill or ignore", o.job.OnLost)
	case o.job.KillAfter > run.MaxKillAfter(o.job.TTL):
		return exit.Usagef("--kill-after %v is too long for --ttl %v: at most %v, or the units are granted again while CMD still runs; make --ttl longer",
			o.job.KillAfter, o.job.TTL, run.MaxKillAfter(o.job.TTL))
	}
	return nil
}
