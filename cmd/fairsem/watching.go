package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/frames"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// watching is how a command shows what it finds: as text or as JSON, once or again and again.
type watching struct {
	json     bool
	watch    bool
	interval time.Duration
}

func (w *watching) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&w.json, "json", false, "write JSON")
	f.BoolVar(&w.watch, "watch", false, "poll until stopped")
	f.DurationVar(&w.interval, "interval", time.Second, "how often --watch polls")
}

// shortestInterval bounds the load of polling, also of top and serve.
const shortestInterval = 100 * time.Millisecond

func (w *watching) check(cmd *cobra.Command) error {
	switch {
	case w.interval < shortestInterval:
		return exit.Usagef("--interval %v is below %v", w.interval, shortestInterval)
	case cmd.Flags().Changed("interval") && !w.watch:
		return exit.Usagef("--interval needs --watch: give both or neither")
	}
	return nil
}

// show shows what find finds, in the requested way.
func (w *watching) show(cmd *cobra.Command, s *dial.Session, what string, find frames.Query) error {
	look := func(ctx context.Context) (frames.Frame, error) {
		f, err := find(ctx)
		return f, s.Server.WithAddress(err)
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	width, terminal := frames.Width(out)
	paper := frames.Output{Out: &colorprofile.Writer{Forward: out, Profile: text.Profile(out)}, Notes: cmd.ErrOrStderr(), Width: width}
	var err error
	switch {
	case !w.watch:
		err = paper.Once(ctx, look)
	case w.json || !terminal || text.Profile(out) == colorprofile.NoTTY:
		err = paper.Repeat(ctx, w.interval, look)
	default:
		title := fmt.Sprintf("%s · %s · every %v · q quits", strings.TrimSpace(cmd.CommandPath()+" "+what), s.Server, w.interval)
		err = inPlace(ctx, out, title, w.interval, look)
	}
	return withSignal(ctx, err)
}

func inPlace(ctx context.Context, out io.Writer, title string, every time.Duration, look frames.Query) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := frames.Live{Out: out, Profile: text.Profile(out), Title: text.Clean(title)}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		l.In = os.Stdin
	}
	return l.Repeat(ctx, every, look, func() { cancel(exit.Signal{Signal: syscall.SIGINT}) })
}

// withSignal gives an error its exit code: that of a signal, if one came, whatever else failed.
func withSignal(ctx context.Context, err error) error {
	var stop exit.Signal
	if err != nil && errors.As(context.Cause(ctx), &stop) {
		return stop
	}
	return exit.Invalid(err)
}
