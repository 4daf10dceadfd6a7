package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/watch"
)

type showOptions struct {
	connection connection
	watch      watchFlags
	name       string
	rows       int
}

const usualRows = 50

func newShow() *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the holders and the queue of a semaphore",
		Long: `Shows the limit of NAME, the units in use, the holders and the queue. Each has the label
of its process, host:pid by default; the units; since when, by the clock of the server;
how soon the lease expires unless it is renewed; and the id for fairsem evict. The label
is ? if it cannot be read, if the process has ended, which grants of a rate outlive, or
been silent for long, or if Redis lost its state moments ago. On a terminal the id is
shortened, which evict accepts, and a narrow one omits columns, starting with the token;
elsewhere nothing is cut. Where units have numbers, so have their holders.

If calls name tenants, each has its tenant in a column of its own, which the id then
lacks: --json has the whole id. A table lists the tenants that hold or wait: the units in
use, the share, the limit of the tenant, its waiters, and how long the first of them has
waited. Tenants can contain any bytes: they are written with escapes such as \x1b, and \\
for a backslash, in quotes where a shell needs them, and evict --tenant accepts that. The
tenant '' is that of calls that name none.

With --json it is one JSON object: the fields of fairsem ls, and held_by and queue,
lists of objects with id, label, tenant, token or position, weight, since, held_ms or
waited_ms, and expires_in_ms, in held_by also numbers where units have any; and tenants,
a list of objects with tenant, share, limit, used, holders, waiting and oldest_wait_ms,
or null if they cannot be read. What has an expires_in_ms of 0 has expired: it does not
count, and is removed with the next change of the name.
What is not UTF-8 is also there as id_base64, label_base64 or tenant_base64.
more_holders, more_waiters and more_tenants are how many --rows has left out. With
--watch at most 20,000 tenants are read, or as many as --rows; tenants_unread is true if
there are others.

` + howWatched + `

Exit code: 0; 1 if Redis does not know NAME, which --watch waits for; 2 for a wrong
command line, 125 if the server did not answer, 128+n if signal n stopped it.`,
		Example: `  fairsem show staging
  fairsem show staging --watch
  fairsem show staging --json | jq -r '.held_by[].label'`,
		Args:              oneName,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.complete, o.run),
	}
	o.connection.flags(cmd.Flags())
	o.watch.flags(cmd)
	o.rows = usualRows
	numberFlag(cmd.Flags(), &o.rows, "rows", "", "show at most `N` holders, N waiters and N tenants")
	return cmd
}

func (o *showOptions) complete(cmd *cobra.Command) error {
	o.name = cmd.Flags().Arg(0)
	if o.rows < 1 {
		return exit.Usagef("--rows %d is below 1", o.rows)
	}
	return o.watch.check(cmd)
}

func (o *showOptions) run(cmd *cobra.Command) error {
	s, err := o.connection.open(cmd.Context(), o.name)
	if err != nil {
		return err
	}
	defer s.Close()
	return o.watch.show(cmd, s, o.name, func(ctx context.Context) (watch.Frame, error) { return o.query(ctx, s.Client) })
}

// query queries the name. Only --watch waits for a name that Redis does not know.
func (o *showOptions) query(ctx context.Context, client *fairsem.Client) (f watch.Frame, err error) {
	query := inspect.QueryDetail
	if o.watch.watch {
		query = inspect.PollDetail
	}
	d, err := query(ctx, client, o.name, o.rows)
	switch {
	case err != nil:
		return f, err
	case !d.Exists && !o.watch.watch:
		return f, unknown(o.name, "")
	case !d.Exists:
		return watch.Frame{Text: func(int, int) string { return "" }, Note: fmt.Sprintf("%q is not in use.", o.name)}, nil
	case o.watch.json:
		f.Text = func(int, int) string { return string(text.JSON(render.NewSemaphoreDetail(d))) }
	default:
		f.Text = func(width, _ int) string { return render.Detail(d, width) }
	}
	return f, nil
}

// oneName requires exactly one argument, a name.
func oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("NAME is missing: fairsem %s NAME", cmd.Name())
	case len(args) > 1:
		return exit.Usagef("%q is one argument too many: give one NAME, in quotes if it has a space", args[1])
	}
	return nil
}

// unknown is the error about a name that Redis does not know. The hint says what else can be done.
func unknown(name, hint string) error {
	return &exit.Error{Code: exit.No, Err: fmt.Errorf("no semaphore %q: fairsem ls lists those in use%s", name, hint)}
}
