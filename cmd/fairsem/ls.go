package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/watch"
)

type lsOptions struct {
	connection connection
	watch      watchFlags
	pattern    string
	busy       bool
}

func newLs() *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the semaphores that are in use",
		Long: `Lists the names that are in use, were in use within half a minute or so (or their TTL
or window, if that is longer), or have a limit that was set by hand. With PATTERN it
lists only the names that match: * stands for any text, ? for a character, [a-z] for
one of some, and \* for the character *. Each row has the units in use and the limit,
the number of waiters, how long the first of them has waited (with its head start), how
many permits expired before they were released, and whether the name is paused, pinned
(its limit was set by hand) or a rate limit.

On a terminal long names are cut and a bar shows the use; a narrow one omits columns,
starting with the bar. Elsewhere nothing is cut, the limit has its own column, a space in a
name is written \x20, and the notes are one word such as paused,rate:20/1s, or -, so
that each row has the same columns for awk. Unprintable characters are escapes such as
\x1b, and a backslash is \\, so no two names look the same; but other commands take a
name as it is, which scripts get from --json.

A name without *, ? or [ is queried directly, and a \ in it is just a character.
Otherwise all keys of the server are scanned, in a tenth of its time: 10 to 20 s for
a million keys of any program. With --watch that happens once; new names are then
found in 2 % of its time.

If no name has this prefix, other prefixes are listed on standard error: it scans
keys for at most two seconds to find them.

With --json there is one JSON object a line for each name: time, name, limit,
declared, pinned, paused, used, holders, waiting, oldest_wait_ms, expected_wait_ms
(of a call that comes now, if it is first come, first served; null if not known),
next_expiry_ms, window_ms (of a rate), granted and expired; also name_base64 if the
name is not UTF-8. Where tenants share a name, the wait depends on whose call it is:
fairsem show has null there.

` + howWatched + ` If a primary
of a cluster does not answer, the names on the others are shown.

Exit code: 0, also if nothing is in use; 2 for a wrong command line, 125 if the
server did not answer or some name could not be read (the others are shown), 128+n
if signal n stopped it.`,
		Example: `  fairsem ls
  fairsem ls 'deploy-*' --watch
  fairsem ls | awk 'NR > 1 && $4 > 100 { print $1 }' # names with a long queue
  fairsem ls --json | jq -r 'select(.paused) | .name'`,
		Args:              onePattern,
		ValidArgsFunction: completeNames,
		RunE:              ownFailure(o.complete, o.run),
	}
	o.connection.flags(cmd.Flags())
	o.watch.flags(cmd)
	cmd.Flags().BoolVar(&o.busy, "busy", false, "only names with a holder or a waiter")
	return cmd
}

func (o *lsOptions) complete(cmd *cobra.Command) (err error) {
	if o.pattern, err = parsePattern(cmd.Flags().Args()); err != nil {
		return err
	}
	return o.watch.check(cmd)
}

func (o *lsOptions) run(cmd *cobra.Command) error {
	s, err := o.connection.open(cmd.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	search := inspect.NewSearch(s.Client, o.pattern)
	if o.watch.watch {
		defer search.Follow(cmd.Context(), o.watch.interval)()
	}
	hints := o.hints(cmd)
	defer o.explain(cmd)()
	return o.watch.show(cmd, s, o.pattern, func(ctx context.Context) (watch.Frame, error) {
		found, err := search.Query(ctx)
		if err != nil {
			return watch.Frame{}, err
		}
		f := o.frame(found)
		if hints && len(found.Statuses) == 0 && f.Err == nil && !found.Excluded {
			others := inspect.OtherPrefixes(ctx, s.Redis, o.connection.keys())
			if stopped := context.Cause(ctx); stopped != nil {
				return watch.Frame{}, stopped
			}
			if len(others) > 0 {
				f.Note = fmt.Sprintf("Nothing to show with the prefix %s; %s.", text.Brief(o.connection.keys()), render.Elsewhere(others))
			}
		}
		return f, nil
	})
}

// frame shows the result of a survey.
func (o *lsOptions) frame(found inspect.Survey) (f watch.Frame) {
	all := found.Statuses
	if o.busy {
		all = slices.DeleteFunc(all, func(s fairsem.Status) bool { return !inspect.Busy(s) })
	}
	f.Text = func(width, height int) string {
		switch {
		case o.watch.json:
			return render.ListJSON(all)
		case width > 0 && height > 0: // the screen would cut off more rows
			return render.List(all[:min(len(all), height)], width)
		}
		return render.List(all, width)
	}
	f.Err = incomplete(found)
	switch {
	case len(all) > 0 || f.Err != nil:
	case o.busy:
		f.Note = "No name has a holder or a waiter."
	case o.pattern != "":
		f.Note = fmt.Sprintf("No name in use matches %q.", o.pattern)
	default:
		f.Note = "Nothing is in use: `fairsem demo` shows an example."
	}
	return f
}

// incomplete returns why a survey is incomplete; nil: it is complete.
func incomplete(found inspect.Survey) error {
	var err error
	switch more := len(found.Unreadable) - 1; {
	case more < 0:
		return found.Missing
	case more == 0:
		err = found.Unreadable[0]
	default:
		err = fmt.Errorf("%w; and %d more cannot be read", found.Unreadable[0], more)
	}
	if found.Missing != nil {
		err = fmt.Errorf("%w; %w", err, found.Missing)
	}
	return err
}

// hints reports whether to search for other prefixes if nothing is found: not repeatedly, and for a single name, which
// needs no scan, only on a terminal.
func (o *lsOptions) hints(cmd *cobra.Command) bool {
	_, people := screen.Width(cmd.ErrOrStderr())
	return !o.watch.watch && (people || !inspect.Exact(o.pattern))
}

// longScan is when people wonder whether it works.
const longScan = 5 * time.Second

// explain reports a scan that takes long, until the returned function is called. For a single name there is none.
func (o *lsOptions) explain(cmd *cobra.Command) (stop func()) {
	if o.watch.watch || inspect.Exact(o.pattern) {
		return func() {}
	}
	said := make(chan struct{})
	timer := time.AfterFunc(longScan, func() {
		defer close(said)
		// Only for people.
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "fairsem: still scanning the keys of the server, in a tenth of its time; a NAME without * is found at once")
	})
	return func() {
		if !timer.Stop() {
			<-said
		}
	}
}
