package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/show"
)

type showOptions struct {
	connection connection
	watching   watching
	show       show.Show
}

const usualRows = 50

func newShow() *cobra.Command {
	var o showOptions
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the holders and the queue of a semaphore",
		Long: `Shows the limit of NAME, the units in use, the holders and the queue. Each has the
label of its process (host:pid unless the process sets another), the units, since
when by the clock of the server, how soon the lease expires unless it is renewed, and
the id for fairsem evict. On a terminal the id is shortened, which evict accepts;
elsewhere nothing is cut.

With --json it is one JSON object: the fields of fairsem ls, and held_by and queue,
lists of objects with id, label, token or position, weight, since, held_ms or
waited_ms, and expires_in_ms; also id_base64 if the id is not UTF-8. more_holders
and more_waiters are how many --rows has left out.

After --watch has shown a first result, an error of the server does not end it. The
error is shown, in a pipe once on standard error, and polling continues.

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
	o.watching.flags(cmd)
	cmd.Flags().IntVar(&o.show.Rows, "rows", usualRows, "show at most `N` holders, and N waiters")
	return cmd
}

func (o *showOptions) complete(cmd *cobra.Command) error {
	o.show.Name, o.show.JSON = cmd.Flags().Arg(0), o.watching.json
	if !o.watching.watch {
		o.show.Absent = unknown(o.show.Name)
	}
	if o.show.Rows < 1 {
		return exit.Usagef("--rows %d is below 1", o.show.Rows)
	}
	return o.watching.check(cmd)
}

func (o *showOptions) run(cmd *cobra.Command) error {
	s, err := o.connection.open(cmd.Context(), o.show.Name)
	if err != nil {
		return err
	}
	defer s.Close()
	o.show.Client = s.Client
	return o.watching.show(cmd, s, o.show.Name, o.show.Look)
}

// oneName wants a name and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usagef("NAME is missing: fairsem %s NAME", cmd.Name())
	case len(args) > 1:
		return exit.Usagef("%q is one argument too many: give one NAME, in quotes if it has a space", args[1])
	}
	return nil
}

func unknown(name string) error {
	return &exit.Error{Code: exit.No, Err: fmt.Errorf("no semaphore %q: fairsem ls lists those in use", name)}
}
