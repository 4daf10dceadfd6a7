package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ErrNoServer is the error of every Start function if there is no redis-server binary.
var ErrNoServer = errors.New("redistest: no redis-server")

var (
	errPortTaken = errors.New("redistest: port taken")
	errStopped   = errors.New("redistest: server was stopped and cannot be restarted")
)

const (
	startTries   = 20
	startTimeout = 15 * time.Second
	doTimeout    = 5 * time.Second
)

// Server is one redis-server process that this package started. Its methods may be called from any goroutine.
type Server struct {
	addr   string
	dir    string
	binary string
	args   []string
	env    []string
	client *redis.Client

	tls      *tls.Config // nil: the server does not use TLS
	password string      // of the default user; "": none is needed

	mu      sync.Mutex
	proc    *process // guarded by mu
	stopped bool     // guarded by mu
}

// Start starts one server without persistence and returns it once it answers. args are appended to the server's command line
// ("--maxmemory", "1mb"). They must not configure a password or TLS, because the check whether the server answers uses neither;
// for these there is [StartSecure]. If Start fails, the error is [ErrNoServer] or contains the end of the server's log, and
// nothing is left behind.
func Start(args ...string) (*Server, error) {
	return start(setup{config: memoryOnly, args: args})
}

// StartWith is [Start] with "name=value" pairs for the environment of the server, for example LD_PRELOAD.
func StartWith(env []string, args ...string) (*Server, error) {
	return start(setup{config: memoryOnly, args: args, env: env})
}

// setup describes a kind of server.
type setup struct {
	config  string   // lines for the configuration file
	args    []string // for the command line, after the configuration file
	env     []string // added to the environment that the server inherits
	busPort bool     // the port that is busOffset higher must be free, too
	secure  bool     // the server requires TLS and a password
}

// start tries ports until one works: another process can take a port after it was found free and before the server binds it.
func start(how setup) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	for range startTries {
		var s *Server
		if s, err = startOnce(binary, how); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// Binary returns the path of the redis-server binary, or [ErrNoServer].
func Binary() (string, error) {
	name := os.Getenv("FAIRSEM_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w (set FAIRSEM_REDIS_SERVER to use another binary)", ErrNoServer, err)
	}
	return filepath.Abs(path)
}

func startOnce(binary string, how setup) (*Server, error) {
	port, err := ownPorts.next(how.busPort)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fairsem-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		addr:   "127.0.0.1:" + strconv.Itoa(port),
		dir:    dir,
		binary: binary,
		args:   append([]string{filepath.Join(dir, "redis.conf")}, how.args...),
		env:    how.env,
	}
	if err := s.configure(how, port); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := s.Restart(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// configure writes the configuration file and creates the client. A file is needed, because a sentinel requires one, and so does
// CONFIG REWRITE.
func (s *Server) configure(how setup, port int) error {
	config := fmt.Sprintf("bind 127.0.0.1\nprotected-mode no\ndir %q\n%s", s.dir, how.config)
	listen := fmt.Sprintf("port %d\n", port)
	var err error
	if how.secure {
		listen, err = s.secure(port)
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, Password: s.password, TLSConfig: s.tls})
	if err != nil {
		return err
	}
	return os.WriteFile(s.args[0], []byte(config+listen), 0o600)
}

// Addr returns the "127.0.0.1:port" of the server. Kill and Restart do not change it.
func (s *Server) Addr() string { return s.addr }

// Client returns a client of the server, with the default options of go-redis. It is always the same one. Stop closes it. After
// a Kill and a Restart, its pool may need up to a second to notice that the server runs again.
func (s *Server) Client() *redis.Client { return s.client }

// Restart starts the server again, on the same port and in the same folder, and returns once it answers. It first kills a server
// that still runs. If Restart fails, the server is down, and Restart may be called again.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopped
	}
	s.proc.kill()
	proc, err := spawn(s.binary, s.args, s.env, s.dir)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	s.proc = proc
	if err := await(startTimeout, proc.exited, func() error { return s.answers(proc.pid()) }); err != nil {
		proc.kill()
		return s.explain(err)
	}
	return nil
}

// answers returns nil if the process pid executes commands, and not another server on the same port.
func (s *Server) answers(pid int) error {
	if err := s.do("PING").Err(); err != nil {
		return err
	}
	info, err := s.do("INFO", "server").Text()
	if err != nil {
		return err
	}
	if field(info, "process_id") != strconv.Itoa(pid) {
		return fmt.Errorf("%w: another server answers on %s", errPortTaken, s.addr)
	}
	return nil
}

// explain adds the end of the server's log to err. If the log says that the port was taken, the error is errPortTaken.
func (s *Server) explain(err error) error {
	tail := logTail(s.dir, 20)
	if strings.Contains(tail, "Address already in use") {
		err = errPortTaken
	}
	return fmt.Errorf("redistest: start %s: %w; its log ends:\n%s", filepath.Base(s.binary), err, tail)
}

// AwaitAge waits until the server reports that it has run for the given number of seconds.
func (s *Server) AwaitAge(seconds int) error {
	return await(startTimeout, nil, func() error {
		info, err := s.do("INFO", "server").Text()
		if age, bad := strconv.Atoi(field(info, "uptime_in_seconds")); err == nil && (bad != nil || age < seconds) {
			err = fmt.Errorf("redistest: %s has run for only %d s", s.addr, age)
		}
		return err
	})
}

// Pause stops the process with SIGSTOP. Connections stay open, and the kernel still accepts new ones. From the return of Pause
// until Resume, the server executes nothing.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pause()
}

// Resume continues a paused server. If the server is not paused, it does nothing.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.signal(resumeSignal)
}

// Kill ends the process with SIGKILL, paused or not, and waits for its end. Restart starts it again. If the server is down, Kill
// does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	return nil
}

// Stop kills the process, waits for its end, closes the client and removes the folder. A second call does nothing. An error
// means that the folder could not be removed; even then the process has ended.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	s.proc.kill()
	return errors.Join(ignoreClosed(s.client.Close()), os.RemoveAll(s.dir))
}

// do sends one command once, over a new connection. It fails after doTimeout, because the server may be paused.
func (s *Server) do(args ...any) *redis.Cmd {
	ctx := context.Background()
	cmd := redis.NewCmd(ctx, args...)
	// This dials itself, because the client logs every refused connection, which would flood the output when a test polls a
	// server that is down.
	conn, err := s.dial()
	if err != nil {
		cmd.SetErr(err)
		return cmd
	}
	c := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Password:                 s.password,
		Protocol:                 2,
		MaxRetries:               -1,
		ReadTimeout:              doTimeout,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _, _ = conn.Close(), c.Close() }()
	_ = c.Process(ctx, cmd) // cmd contains the error
	return cmd
}

func (s *Server) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: doTimeout}
	if s.tls == nil {
		return dialer.Dial("tcp", s.addr)
	}
	return tls.DialWithDialer(dialer, "tcp", s.addr, s.tls)
}

// field returns the value of a "name:value" line of an INFO reply, or "".
func field(info, name string) string {
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return value
		}
	}
	return ""
}
