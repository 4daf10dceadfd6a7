package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/run"
)

type limitOptions struct {
	common requestFlags
	job    run.RateJob
}

func newLimit() *cobra.Command {
	var o limitOptions
	cmd := &cobra.Command{
		Use:   "limit NAME RATE [flags] [-- CMD [ARG...]]",
		Short: "Start a command at a limited rate",
		Long: `Waits in the queue of the rate limit NAME until RATE allows one more unit, and then
becomes CMD. RATE is units and a window: 100/1m, 20/90s, or 5/s, where s alone means 1s. At
most that many units are granted in any window of that length, to all processes on all
machines together, first come, first served. Without CMD it only waits, for use in a loop.

A grant counts until its window is over and is never released. So no permit is held
while CMD runs, and none can be lost. Operators see --label while the call waits, and
? beside its grant. CMD replaces fairsem: it has its process id, its
terminal and all signals from then on. CMD is executed without a shell, with standard
input and output untouched, except that those that are closed are /dev/null. Its
environment is that of fairsem without REDIS_URL, which may contain a password and is
passed on with --pass-redis-url, without FAIRSEM_SERVE_TOKEN, and with FAIRSEM_TENANT,
which is that of --tenant. If fairsem was started with HUP or INT ignored, as by nohup,
they stay ignored; CMD may get other signals that were ignored or blocked.

With --no-wait, or if the units would be granted only after --wait, it fails at once
and reports how long the wait would be; with --head-start it waits to the end of --wait.
For a paused name that is not known: it is taken to be 10s, or the grace period if that is
longer, and with a longer --wait the call waits.

With --json the events are those of fairsem run: granted with tenant, weight and
waited_ms; and stopped or failed, the latter with retry_after_ms if the units would be
granted later.

With --tenant, tenants share the rate fairly: the next unit goes to the tenant that was
granted the fewest per --share in the window, and there to the call that came first. A
tenant is granted at most --tenant-limit units in a window.

The rate belongs to NAME: the one that was declared last applies to all. A name is
either a rate limit or a semaphore of fairsem run. Grants that Redis loses, in a
restart without persistence, are not restored.

Exit code: that of CMD, and 0 without one; 128+n if signal n stopped the wait; 75 if
the units were not granted (-E changes it; with -E 0 only --json reports that), 125 if
fairsem failed itself, as when the server does not answer, 126 if CMD cannot be
executed, 127 if it was not found, 2 for a wrong command line.`,
		Example: `  fairsem limit geocoder 5/s -- curl -fsS https://api.example.com/lisbon
  while read -r id; do fairsem limit geocoder 5/s && ./geocode "$id"; done <ids
  fairsem limit llm 1000/1m --tenant acme --tenant-limit 200 -- ./summarize report.txt
  fairsem limit mails 100/1m --no-wait -E 0 -- ./send-digest`,
		RunE:              ownFailure(o.complete, func(cmd *cobra.Command) error { return o.job.Run(cmd.Context()) }),
		ValidArgsFunction: completeCommand(2),
	}
	o.common.flags(cmd)
	return cmd
}

// complete parses the arguments and refuses invalid combinations of flags.
func (o *limitOptions) complete(cmd *cobra.Command) error {
	words, err := o.common.parseArgs(cmd, "fairsem limit NAME RATE -- CMD", "NAME", "RATE")
	if err != nil {
		return err
	}
	units, window, err := parseRate(words[1])
	if err != nil {
		return err
	}
	if len(o.common.request.Command) > 0 && !run.CanBecome {
		return exit.Usagef("limit needs a Unix system to run a command: leave the command out, and run it after fairsem")
	}
	err = o.common.complete(units, fmt.Sprintf("the %d of RATE", units))
	o.job = run.RateJob{Request: o.common.request, Units: units, Window: window}
	return err
}
