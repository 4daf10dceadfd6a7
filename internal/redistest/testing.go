package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

var (
	single   = shared[*Server]{start: func() (*Server, error) { return Start() }}
	secure   = shared[*Server]{start: func() (*Server, error) { return StartSecure() }}
	cluster  = shared[*Cluster]{start: StartCluster}
	sentinel = shared[*Sentinel]{start: StartSentinel}
)

// SharedServer returns the one server that all tests of this process share, started on first use and stopped by [Main].
// Leave it as it is: no pause, no kill, no FLUSHALL, no CONFIG SET. [NewServer] is for that.
//
// Without a program to start, this and every other function that takes a testing.TB skips the test; when the environment
// says CI=true the test fails.
func SharedServer(t testing.TB) *Server {
	t.Helper()
	return single.get(t)
}

// SharedCluster is to [StartCluster] what [SharedServer] is to Start.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	return cluster.get(t)
}

// SharedSentinel is to [StartSentinel] what [SharedServer] is to Start.
func SharedSentinel(t testing.TB) *Sentinel {
	t.Helper()
	return sentinel.get(t)
}

// SharedSecure is to [StartSecure] what [SharedServer] is to Start.
func SharedSecure(t testing.TB) *Server {
	t.Helper()
	return secure.get(t)
}

// NewServer starts a server for this test alone, with args as in [Start]; the test's end stops it.
func NewServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return private(t, func() (*Server, error) { return Start(args...) })
}

// NewSecure starts a server with TLS and a password for this test alone, with args as in [Start]; the test's end stops it.
func NewSecure(t testing.TB, args ...string) *Server {
	t.Helper()
	return private(t, func() (*Server, error) { return StartSecure(args...) })
}

// NewCluster starts a cluster for this test alone; the test's end stops it.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return private(t, StartCluster)
}

// NewSentinel starts a sentinel group for this test alone; the test's end stops it.
func NewSentinel(t testing.TB) *Sentinel {
	t.Helper()
	return private(t, StartSentinel)
}

// Program returns the path of a program that is no server of this package, and that the test cannot do without.
// What is named here is installed by make setup.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	needs(t, err)
	return path
}

// NewProxy starts a proxy to target for this test alone; the test's end closes it.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := StartProxy(target)
	needs(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
	})
	return p
}

// Main runs the tests and stops what they shared. It returns the exit code, and is all that TestMain needs:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	if err := errors.Join(single.stop(), secure.stop(), cluster.stop(), sentinel.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

type stopper interface{ Stop() error }

// shared is started by the first test that wants it; a failure stays, so that every test reports it.
type shared[T stopper] struct {
	start func() (T, error)

	mu      sync.Mutex
	started bool  // guarded by mu
	it      T     // guarded by mu
	err     error // guarded by mu
}

func (s *shared[T]) get(t testing.TB) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.it, s.err = s.start()
		s.started = true
	}
	needs(t, s.err)
	return s.it
}

func (s *shared[T]) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	return s.it.Stop()
}

func private[T stopper](t testing.TB, start func() (T, error)) T {
	t.Helper()
	it, err := start()
	needs(t, err)
	t.Cleanup(func() {
		if err := it.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return it
}

// needs ends the test unless err is nil.
func needs(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, missing := errors.AsType[*exec.Error](err); missing && os.Getenv("CI") != "true" {
		t.Skipf("SKIPPED, NOTHING WAS TESTED: %v; run `make setup`", err)
	}
	t.Fatal(err)
}
