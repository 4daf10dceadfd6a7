package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/top"
)

type topOptions struct {
	connection connection
	view       top.Options
	json       bool
}

func newTop() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Watch all semaphores live, and change them",
		Long: `Shows the names that are in use, or those that PATTERN matches, in which * stands
for any text, ? for a character, [a-z] for one of some, and \* for the character *:
units in use and the limit, the number of waiters and the longest wait, grants a
second, and expired permits. In a PATTERN without *, ? or [ a \ is just a character.
Enter opens a name with its holders and its queue. If calls name tenants, t shows the
tenants there, and Enter the holders and waiters of one of them. Keys sort, filter,
resize, pause, resume and evict. Before a change, top shows what it does and asks. A
waiter that is granted its permit before the yes is not evicted. The key ? lists all
keys.

New names are found by a scan of all keys of the server, in at most 2 % of its time:
a minute or so for a million keys. Until the first scan is over, top says so.

If the server does not answer, the last picture stays, marked with its age and, after
5 s without an answer, the error, and polling continues. Where a poll takes long, top
polls less often.

Exit code: 0 when it was ended with q or ctrl-c; 2 for a wrong command line or
without a terminal, 125 if there is no server when it starts, 128+n if signal n
stopped it.`,
		Example: `  fairsem top
  fairsem top 'deploy-*' --sort expired --interval 5s
  fairsem top --read-only --redis rediss://observer:secret@redis.example.com:6379`,
		Args:              onePattern,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.complete, o.run),
	}
	o.flags(cmd)
	return cmd
}

func (o *topOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.connection.writerFlags(f)
	f.DurationVar(&o.view.Interval, "interval", time.Second, "time between polls, at least 100ms")
	f.StringVar(&o.view.Sort, "sort", "waiting", "initial sort `COLUMN`: "+strings.Join(top.Orders(), ", "))
	f.BoolVar(&o.view.Busy, "busy", false, "only names with a holder or a waiter")
	f.BoolVar(&o.view.ReadOnly, "read-only", false, "disable the keys that change something")
	f.BoolVar(&o.json, "json", false, "")
	_ = f.MarkHidden("json") // it exists only to name the alternative
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(top.Orders(), cobra.ShellCompDirectiveNoFileComp))
}

// complete refuses invalid flags.
func (o *topOptions) complete(cmd *cobra.Command) error {
	var err error
	switch {
	case o.json:
		return exit.Usagef("top has no --json: use fairsem ls --json --watch")
	case o.view.Interval < shortestInterval:
		return exit.Usagef("--interval %v is below %v", o.view.Interval, shortestInterval)
	case !slices.Contains(top.Orders(), o.view.Sort):
		return exit.Usagef("--sort %q is not a column: give one of %s", o.view.Sort, strings.Join(top.Orders(), ", "))
	}
	if o.view.Pattern, err = parsePattern(cmd.Flags().Args()); err != nil {
		return err
	}
	if _, err = o.connection.server(); err != nil {
		return err
	}
	o.view.Terminal = cmd.OutOrStdout()
	return checkTerminal(o.view.Terminal)
}

// checkTerminal refuses what top cannot draw on, or get keys from.
func checkTerminal(out io.Writer) error {
	_, terminal := screen.Width(out)
	switch {
	case !terminal || !screen.Keyboard():
		return exit.Usagef("top needs a terminal; use fairsem ls --watch")
	case !screen.CanDraw(out) || os.Getenv("TERM") == "dumb":
		return exit.Usagef("top needs a terminal that is not dumb, and TERM is %q; use fairsem ls --watch", os.Getenv("TERM"))
	}
	return nil
}

func (o *topOptions) run(cmd *cobra.Command) error {
	s, err := o.connection.open(cmd.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	o.view.Client, o.view.Address = s.Client, s.Server.String()
	return top.Run(cmd.Context(), o.view)
}
