package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
)

type evictOptions struct {
	confirming
	victims change.Victims
	name    string
}

func newEvict() *cobra.Command {
	var o evictOptions
	cmd := &cobra.Command{
		Use:   "evict NAME {ID... | --label PATTERN | --all}",
		Short: "Take permits or places in line away",
		Long: `Takes permits of NAME, or places in its line, away from whoever has them: those
with an ID that fairsem show tells, of which any beginning will do that means no
other, those of the processes whose label PATTERN
matches (* is any text, ? a character, [a-z] one of some), or all that are there
now. Their units are granted to others at once. Who held them is told in moments,
by the loss of the permit: a command of fairsem run is ended; what does not heed
it goes on. Nobody is kept from coming back: fairsem pause does that.

Says whom it will evict and how things are now, and asks; --yes does not ask, and
is needed where there is no terminal. A yes is refused if one whose ID was given
waited when it was asked about, and was let in since. With --json the result is
one object: changed, before and after, which are what fairsem ls --json tells of a
name, evicted_holders and evicted_waiters, which are like held_by and line of
fairsem show --json, and gone, the ids that were given back meanwhile.

Exit code: 0; 1, and nothing was changed, if the answer was no or came too late,
Redis does not know NAME, or one of those to be evicted is not there; 2 for a wrong
command line, 125 if the server did not answer, 128+n if signal n stopped it.`,
		Example: `  fairsem evict staging 63bc9390:1    # or 63b, if no other begins so
  fairsem evict staging --label 'build-7:*'
  fairsem evict staging --all --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeIDs,
		RunE: ownFailure(o.complete, func(cmd *cobra.Command) error {
			return o.change(cmd, o.name, func(ctx context.Context, d change.Desk) error {
				return d.Evict(ctx, o.victims)
			})
		}),
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.victims.Label, "label", "", "evict everybody whose label `PATTERN` matches")
	cmd.Flags().BoolVar(&o.victims.All, "all", false, "evict everybody who holds or waits now")
	return cmd
}

func (o *evictOptions) complete(cmd *cobra.Command) error {
	args := cmd.Flags().Args()
	if len(args) == 0 {
		return usage("NAME is missing: fairsem evict NAME ID")
	}
	o.name, o.victims.IDs = args[0], args[1:]
	ways := 0
	for _, way := range []bool{len(o.victims.IDs) > 0, cmd.Flags().Changed("label"), o.victims.All} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return usage("say whom to evict: give either ids, which fairsem show tells, or --label, or --all")
	}
	if err := o.victims.Check(); err != nil {
		return usage("%w", err)
	}
	return nil
}
