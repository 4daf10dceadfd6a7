package run

import (
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

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
)

// waiter is a request in the queue: it listens to signals and reports what happens.
type waiter struct {
	request *Request
	signals <-chan os.Signal
	journal *journal

	inspector *fairsem.Inspector     // of the name
	ticketID  atomic.Pointer[string] // nil before the call waits
}

// catch sends the signals that are for the command to a channel until stop is called. The channel keeps a signal that
// comes between two phases. One that came before catch has ended the context of the command.
func catch() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	exit.Notify(signals, forwarded...)
	// A write to a closed pipe must not end this process, and with it the command. It is never reset, because the last
	// messages come after this.
	exit.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals, func() { signal.Stop(signals) }
}

// late returns a signal that has come and that nothing has handled, as an error.
func late(signals <-chan os.Signal) error {
	select {
	case s := <-signals:
		return exit.Signal{Signal: s}
	default:
		return nil
	}
}

// connect calls use with a session whose permits and positions in the queue expire after ttl without a renewal.
func (w *waiter) connect(ttl time.Duration, use func(*dial.Session) error) error {
	s, err := w.request.Server.Open(fairsem.Options{Prefix: w.request.Prefix, TTL: ttl, Grace: w.request.Grace, Label: w.request.Label, Observer: w.observe})
	if err != nil {
		return exit.Invalid(err)
	}
	defer s.Close()
	return exit.Invalid(use(s))
}

// observe keeps the id of a call that waits, which only events have.
func (w *waiter) observe(e fairsem.Event) {
	if e, ok := e.(fairsem.WaitStartedEvent); ok {
		w.ticketID.Store(&e.ID)
	}
}

// untilSignal runs f and ends its context with the first signal, which is then the error. ctx may have ended with a signal
// before.
func (w *waiter) untilSignal(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }() // ends with ctx; waited for below
	for {
		select {
		case s := <-w.signals:
			cancel(exit.Signal{Signal: s})
		case err := <-done:
			if stop, is := errors.AsType[exit.Signal](context.Cause(ctx)); is {
				return stop
			}
			return err
		}
	}
}

// reach waits for an answer of the server, but first returns the error of a call that can never work. That does no I/O: the library checks
// a call before it looks at its context, and the one here has ended.
func (w *waiter) reach(ctx context.Context, call func(context.Context) error) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	err := call(ended)
	if errors.Is(err, fairsem.ErrInvalid) || errors.Is(err, fairsem.ErrExceedsLimit) {
		return exit.Usagef("%w", err)
	}
	return w.untilSignal(ctx, w.request.Server.Reach)
}

// noWaitTimeout bounds a request that does not wait in the queue, besides the grace period of a server that was just started.
const noWaitTimeout = 5 * time.Second

// promptly calls request for a caller that does not wait in the queue. It does not wait for the server either, however
// long the TTL. The error of the library says why there was no answer.
func promptly(ctx context.Context, grace time.Duration, request func(context.Context) error) error {
	timeout := noWaitTimeout + grace
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := request(ctx)
	if err != nil && !errors.Is(err, fairsem.ErrUnavailable) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer for %v", fairsem.ErrUnavailable, timeout)
	}
	return err
}

// conflictError is why the units were not granted by a server that answers.
type conflictError struct{ error }

func (e conflictError) Unwrap() error { return e.error }

// refused gives refusals their exit code. It adds the address of a server that does not answer, and says so if the name is
// of the other kind.
func (w *waiter) refused(err error, otherKind string) error {
	conflict := func(err error) error { return &exit.Error{Code: w.request.ConflictCode, Err: conflictError{err}} }
	switch {
	case errors.Is(err, fairsem.ErrUnavailable):
		return w.request.Server.WithAddress(err)
	case failure.IsOtherKind(err):
		return fmt.Errorf("%q is the name of a %s: choose another name", w.request.Name, otherKind)
	case errors.Is(err, fairsem.ErrEvicted):
		if id := w.ticketID.Load(); id != nil {
			err = fmt.Errorf("%w%s", err, w.evictedBy(*id))
		}
		return conflict(err)
	case errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull), errors.Is(err, fairsem.ErrExceedsLimit):
		return conflict(err)
	}
	return err
}

// The search for the operator who evicted a command that has nothing left to do.
const (
	evictedByTimeout = 500 * time.Millisecond
	evictedByEvery   = 20 * time.Millisecond
)

// evictedBy returns " by" and the label of the process that evicted that id, or "" if it is not known.
func (w *waiter) evictedBy(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), evictedByTimeout)
	defer cancel()
	for {
		label, err := w.inspector.EvictedBy(ctx, id)
		switch {
		case label != "":
			return " by " + text.Clean(label)
		case err != nil:
			return ""
		}
		clock.Sleep(ctx, evictedByEvery) // it is stored right after the eviction
	}
}

// findCommand finds the command before the call joins the queue.
func findCommand(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", cannotStart(command, err)
	}
	return path, nil
}

// cannotStart is the error of a command that cannot be executed. That may be the URL of a server, in the wrong place.
func cannotStart(command string, err error) error {
	code := exit.CannotExec
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exit.NotFound
	}
	if detail, is := errors.AsType[*exec.Error](err); is {
		err = detail.Err
	}
	return &exit.Error{Code: code, Err: errors.New(text.WithoutPasswords(fmt.Sprintf("cannot run %q: %v", command, err)))}
}
