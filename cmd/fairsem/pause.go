package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

type pauseOptions struct {
	confirming confirming
	fresh      bool
	wait       time.Duration
}

func newPause() *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop all grants until resume",
		Long: `Stops all grants of NAME, whatever limit processes declare, until fairsem resume or
fairsem resize. Holders keep their permits and release them as usual. Waiters stay in
the queue, and new calls join it. With --wait it returns when no permit is held any
more; --wait=5m bounds that wait. Nothing holds the grants of a rate, so there --wait
returns at once.

A pause is a limit of 0 that is set by hand. It replaces a limit that fairsem resize
has set, and fairsem resume does not restore that one: it restores the declared
limit. To end the pause with another limit, use fairsem resize.

` + howConfirmed + `

Exit code: 0 if it is paused now; 1 if the answer was no, if the pause was ended
before --wait was over, or if Redis does not know NAME, which may be a typo (--new
pauses it all the same); 2 for a wrong command line; 75 if permits were still held
when --wait was over, and it stays paused; 125 if the server did not answer, which can
be after the pause; 128+n if signal n stopped it, which ends no pause.`,
		Example: `  fairsem pause staging
  fairsem pause staging --yes --wait=10m && ./migrate; fairsem resume staging --yes`,
		Args:              o.nameOnly,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.run),
	}
	o.confirming.flags(cmd)
	cmd.Flags().BoolVar(&o.fresh, "new", false, "even if Redis does not know NAME")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "wait until no permit is held, with =`DURATION` for at most that long")
	cmd.Flags().Lookup("wait").NoOptDefVal = "0s"
	return cmd
}

// nameOnly is oneName, which says how to write a bound of --wait: after a space it is an argument of its own.
func (o *pauseOptions) nameOnly(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if _, err := time.ParseDuration(arg); err == nil && len(args) > 1 && cmd.Flags().Changed("wait") {
			return exit.Usagef("%q is one argument too many: write --wait=%s to wait for that long", arg, arg)
		}
	}
	return oneName(cmd, args)
}

func (o *pauseOptions) run(cmd *cobra.Command) error {
	if o.wait < 0 {
		return exit.Usagef("--wait cannot be negative")
	}
	return o.confirming.change(cmd, cmd.Flags().Arg(0), func(ctx context.Context, d change.Target) error {
		if !cmd.Flags().Changed("wait") {
			return d.Pause(ctx, o.fresh, nil)
		}
		return d.Pause(ctx, o.fresh, func(ctx context.Context) error { return d.Drained(ctx, o.wait) })
	})
}

func newResume() *cobra.Command {
	var o confirming
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Restore the declared limit after pause or resize",
		Long: `Removes the limit of NAME that fairsem pause or fairsem resize has set, so that the
limit applies that a process declared last. Waiters are granted their permits at
once if there is room. A name without such a limit is left as it is.

` + howConfirmed + `

Exit code: 0 if the declared limit applies now; 1 if the answer was no, or Redis
does not know NAME; 2 for a wrong command line, 125 if the server did not answer,
128+n if signal n stopped it.`,
		Example: `  fairsem resume staging
  fairsem resume staging --yes --json | jq .after.limit`,
		Args:              oneName,
		ValidArgsFunction: completeNames,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			return o.change(cmd, cmd.Flags().Arg(0), func(ctx context.Context, d change.Target) error {
				return d.Resume(ctx)
			})
		}),
	}
	o.flags(cmd)
	return cmd
}
