// Package top draws all semaphores on a terminal, live, with keys to open a name and to change limits. The screen is a
// function of the answers, the keys and the time that came as messages; all I/O is done by commands, beside it.
package top

import (
	"cmp"
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// Options are all that Run needs.
type Options struct {
	Client   *fairsem.Client
	Address  string        // of the server, for people
	Pattern  string        // that names have to match; "": any
	Busy     bool          // leave out names without holders and waiters
	Interval time.Duration // between queries
	Sort     string        // one of Orders
	ReadOnly bool          // nothing can be changed
	Terminal io.Writer     // to draw on
}

// Run draws until the user quits, or ctx ends: then its error is the cause. The terminal is restored, also after a panic.
func Run(ctx context.Context, o Options) error {
	names := inspect.NewFinder(o.Client, inspect.Matcher(o.Pattern), 0, o.Interval)
	defer names.Start(ctx)()
	asking, cancel := context.WithCancel(ctx)
	defer cancel() // ends queries in flight when the user quits
	_, err := program(ctx, newModel(asking, &server{o.Client, names}, o), o).Run()
	return cmp.Or(context.Cause(ctx), err)
}

func program(ctx context.Context, m tea.Model, o Options) *tea.Program {
	return screen.Program(m, o.Terminal, tea.WithContext(ctx))
}
