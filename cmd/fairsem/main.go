// Command fairsem shares limits between processes from the command line. `fairsem help` says how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Exit codes. A signal that stops the command adds its number to exitSignal.
const (
	exitBroken  = 1 // the library broke a promise
	exitUsage   = 2
	exitFailure = 125 // the command itself could not do its work
	exitSignal  = 128
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	// go-redis would write into the view. What matters comes back as an error.
	logging.Disable()
	ctx, stop := untilSignal()
	defer stop()
	root := newRoot()
	strictHelp(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return report(stderr, cmd.CommandPath(), err)
}

// failure is an error with an exit code. Without an error there is nothing more to say.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}
func (f *failure) Unwrap() error { return f.err }

// usage is for arguments that can never work.
func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...)}
}

// signalled is the cause of a context that a signal ended.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return "stopped by " + s.String() }

// code is the exit code that shells give to what the signal ends.
func (s signalled) code() int {
	n, _ := s.Signal.(syscall.Signal) // every system has only these
	return exitSignal + int(n)
}

// untilSignal returns a context that ends with the first signal that asks the command to stop. A
// second one is not caught and ends the process at once.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { // ends with a signal or with the returned stop; not waited for
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel(signalled{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// notify sends c those of the signals that this process was not started to ignore, as with nohup.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals { // with an empty list signal.Notify would take all signals
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// report says on stderr in one line what went wrong, and returns the exit code. Errors that have no
// code are cobra's own, about the command line.
func report(stderr io.Writer, command string, err error) int {
	var stop signalled
	if errors.As(err, &stop) {
		return stop.code()
	}
	if err == nil {
		return 0
	}
	code, hint := exitUsage, fmt.Sprintf("; see '%s --help'", command)
	var f *failure
	switch {
	case !errors.As(err, &f):
	case f.err == nil:
		return f.code
	case f.code != exitUsage:
		code, hint = f.code, ""
	}
	said := text.Clean(oneLine(strings.TrimPrefix(err.Error(), "fairsem: "))) // servers choose their words themselves
	_, _ = fmt.Fprintf(stderr, "fairsem: %s%s\n", said, hint)                 // an error cannot be reported anywhere
	return code
}

// oneLine joins the lines of a text: what cobra suggests has several.
func oneLine(s string) string {
	var parts []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, " ")
}
