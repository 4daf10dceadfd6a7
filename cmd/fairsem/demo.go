package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/demo"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// demoEnd is the end of the help of every demo.
const demoEnd = `The server is embedded, on a free port of 127.0.0.1, unless --redis names another.
What the demo writes there expires within half a minute of its end.

Exit code: 0 if every promise held, 1 if one was broken, 2 for a wrong command
line, 125 if the demo could not run, 128+n if signal n stopped it.`

func newDemo() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch processes share a limit, and what happens when one is killed",
		Long: fmt.Sprintf(`Starts %d processes that share %d units of one semaphore, shows holders and waiters,
kills one holder, and checks what the library promises. It takes about 10 seconds. On
a terminal it is a picture in which waiters move up the queue; elsewhere it is a log.

With --json nothing but the result is written, as one JSON object: held, whether every
promise was kept; name, server, workers, limit, took_ms; events, with after_ms and text;
promises, with promise, held, found and, for a broken one, violations.

%s`, demo.Workers, demo.Limit, demoEnd),
		Example: `  fairsem demo
  fairsem demo --redis redis://user:password@localhost:6379/0
  fairsem demo | tee log      # no terminal: one line for every change
  fairsem demo tenants        # a noisy customer beside a quiet one
  fairsem demo --json | jq .held`,
		Args: cobra.NoArgs,
		RunE: demoRun(&o, demo.Run),
	}
	demoFlags(cmd, &o)
	cmd.AddCommand(newDemoTenants())
	return cmd
}

func newDemoTenants() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "tenants",
		Short: "Watch a customer with a long queue beside one with a job now and then",
		Long: fmt.Sprintf(`Two customers share %d units, on two semaphores at the same time and with the same load: one
has a long queue of jobs, the other a short job now and then. On one semaphore calls name
their customer as the tenant, on the other they do not: how long the quiet customer waits
is shown side by side, and what the library promises is checked. It takes about 10 seconds.

With --json nothing but the result is written, as one JSON object: held, whether every
promise was kept; server, limit, took_ms; sides, with name, tenants, quiet and noisy, each
of these with jobs, median_wait_ms and longest_wait_ms; promises, as of fairsem demo.

%s`, demo.Limit, demoEnd),
		Example: `  fairsem demo tenants
  fairsem demo tenants --json | jq '.sides[] | {tenants, quiet}'`,
		Args: cobra.NoArgs,
		RunE: demoRun(&o, demo.RunTenants),
	}
	demoFlags(cmd, &o)
	return cmd
}

func demoFlags(cmd *cobra.Command, o *demo.Options) {
	textFlag(cmd.Flags(), &o.Redis, "redis", "`URL` of a server to use: redis, rediss, unix, cluster or sentinel")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "write nothing but the result, as JSON")
	cmd.Flags().DurationVar(&o.Length, "for", demo.Length, "how long it takes, at least")
	_ = cmd.Flags().MarkHidden("for") // fails only for a flag that is not there
}

// demoRun returns the function that runs a demo with the options that the flags have set.
func demoRun(o *demo.Options, run func(context.Context, io.Writer, demo.Options) error) func(*cobra.Command, []string) error {
	return ownFailure(func(cmd *cobra.Command) error {
		if o.Length < 0 {
			return exit.Usagef("--for is negative")
		}
		o.Prefix = new(connection).keys()
		ctx, cancel := context.WithCancelCause(cmd.Context())
		defer cancel(nil)
		o.Interrupt = func() { cancel(exit.CtrlC) }
		return run(ctx, cmd.OutOrStdout(), *o)
	})
}

func newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    demo.WorkerVerb,
		Short:  "One worker of the demo, started by it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			// Ctrl-C and Ctrl-\ reach all processes of a terminal. The demo stops its workers itself, in order.
			signal.Ignore(os.Interrupt, syscall.SIGHUP, syscall.SIGQUIT)
			return demo.Work(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		}),
	}
}
