package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/watch"
)

// watchFlags are how a command shows its result: as text or as JSON, once or repeatedly.
type watchFlags struct {
	json     bool
	watch    bool
	interval time.Duration
}

// howWatched is the part of the help that these commands share.
const howWatched = `After --watch has shown a first result, an error of the server does not end it. The
error is shown, in a pipe once on standard error, and polling continues. A server that does
not answer, or refuses connections, counts as an error after 5 s. On a terminal a result
that is out of date shows its age.`

func (w *watchFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.json, "json", false, "write JSON")
	f.BoolVar(&w.watch, "watch", false, "poll until stopped")
	f.DurationVar(&w.interval, "interval", time.Second, "how often --watch polls")
}

// shortestInterval bounds the load of polling, also of top and serve.
const shortestInterval = 100 * time.Millisecond

// check refuses invalid flags.
func (w *watchFlags) check(cmd *cobra.Command) error {
	switch {
	case w.interval < shortestInterval:
		return exit.Usagef("--interval %v is below %v", w.interval, shortestInterval)
	case cmd.Flags().Changed("interval") && !w.watch:
		return exit.Usagef("--interval needs --watch: give both or neither")
	}
	return nil
}

// show shows the result of query about a subject, in the requested way.
func (w *watchFlags) show(cmd *cobra.Command, s *dial.Session, subject string, query watch.Query) error {
	o := watch.Options{Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr(), Below: w.json}
	if w.watch {
		o.Every = w.interval
		o.Title = fmt.Sprintf("%s · %s · every %v", strings.TrimSpace(cmd.CommandPath()+" "+subject), s.Server, w.interval)
	}
	return exit.WithSignal(cmd.Context(), watch.Show(cmd.Context(), o, func(ctx context.Context) (watch.Frame, error) {
		f, err := query(ctx)
		return f, s.Server.WithAddress(err)
	}))
}
