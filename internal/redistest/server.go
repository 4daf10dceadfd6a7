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

// ErrNoServer is returned by every Start function when there is no redis-server binary to start.
var ErrNoServer = errors.New("redistest: no redis-server")

var (
	errPortTaken = errors.New("redistest: port taken")
	errStopped   = errors.New("redistest: server is stopped for good")
)

const (
	startTries = 20
	startLimit = 15 * time.Second
	askLimit   = time.Second
)

// Server is one redis-server process that this package started. Its methods may be called from any goroutine.
type Server struct {
	addr   string
	dir    string
	binary string
	args   []string
	env    []string
	client *redis.Client

	tls      *tls.Config // nil: it speaks without TLS
	password string      // of the default user; "": it needs none

	mu      sync.Mutex
	proc    *process // guarded by mu
	stopped bool     // guarded by mu
}

// Start starts one server without persistence and returns it once it answers. args are appended to the server's command
// line ("--maxmemory", "1mb"); they must not ask for a password or TLS, because readiness is checked without either:
// [StartSecure] is for that.
// On failure the error holds the end of the server's log, or is [ErrNoServer], and nothing is left behind.
func Start(args ...string) (*Server, error) {
	return launch(setup{config: memoryOnly, args: args})
}

// StartWith is [Start] with "name=value" pairs for the environment of the server, LD_PRELOAD for instance.
func StartWith(env []string, args ...string) (*Server, error) {
	return launch(setup{config: memoryOnly, args: args, env: env})
}

// setup is how one kind of server differs from another.
type setup struct {
	config  string   // lines for the configuration file
	args    []string // for the command line, after the configuration file
	env     []string // beside what the server inherits
	busPort bool     // the port 10000 above must be free too
	secure  bool     // TLS and a password
}

// launch tries ports until one is really free: between the choice and the server's bind another process can take it.
func launch(how setup) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	for range startTries {
		var s *Server
		if s, err = launchOnce(binary, how); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// Binary returns the path of the server that is started, or [ErrNoServer].
func Binary() (string, error) {
	name := os.Getenv("FAIRSEM_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %w; FAIRSEM_REDIS_SERVER can name another", ErrNoServer, err)
	}
	return filepath.Abs(path)
}

func launchOnce(binary string, how setup) (*Server, error) {
	port, err := freePort(how.busPort)
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

// configure writes the configuration, and makes the client that goes with it. A file and not only arguments: a sentinel
// needs one, and CONFIG REWRITE works.
func (s *Server) configure(how setup, port int) error {
	config := fmt.Sprintf("bind 127.0.0.1\nprotected-mode no\ndir %q\n%s", s.dir, how.config)
	door := fmt.Sprintf("port %d\n", port)
	var err error
	if how.secure {
		door, err = s.secure(port)
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, Password: s.password, TLSConfig: s.tls})
	if err != nil {
		return err
	}
	return os.WriteFile(s.args[0], []byte(config+door), 0o600)
}

// Addr is the server's "127.0.0.1:port". It stays the same over Kill and Restart.
func (s *Server) Addr() string { return s.addr }

// Client returns the server's own client, with go-redis's default options; always the same one. Stop closes it.
// After a Kill its pool may need up to a second to notice that the server is back.
func (s *Server) Client() *redis.Client { return s.client }

// Restart starts the server again on the same port and in the same folder, and returns once it answers; one that still
// runs is killed first. On failure the server is down and may be restarted again.
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
	if err := await(startLimit, proc.exited, func() error { return s.answers(proc.pid()) }); err != nil {
		proc.kill()
		return s.explain(err)
	}
	return nil
}

// answers reports whether the process pid, and not a stranger on the same port, executes commands.
func (s *Server) answers(pid int) error {
	if err := s.ask("PING").Err(); err != nil {
		return err
	}
	info, err := s.ask("INFO", "server").Text()
	if err != nil {
		return err
	}
	if field(info, "process_id") != strconv.Itoa(pid) {
		return fmt.Errorf("%w: another server answers on %s", errPortTaken, s.addr)
	}
	return nil
}

// explain adds the end of the server's log to err, and recognizes a lost race for the port in it.
func (s *Server) explain(err error) error {
	tail := logTail(s.dir, 20)
	if strings.Contains(tail, "Address already in use") {
		err = errPortTaken
	}
	return fmt.Errorf("redistest: start %s: %w; its log ends:\n%s", filepath.Base(s.binary), err, tail)
}

// AwaitAge returns when the server says that it is so many whole seconds old.
func (s *Server) AwaitAge(seconds int) error {
	return await(startLimit, nil, func() error {
		info, err := s.ask("INFO", "server").Text()
		if age, bad := strconv.Atoi(field(info, "uptime_in_seconds")); err == nil && (bad != nil || age < seconds) {
			err = fmt.Errorf("redistest: %s is %d s old", s.addr, age)
		}
		return err
	})
}

// Pause stops the process with SIGSTOP; connections stay open and the kernel goes on accepting new ones. The server
// executes nothing between Pause's return and Resume.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pause()
}

// Resume lets a paused server go on. It does nothing to one that is not paused.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.signal(resumeSignal)
}

// Kill ends the process with SIGKILL and waits for its end, paused or not. Restart starts it again. Killing a server
// that is down does nothing.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	return nil
}

// Stop kills the process, waits for its end, closes the client and removes the folder. The second call does nothing. An
// error means that the folder could not be removed; the process is gone even then.
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

// ask sends one command over a connection of its own, once, and gives up after askLimit: the server may be paused.
func (s *Server) ask(args ...any) *redis.Cmd {
	ctx := context.Background()
	cmd := redis.NewCmd(ctx, args...)
	// Dialled here, because the client logs a refused connection, and polling a dead server would flood the test's output.
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
		ReadTimeout:              askLimit,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _, _ = conn.Close(), c.Close() }()
	_ = c.Process(ctx, cmd) // the command keeps the error
	return cmd
}

func (s *Server) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: askLimit}
	if s.tls == nil {
		return dialer.Dial("tcp", s.addr)
	}
	return tls.DialWithDialer(dialer, "tcp", s.addr, s.tls)
}

// field returns the value of one "name:value" line of an INFO reply, or "".
func field(info, name string) string {
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			return value
		}
	}
	return ""
}
