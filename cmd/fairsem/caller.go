package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
)

// caller is a command that asks for units: it listens to signals while it waits, and reports what happens.
type caller struct {
	waiting
	signals <-chan os.Signal
	journal *journal

	target   *dial.Server
	queue    *fairsem.Inspector     // of the name
	ownLabel string                 // the label, if it is the only one of its kind
	waitID   atomic.Pointer[string] // the id under which it waits; nil: it does not yet
}

// observe notes the id of a call that waits, which only events have.
func (c *caller) observe(e fairsem.Event) {
	if e, ok := e.(fairsem.WaitStartedEvent); ok {
		c.waitID.Store(&e.ID)
	}
}

// catch has the signals that are for CMD sent to a channel until stop is called. The channel keeps a signal that comes
// between two phases. One that came before it has ended the context of the command.
func catch() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	notify(signals, forwarded...)
	// A write to a closed pipe must not end this process, and with it CMD. It is never reset, because the last messages
	// come after this.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals) }
}

// journalled runs f with a journal that ends with it.
func (w *waiting) journalled(f func(*journal) error) error {
	j := newJournal(os.Stderr, w)
	defer j.close()
	return j.conclude(f(j))
}

// connect runs use with a client whose permits and positions in the queue expire after ttl without a renewal.
func (c *caller) connect(ttl time.Duration, use func(*fairsem.Client) error) (err error) {
	if c.target, err = c.server(); err != nil {
		return err
	}
	rdb := c.target.Client()
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: c.keys(), TTL: ttl, Label: c.labelled(), Observer: c.observe})
	if err != nil {
		return asUsage(err)
	}
	defer closeClient(client)
	return asUsage(use(client))
}

// untilSignal runs f and ends its context with the first signal, which is then the error. ctx may have
// ended with one before.
func (c *caller) untilSignal(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }() // ends with ctx; waited for below
	for {
		select {
		case s := <-c.signals:
			cancel(signalled{s})
		case err := <-done:
			var stop signalled
			if errors.As(context.Cause(ctx), &stop) {
				return stop
			}
			return err
		}
	}
}

// promptly runs ask for a caller that does not wait in the queue. It does not wait for the server either, however long
// the TTL.
func promptly(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTTL)
	defer cancel()
	err := ask(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer for %v", fairsem.ErrUnavailable, inspectTTL)
	}
	return err
}

// longestLabel is what Options.Label takes.
const longestLabel = 256

// labelled is the label for the client. Where the position in the queue is shown it needs one of its own kind.
func (c *caller) labelled() string {
	host, _ := os.Hostname() // a machine without a name is ":pid"
	label := cmp.Or(c.label, fmt.Sprintf("%s:%d", host, os.Getpid()))
	if !c.journal.json && !c.quiet && term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb" {
		mark := "#" + uuid.NewString()[:8]
		c.ownLabel = label[:min(len(label), longestLabel-len(mark))] + mark
		return c.ownLabel
	}
	return label
}

const closeLimit = 2 * time.Second

// closeClient closes the client, which leaves every queue, but does not wait for it longer than closeLimit.
func closeClient(client *fairsem.Client) {
	closed := make(chan struct{})
	go func() { // ends soon where Redis answers, else with the process
		_ = client.Close() // what is not released expires
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
	}
}

// asUsage makes errors of arguments those of the command line.
func asUsage(err error) error {
	if errors.Is(err, fairsem.ErrInvalid) {
		return &failure{exitUsage, err}
	}
	return err
}

// findCommand finds the command before the call joins the queue.
func findCommand(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotStart(command, err)
	}
	return path, nil
}

func cannotStart(command string, err error) error {
	code := exitCannotExec
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNotFound
	}
	var detail *exec.Error
	if errors.As(err, &detail) {
		err = detail.Err
	}
	return &failure{code, fmt.Errorf("cannot run %q: %w", command, err)}
}
