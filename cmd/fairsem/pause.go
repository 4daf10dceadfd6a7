package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
)

type pauseOptions struct {
	resizeOptions
	wait time.Duration
}

func newPause() *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Let nobody in until it is resumed",
		Long: `Lets nobody get a permit of NAME any more, whatever limit processes declare, until
fairsem resume or fairsem resize. Who holds keeps what it has and gives it back
as usual; who waits waits on, and who comes gets in line. With --wait, or at most
so long with --wait=5m, it ends when nobody holds anything any more.

A pause is a limit of 0 that is pinned, so it takes the place of a limit that was
pinned before by fairsem resize. Resume does not bring that one back: it lets the
declared limit hold. To end the pause with the other, resize to it.

Says what it will do and how things are now, and asks; --yes does not ask, and is
needed where there is no terminal. With --json the result is one object: changed,
and before and after, which are what fairsem ls --json tells of a name.

Exit code: 0 if it is paused now; 1 if the answer was no, or Redis does not know
NAME, which may be a typo (--new pauses it all the same); 2 for a wrong command
line; 75 if somebody still held when --wait was over, and it stays paused; 125 if the
server did not answer, 128+n if signal n stopped it, which ends no pause.`,
		Example: `  fairsem pause staging
  fairsem pause staging --yes --wait=10m && ./migrate; fairsem resume staging --yes`,
		Args:              oneName,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.run),
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.fresh, "new", false, "even if Redis does not know NAME")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "wait until nobody holds any more, with =`DURATION` for at most so long")
	cmd.Flags().Lookup("wait").NoOptDefVal = "0s"
	return cmd
}

func (o *pauseOptions) run(cmd *cobra.Command) error {
	if o.wait < 0 {
		return usage("--wait cannot be negative")
	}
	return o.change(cmd, cmd.Flags().Arg(0), func(ctx context.Context, d change.Desk) error {
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
		Short: "Let the declared limit hold again, after pause or resize",
		Long: `Takes away the limit of NAME that fairsem pause or fairsem resize has pinned, so
that the one holds again that the latest process has declared. Who waits gets in
at once if there is room. A name that has no pinned limit is left as it is.

Says what it will do and how things are now, and asks; --yes does not ask, and is
needed where there is no terminal. With --json the result is one object: changed,
and before and after, which are what fairsem ls --json tells of a name.

Exit code: 0 if the declared limit holds now; 1 if the answer was no, or Redis
does not know NAME; 2 for a wrong command line, 125 if the server did not answer,
128+n if signal n stopped it.`,
		Example: `  fairsem resume staging
  fairsem resume staging --yes --json | jq .after.limit`,
		Args:              oneName,
		ValidArgsFunction: completeNames,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			return o.change(cmd, cmd.Flags().Arg(0), func(ctx context.Context, d change.Desk) error {
				return d.Resume(ctx)
			})
		}),
	}
	o.flags(cmd)
	return cmd
}
