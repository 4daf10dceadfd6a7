package fairsemtest

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairsem/fairsem"
)

// Server is a Redis in the memory of one test. Its methods are safe for concurrent use. Those that fail the
// test do it with Fatal, so call them from its own goroutine.
type Server struct {
	tb    testing.TB
	redis *miniredis.Miniredis
	front *server.Server // of redis: it takes connections and commands

	running atomic.Pointer[server.Peer] // whose script is running

	// mu is held while a script runs: steps of the test come between two scripts. It guards the fields below.
	mu          sync.Mutex
	ahead       time.Duration // of the clock of this process
	aged        time.Time     // when keys got older last, by the clock of the server
	down        bool
	processes   map[string]*process     // by their names
	clients     map[string]*process     // by the ids of the fairsem clients in them
	subscribers map[*server.Peer]string // with their channels
}

// NewServer returns an empty server, for this test alone. The end of the test stops it, after all that
// Client and Redis returned is closed. In a bubble of [testing/synctest], tb is that of the bubble.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		tb:          tb,
		redis:       miniredis.NewMiniRedis(),
		processes:   make(map[string]*process),
		clients:     make(map[string]*process),
		subscribers: make(map[*server.Peer]string),
	}
	s.aged = s.now()
	first, err := s.redis.Dial() // starts it, without a port
	if err != nil {
		tb.Fatalf("fairsemtest: cannot start the server: %v", err)
	}
	_ = first.Close() // nothing was sent
	s.front = s.redis.Server()
	s.front.SetPreHook(s.before)
	tb.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.Down() // lets no script begin, and none is running: miniredis must not close under one
	s.redis.Close()
}

// Client returns a client that is another process as far as Redis can tell: it has an id and connections of its own. The end of
// the test closes it, and an error of that Close fails the test; a permit that your code forgot to release is released by it,
// unnoticed. The options are those of [fairsem.New], except that a zero Grace is a millisecond: nothing is ever lost here.
// Options that New refuses fail the test.
func (s *Server) Client(opts fairsem.Options) *fairsem.Client {
	s.tb.Helper()
	if opts.Grace == 0 {
		opts.Grace = time.Millisecond
	}
	p := s.newProcess()
	client, err := fairsem.New(p.redis, opts)
	if err != nil {
		s.tb.Fatalf("fairsemtest: %v", err)
	}
	s.mu.Lock()
	p.client = client
	s.mu.Unlock()
	s.tb.Cleanup(func() {
		p.reconnect()
		if err := client.Close(); err != nil {
			s.tb.Errorf("fairsemtest: %v", err)
		}
	})
	return client
}

// Redis returns a go-redis client with connections of its own, for programs that make their own fairsem client, and to
// inspect Redis. The end of the test closes it, if it is still open. It knows nothing of a fairsem client that was made of it: close that,
// after [Server.Up] if the server is down. [Server.Kill] does not work on it.
func (s *Server) Redis() *redis.Client {
	s.tb.Helper()
	return s.newProcess().redis
}

func (s *Server) newProcess() *process {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Before(s.aged) { // the clock of a bubble begins in the year 2000
		s.tb.Fatalf("fairsemtest: the server is not of this bubble of testing/synctest: call NewServer in it")
	}
	p := &process{server: s, name: "process-" + strconv.Itoa(len(s.processes)+1)}
	p.redis = redis.NewClient(&redis.Options{
		Addr:       p.name, // for messages only
		Dialer:     p.dial,
		ClientName: p.name,
		PoolSize:   poolSize,
		// A miniredis refuses both. The second would also have Addr looked up, outside of any bubble.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.processes[p.name] = p
	s.tb.Cleanup(func() {
		if err := p.redis.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			s.tb.Errorf("fairsemtest: close the Redis client of %s: %v", p.name, err)
		}
	})
	return p
}

// poolSize is more than any test needs: a wait for a connection uses a timer that go-redis shares between all pools, and
// no timer may leave its bubble.
const poolSize = 1000

// before is called before each command. True: the command is done.
//
// Scripts have their turn here, one at a time, so that nothing a test does comes in the middle of one.
func (s *Server) before(peer *server.Peer, cmd string, args ...string) (done bool) {
	if peer.ClientName == "" || s.running.Load() == peer {
		return false // a command of a script, or of a connection that has no name yet; or a script in its turn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[peer.ClientName]
	if p == nil {
		return false // it has been given another name
	}
	if p.isCutOff() {
		peer.Close()
		return true
	}
	s.passTime()
	switch cmd {
	case "SUBSCRIBE":
		if len(args) > 0 { // else miniredis refuses it
			s.meetSubscriber(peer, args[0])
		}
	case "EVAL", "EVALSHA":
		command := append([]string{cmd}, args...)
		p.meetClient(command)
		s.running.Store(peer)
		s.front.Dispatch(peer, command)
		s.running.Store(nil)
		return true
	}
	return false
}
