package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

func newResize() *cobra.Command {
	var o confirming
	var fresh bool
	var limit int64
	cmd := &cobra.Command{
		Use:   "resize NAME LIMIT",
		Short: "Set a limit for all callers until resume",
		Long: `Sets the limit of NAME by hand: it applies to all callers, whatever limit processes
declare, until fairsem resume or another resize. A higher limit grants waiters at
once. A lower limit revokes nothing: no permit is granted until enough units are
released, and a waiter that wants more units than the new limit fails when it
reaches the head of the queue.

` + howConfirmed + `

Exit code: 0 if the limit is set to that now; 1 if the answer was no, or Redis
does not know NAME, which may be a typo (--new sets it all the same); 2 for a
wrong command line, 125 if the server did not answer, 128+n if signal n stopped it.`,
		Example: `  fairsem resize staging 5
  fairsem resize staging 5 --yes
  fairsem resume staging                     # the limit that the programs declare`,
		Args: func(_ *cobra.Command, args []string) (err error) {
			limit, err = parseLimit(args)
			return err
		},
		ValidArgsFunction: completeNames,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			return o.change(cmd, cmd.Flags().Arg(0), func(ctx context.Context, d change.Target) error {
				return d.Resize(ctx, limit, fresh)
			})
		}),
	}
	o.flags(cmd)
	cmd.SetFlagErrorFunc(wrongLimit)
	cmd.Flags().BoolVar(&fresh, "new", false, "even if Redis does not know NAME")
	return cmd
}

// wrongLimit is wrongFlag for a command whose LIMIT, if it is below 0, looks like a flag.
func wrongLimit(cmd *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		if limit, bad := strconv.ParseUint(unknown.GetSpecifiedShortnames(), 10, 64); bad == nil {
			return exit.Usagef("LIMIT -%d is below 1", limit)
		}
	}
	return wrongFlag(asArgument)(cmd, err)
}

// parseLimit returns LIMIT, the second of two arguments.
func parseLimit(args []string) (int64, error) {
	switch {
	case len(args) < 2:
		return 0, exit.Usagef("NAME or LIMIT is missing: fairsem resize NAME LIMIT")
	case len(args) > 2:
		return 0, exit.Usagef("%q is one argument too many: give NAME and LIMIT, NAME in quotes if it has a space", args[2])
	}
	limit, err := change.ParseLimit(args[1])
	switch {
	case err != nil:
		return 0, exit.Usagef("LIMIT %v", err)
	case limit == 0:
		return 0, exit.Usagef("LIMIT 0 would stop all grants: use fairsem pause for that")
	}
	return limit, nil
}
