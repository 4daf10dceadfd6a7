// Package exit says how the command ends: by an error with an exit code, or by a signal.
package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairsem/fairsem"
)

// Exit codes. A signal that stops the command adds its number to signalled.
const (
	No          = 1 // the answer is no: there is no such name, a check failed, or a promise was broken
	Usage       = 2
	NotAcquired = 75 // EX_TEMPFAIL: try again later
	Lost        = 76
	Failure     = 125 // the command itself could not do its work
	CannotExec  = 126
	NotFound    = 127
	signalled   = 128
)

// Error is an error with an exit code. If Err is nil, there is nothing more to report.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error for arguments that can never work.
func Usagef(format string, args ...any) error {
	return &Error{Usage, fmt.Errorf(format, args...)}
}

// Invalid turns errors of the library about its arguments into errors of usage.
func Invalid(err error) error {
	if errors.Is(err, fairsem.ErrInvalid) {
		return &Error{Usage, err}
	}
	return err
}

// WithSignal gives an error its exit code: that of the signal that ended ctx, if there was one, whatever else failed.
func WithSignal(ctx context.Context, err error) error {
	if stop, is := errors.AsType[Signal](context.Cause(ctx)); is && err != nil {
		return stop
	}
	return Invalid(err)
}

// Signal is the cause of a context that a signal ended.
type Signal struct {
	Signal os.Signal
	key    bool // a program that draws on the terminal has read Ctrl-C, so the rest of the job does not have the signal
}

// CtrlC is the cause where a program that draws on the terminal has read the key.
var CtrlC = Signal{os.Interrupt, true}

func (s Signal) Error() string { return "stopped by " + s.Signal.String() }

// Code returns the exit code that shells give to a process that the signal ended.
func (s Signal) Code() int {
	n, _ := s.Signal.(syscall.Signal) // every system has only these
	return SignalCode(n)
}

// SignalCode returns the exit code that shells give to a process that a signal ended.
func SignalCode(s syscall.Signal) int { return signalled + int(s) }

// OnSignal returns a context that ends with the first signal that asks a command to stop. A second signal is not caught and ends the
// process immediately. A SIGQUIT that is not caught would make Go print its goroutines, and leave a terminal as the command has set it.
func OnSignal() (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), signalsKey{}, signals))
	Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() { // ends with a signal or with the returned stop; not waited for
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel(Signal{Signal: s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// signalsKey is the key of the channel of OnSignal in its context.
type signalsKey struct{}

// LetGo undoes OnSignal, whose context ctx is: signals that come later end it no more. They end the process, unless another channel has
// them.
func LetGo(ctx context.Context) {
	if signals, ok := ctx.Value(signalsKey{}).(chan os.Signal); ok {
		signal.Stop(signals)
	}
}

// Notify sends signals to c, except SIGHUP and SIGINT if this process was started to ignore them, as with nohup. The Go runtime
// replaces the inherited setting of every other signal that it handles, before the program can see it.
func Notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals { // with an empty list signal.Notify would take all signals
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}
