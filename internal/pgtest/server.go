//go:build unix

// Package pgtest starts real PostgreSQL servers for tests. It uses their own programs, so that the library does not require a driver.
package pgtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a PostgreSQL server with a folder of its own, which stays if this process is killed. Every user of this machine may connect to it
// as app, or as a role that a test creates. Superuser postgres connects over the socket in the folder only: it can run programs, and only who owns the server reaches that.
type Server struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	exited chan struct{}
}

// startTimeout is long, because other tests use the machine, too.
const startTimeout = time.Minute

// New starts a server for this test with room for that many connections, three of which are for superusers. The end of the test stops
// it. Without the programs of PostgreSQL the test fails.
func New(t testing.TB, maxConnections int) *Server {
	t.Helper()
	s, err := Start(maxConnections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts a server, which Stop stops.
func Start(maxConnections int) (*Server, error) {
	dir, err := os.MkdirTemp("", "fairsem-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir}
	if err := s.start(maxConnections); err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(maxConnections int) error {
	as, err := runAs(s.dir)
	if err != nil {
		return err
	}
	if err := s.initdb(as); err != nil {
		return err
	}
	for range 5 { // another process can take the port
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.run(as, maxConnections); err == nil {
			return nil
		}
	}
	return err
}

// Program returns the path of a program of PostgreSQL: Debian has some of them only in a folder of the version.
func Program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s: install the package postgresql, as make setup does", name)
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	return found[0], nil
}

func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// runAs gives the folder to the user postgres if this process is root, which PostgreSQL refuses to be.
func runAs(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w: install the package postgresql, as make setup does", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) initdb(as *syscall.Credential) error {
	program, err := Program("initdb")
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "--no-sync", "--no-locale", "-E", "UTF8", "-A", "trust", "-U", "postgres", s.data())
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: as}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, said)
	}
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(access), 0o600)
}

// access says who may connect as whom.
const access = `
local all all trust
host all postgres 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
`

func (s *Server) run(as *syscall.Credential, maxConnections int) error {
	program, err := Program("postgres")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	s.cmd = exec.Command(program, "-D", s.data(), "-k", s.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port),
		"-c", "max_connections="+strconv.Itoa(maxConnections), "-c", "superuser_reserved_connections=3",
		"-c", "fsync=off", "-c", "autovacuum=off", "-c", "shared_buffers=16MB", "-c", "max_worker_processes=0", "-c", "max_wal_senders=0")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	s.cmd.SysProcAttr = attributes(as)
	s.exited = make(chan struct{})
	started := make(chan error, 1)
	go s.wait(started) // ends with the server, which Stop ends
	if err := <-started; err != nil {
		return err
	}
	return s.await()
}

// wait keeps its thread for as long as the server lives: the kernel ends the server when the thread that started it ends.
func (s *Server) wait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.exited)
	err := s.cmd.Start()
	started <- err
	if err == nil {
		_ = s.cmd.Wait() // the log says why it ended
	}
}

// await returns when a statement has created the role app.
func (s *Server) await() error {
	psql, err := Program("psql")
	if err != nil {
		return err
	}
	deadline := time.After(startTimeout)
	for {
		cmd := exec.Command(psql, "--no-psqlrc", "--quiet", "--command", "CREATE ROLE app LOGIN", s.Socket("postgres"))
		answer, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
		case <-deadline:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		said, _ := os.ReadFile(s.log())
		return fmt.Errorf("the server does not start: %w: %s%s", err, answer, said)
	}
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// URL is for connections of app over TCP.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://app@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Socket is for connections of that user over the Unix socket.
func (s *Server) Socket(user string) string {
	return fmt.Sprintf("postgres://%s@:%d/postgres?host=%s", user, s.port, url.QueryEscape(s.dir))
}

// Log returns the log of the server.
func (s *Server) Log() (string, error) {
	said, err := os.ReadFile(s.log())
	return string(said), err
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() error {
	if s.exited != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
		<-s.exited
	}
	return os.RemoveAll(s.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
