package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

type evictOptions struct {
	confirming confirming
	selection  change.Selection
	tenant     string
	name       string
}

func newEvict() *cobra.Command {
	var o evictOptions
	cmd := &cobra.Command{
		Use:   "evict NAME {ID... | --label PATTERN | --tenant TENANT | --all}",
		Short: "Revoke permits or remove waiters",
		Long: `Revokes permits of NAME and removes waiters from its queue. ID selects one, as fairsem
show lists it; an unambiguous beginning of the part before the colon is enough, and the
part after the colon may be left out. --label selects those of the processes whose label
PATTERN matches (* is any text, ? a character, [a-z] one of some, \* the character *),
--tenant those of a tenant ('' for calls that name none), and --all all. The units are
granted to others at once. The holder is notified moments later by the loss of its permit:
fairsem run ends its command, and a program that ignores the loss continues. An
evicted caller may acquire again: to prevent that, use fairsem pause. Of a rate limit
grants are removed, and their units can be granted again in the same window.

Lists what it will evict and the present state, and asks. --yes does not ask, and is
needed where there is no terminal. If a waiter was selected by ID and was granted its
permit before the yes, nothing is evicted. With --json the result is one object:
changed; before and after, as in fairsem ls --json; evicted_holders and
evicted_waiters, with the fields of held_by and queue of fairsem show --json; and
gone, the ids that were released meanwhile.

IDs and tenants can contain any bytes. Both are accepted as fairsem writes them, with
escapes such as \x1b, which fairsem show puts in quotes for a shell. If that is also
the text of another tenant, nothing is evicted: then give ids.

Exit code: 0; 1, and nothing was changed, if the answer was no or came too late,
Redis does not know NAME, a selected id, label or tenant is not there, or with --all
there is no holder and no waiter; 2 for a wrong command line, 125 if the server did
not answer, or if with --label a label cannot be read, and then nothing is evicted;
128+n if signal n stopped it.`,
		Example: `  fairsem evict staging k3X-9Q:1    # or k3X, if no other id begins so
  fairsem evict staging --label 'build-7:*'
  fairsem evict render --tenant acme
  fairsem evict staging --all --yes`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeIDs,
		RunE: ownFailure(o.complete, func(cmd *cobra.Command) error {
			return o.confirming.change(cmd, o.name, func(ctx context.Context, d change.Target) error {
				return d.Evict(ctx, o.selection)
			})
		}),
	}
	o.confirming.flags(cmd)
	cmd.Flags().StringVar(&o.selection.Label, "label", "", "evict all holders and waiters whose label `PATTERN` matches")
	cmd.Flags().StringVar(&o.tenant, "tenant", "", "evict all holders and waiters of `TENANT`")
	cmd.Flags().BoolVar(&o.selection.All, "all", false, "evict all present holders and waiters")
	return cmd
}

func (o *evictOptions) complete(cmd *cobra.Command) error {
	args := cmd.Flags().Args()
	if len(args) == 0 {
		return exit.Usagef("NAME is missing: fairsem evict NAME ID")
	}
	o.name, o.selection.IDs = args[0], args[1:]
	if cmd.Flags().Changed("tenant") {
		o.selection.Tenant = &o.tenant
	}
	ways := 0
	for _, way := range []bool{len(o.selection.IDs) > 0, cmd.Flags().Changed("label"), o.selection.Tenant != nil, o.selection.All} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return exit.Usagef("give exactly one of ids, --label, --tenant and --all: fairsem show lists the ids")
	}
	if err := o.selection.Check(); err != nil {
		return exit.Usagef("%w", err)
	}
	return nil
}
