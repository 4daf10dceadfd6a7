//go:build unix

package run

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/internal/redistest"
)

// requestTo is a request for one unit of the name n.
func requestTo(t *testing.T, s *redistest.Server, command ...string) Request {
	t.Helper()
	server, err := dial.Parse("redis://" + s.Addr())
	require.NoError(t, err)
	return Request{Server: server, Prefix: "fairsem", Name: "n", Weight: 1, Command: command}
}

// Between the start of the program and that of a job there are moments in which only the context knows of a signal.
func TestASignalBeforeAJobListensIsNotLost(t *testing.T) {
	t.Parallel()
	s, ran := redistest.NewServer(t), t.TempDir()+"/ran"
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := exit.Signal{Signal: syscall.SIGTERM}
	cancel(stopped)
	request := requestTo(t, s, "touch", ran)
	assert.Equal(t, stopped, PermitJob{Request: request, Limit: 1, TTL: 10 * time.Second, OnLost: OnLostTerm}.Run(ctx))
	assert.NoFileExists(t, ran)
	assert.Equal(t, stopped, RateJob{Request: request, Units: 1, Window: time.Hour}.Run(ctx))
	assert.NoFileExists(t, ran)
}

func TestASignalAfterTheGrantKeepsTheCommandFromStarting(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	assert.Equal(t, exit.Signal{Signal: syscall.SIGTERM}, become(t.Context(), "/bin/false", []string{"false"}, nil, signals))
}

// A user with -n in a crontab does not want it to hang for a long TTL. No answer is not a refusal.
func TestNoWaitDoesNotWaitForTheServerEither(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	h, w, limiter := withoutWaiting(t, s)
	require.NoError(t, s.Pause())
	err := h.acquire(t.Context())
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	require.ErrorContains(t, err, "the server is "+s.Addr())
	var coded *exit.Error
	assert.NotErrorAs(t, err, &coded, "so that the exit code is 125")
	require.ErrorIs(t, w.wait(t.Context(), limiter), fairsem.ErrUnavailable)
	require.NoError(t, s.Resume())
}

// A server that is read-only or out of memory may heal, so the library tries again until the time is over.
func TestNoWaitReportsWhyTheServerDoesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	h, w, limiter := withoutWaiting(t, s)
	require.NoError(t, s.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	for _, err := range []error{h.acquire(t.Context()), w.wait(t.Context(), limiter)} {
		require.ErrorIs(t, err, fairsem.ErrUnavailable)
		assert.ErrorContains(t, err, "NOREPLICAS Not enough good replicas to write")
	}
}

// withoutWaiting returns both jobs for a user with -n, before their requests, and the limiter of the second.
func withoutWaiting(t *testing.T, s *redistest.Server) (*holder, *rateWaiter, *fairsem.Limiter) {
	t.Helper()
	client, err := fairsem.New(s.Client(), fairsem.Options{TTL: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	limiter, err := client.Limiter("rate", 5, time.Hour)
	require.NoError(t, err)
	request := requestTo(t, s)
	request.NoWait = true
	of := &waiter{request: &request}
	return &holder{job: PermitJob{Request: request}, waiter: of, sem: sem}, &rateWaiter{job: RateJob{Request: request}, waiter: of}, limiter
}

func TestACommandIsUnexecutableOnlyIfNothingElsePreventsItsStart(t *testing.T) {
	t.Parallel()
	var coded *exit.Error
	for _, full := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		require.NotErrorAs(t, notStarted("job", full), &coded, "so that the exit code is 125")
	}
	for number, code := range map[syscall.Errno]int{syscall.EACCES: exit.CannotExec, syscall.ENOEXEC: exit.CannotExec, syscall.ENOENT: exit.NotFound} {
		require.ErrorAs(t, notStarted("job", number), &coded)
		require.Equal(t, code, coded.Code)
	}
}

// The number of a group that is gone may be that of another soon.
func TestAStoppedGuardKillsNothing(t *testing.T) {
	t.Parallel()
	g, err := startGuard()
	require.NoError(t, err)
	require.NotNil(t, g)
	pid, err := g.startCommand("/bin/sh", []string{"sh", "-c", "exec sleep 3600"}, os.Environ(), &syscall.SysProcAttr{Setpgid: true})
	require.NoError(t, err)
	g.stop()
	require.NoError(t, syscall.Kill(pid, 0), "it runs")
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	var state syscall.WaitStatus
	_, err = syscall.Wait4(pid, &state, 0, nil)
	require.NoError(t, err)
	require.Equal(t, syscall.SIGTERM, state.Signal())
}

// supervising returns a supervisor of a group that does not exist, whose permit is live. Its process is as old as age says.
func supervising(t *testing.T, age *time.Duration) (s *supervisor, lose func()) {
	t.Helper()
	client, err := fairsem.New(redistest.NewServer(t).Client(), fairsem.Options{})
	require.NoError(t, err)
	lose = func() { require.NoError(t, client.Close()) }
	t.Cleanup(lose)
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	p, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	job := PermitJob{TTL: 10 * time.Minute, KillAfter: MaxKillAfter(10 * time.Minute), OnLost: OnLostTerm}
	j := newJournal(io.Discard, &job.Request)
	t.Cleanup(j.close)
	return &supervisor{job: job, permit: p, journal: j, child: &child{pid: 1 << 30}, age: func() time.Duration { return *age }}, lose
}

// A timer stands still while the machine is suspended, and the lease does not.
func TestTimeInWhichTheMachineWasSuspendedCountsTowardsTheKill(t *testing.T) {
	t.Parallel()
	var age time.Duration
	s, lose := supervising(t, &age)
	s.check()
	lose()
	age = time.Hour
	s.check()
	assert.Equal(t, []os.Signal{syscall.SIGKILL}, s.sent, "it was suspended before the loss")

	age = 0
	s, lose = supervising(t, &age)
	lose()
	s.check()
	require.Equal(t, []os.Signal{syscall.SIGTERM}, s.sent)
	age = time.Hour
	s.check()
	select {
	case <-s.killAt:
	case <-time.After(30 * time.Second): // less than the 48 s of the timer
		assert.Fail(t, "it was suspended after TERM, and no kill is due")
	}
}

// Others are for the command, such as to reopen its log.
func TestOnlyASignalToEndEndsTheMinimumTime(t *testing.T) {
	t.Parallel()
	for _, end := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		s, _ := supervising(t, new(time.Duration))
		signals := make(chan os.Signal, 4)
		for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, end} {
			signals <- sig
		}
		s.job.MinHold, s.signals = time.Hour, signals
		assert.Equal(t, end, s.holdMinimum(time.Now()))
	}
}
