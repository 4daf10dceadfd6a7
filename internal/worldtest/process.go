package worldtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// workerEnv has the order of a process that is a worker.
const workerEnv = "FAIRSEM_TEST_WORKER"

// Order is the task of a worker process: the fields that JSON keeps.
type Order interface {
	// Work ends with ctx, which ends with the process that started the worker.
	Work(ctx context.Context) error
}

// Main runs the tests of a package, or does the order that this process was started with, and ends the process. run is that of
// redistest.Main; goroutines that it leaves behind fail the tests, unless an option ignores them.
func Main[O Order](run func() int, ignored ...goleak.Option) {
	if text, is := os.LookupEnv(workerEnv); is {
		os.Exit(work[O](text))
	}
	code := run()
	if code == 0 {
		if err := goleak.Find(ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func work[O Order](text string) int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process; stdin is a pipe of the parent
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var o O
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.Work(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Process is a worker that runs.
type Process struct {
	*exec.Cmd
	Out *bufio.Reader // its standard output
}

// Start starts this test binary again as a worker. The end of the test kills it.
func Start(t testing.TB, o Order) *Process {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	_, err = cmd.StdinPipe() // it closes with this process
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error says that it has ended
		_ = cmd.Wait()
	})
	return &Process{cmd, bufio.NewReader(out)}
}
