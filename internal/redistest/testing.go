package redistest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

var (
	single   = shared[*Server]{start: func() (*Server, error) { return Start() }}
	secure   = shared[*Server]{start: func() (*Server, error) { return StartSecure() }}
	cluster  = shared[*Cluster]{start: startPatientCluster}
	sentinel = shared[*Sentinel]{start: startPatient}
)

// SharedServer returns the server that all tests of this process share. The first call starts it, and [Main] stops it. A test
// must not pause, kill, flush or configure it; use [NewServer] for that.
//
// If the program to start does not exist, every function that takes a testing.TB skips the test, or fails it if the environment
// has CI=true.
func SharedServer(t testing.TB) *Server {
	t.Helper()
	return single.get(t)
}

// SharedCluster returns the cluster that all tests of this process share; see [SharedServer].
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	return cluster.get(t)
}

// SharedSentinel returns the sentinel group that all tests of this process share; see [SharedServer]. Its sentinels are patient; see
// [Sentinel.BePatient].
func SharedSentinel(t testing.TB) *Sentinel {
	t.Helper()
	return sentinel.get(t)
}

// SharedSecure returns the server with TLS and a password that all tests of this process share; see [SharedServer].
func SharedSecure(t testing.TB) *Server {
	t.Helper()
	return secure.get(t)
}

// NewServer starts a server for this test only, with args as in [Start]. The end of the test stops it.
func NewServer(t testing.TB, args ...string) *Server {
	t.Helper()
	return private(t, func() (*Server, error) { return Start(args...) })
}

// NewSecure starts a server with TLS and a password for this test only, with args as in [Start]. The end of the test stops it.
func NewSecure(t testing.TB, args ...string) *Server {
	t.Helper()
	return private(t, func() (*Server, error) { return StartSecure(args...) })
}

// NewCluster starts a cluster for this test only. The end of the test stops it.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return private(t, StartCluster)
}

// NewSentinel starts a sentinel group for this test only. The end of the test stops it.
func NewSentinel(t testing.TB) *Sentinel {
	t.Helper()
	return private(t, StartSentinel)
}

// Program returns the path of another program that the test needs. "make setup" installs the programs that tests need.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	needs(t, err)
	return path
}

// NewProxy starts a proxy to target for this test only. The end of the test closes it.
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

// testsPerProcessor is how many parallel tests run at once for each processor: they mostly wait for a lease to end, a server or a screen.
const testsPerProcessor = 6

// Main runs the tests, stops the servers that they shared, and returns the exit code. TestMain needs nothing else:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
func Main(m *testing.M) int {
	if err := flag.Set("test.parallel", strconv.Itoa(testsPerProcessor*runtime.GOMAXPROCS(0))); err != nil {
		panic(err) // the flag exists; -parallel overrides it
	}
	code := m.Run()
	if err := errors.Join(single.stop(), secure.stop(), cluster.stop(), sentinel.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

type stopper interface{ Stop() error }

// shared is started by the first test that needs it. A failure is kept, so that every test reports it.
type shared[T stopper] struct {
	start func() (T, error)

	mu      sync.Mutex
	started bool  // guarded by mu
	value   T     // guarded by mu
	err     error // guarded by mu
}

func (s *shared[T]) get(t testing.TB) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.value, s.err = s.start()
		s.started = true
	}
	needs(t, s.err)
	return s.value
}

func (s *shared[T]) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	return s.value.Stop()
}

func private[T stopper](t testing.TB, start func() (T, error)) T {
	t.Helper()
	value, err := start()
	needs(t, err)
	t.Cleanup(func() {
		if err := value.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return value
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
