package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairsem/fairsem/internal/redistest"
)

// TestMain puts a program fairsem on the PATH of the tests: this test binary, under that name.
func TestMain(m *testing.M) {
	testscript.Main(sharing{m}, programs)
}

// programs are those that the commands of tests find, besides those of the system.
var programs = map[string]func(){"fairsem": main}

// sharing stops the servers that the tests have shared.
type sharing struct{ m *testing.M }

// Run is redistest.Main in an environment that is the same wherever the tests were started.
func (s sharing) Run() int {
	// A process that was built with the race detector otherwise takes a second to end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	// Under nohup, or behind the & of a shell, this process ignores signals, and so would all that it starts.
	for _, signaled := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(signaled) {
			signal.Notify(make(chan os.Signal, 1), signaled)
		}
	}
	return redistest.Main(s.m)
}

// The scripts have a server, one with TLS and a password, and a name of their own each.
func TestScripts(t *testing.T) {
	t.Parallel()
	server, secured := redistest.SharedServer(t), redistest.SharedSecure(t)
	testscript.Run(t, testscript.Params{
		Dir:             "testdata/script",
		ContinueOnError: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("NAME", "script-"+uuid.NewString())
			env.Setenv("SERVER", "redis://"+server.Addr())
			env.Setenv("SECURED", secured.Addr())
			env.Setenv("CA", secured.CAFile())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a program and wants an exit code, and with 2 and 125 one line on stderr: exits CODE PROGRAM [ARG...]
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	if got := strconv.Itoa(exitCode(err)); got != args[0] {
		ts.Fatalf("%q exits with %s, not %s: %v", args[1:], got, args[0], err)
	}
	if said := ts.ReadFile("stderr"); (args[0] == "2" || args[0] == "125") && strings.Count(said, "\n") != 1 {
		ts.Fatalf("%q says more or less than a line: %q", args[1:], said)
	}
}

// exitCode is that of a finished command as a shell has it, 128+n for signal n; -1 if there is none.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	return -1
}
