package fairsemnet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/redistest"
)

const workerEnv = "FAIRSEM_TEST_WORKER"

func TestMain(m *testing.M) {
	if order := os.Getenv(workerEnv); order != "" {
		os.Exit(worker(order))
	}
	code := redistest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is a limit of its own on a server.
type world struct {
	*testing.T
	addr string
	name string
	ttl  time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{t, redistest.SharedServer(t).Addr(), t.Name() + "-" + uuid.NewString(), 10 * time.Second}
}

// client returns a new Client. For Redis it is another process.
func (w *world) client() *fairsem.Client {
	w.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.addr})
	w.Cleanup(func() { assert.NoError(w, rdb.Close()) })
	c, err := fairsem.New(rdb, fairsem.Options{TTL: w.ttl})
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, c.Close()) })
	return c
}

func (w *world) semaphore(limit int64) *fairsem.Semaphore {
	w.Helper()
	s, err := w.client().Semaphore(w.name, limit)
	require.NoError(w, err)
	return s
}

func (w *world) status(s *fairsem.Semaphore) fairsem.Status {
	w.Helper()
	st, err := s.Status(w.Context())
	require.NoError(w, err)
	return st
}

func (w *world) eventually(is func() bool, why string) {
	w.Helper()
	require.Eventually(w, is, time.Minute, 5*time.Millisecond, why)
}

// eventuallyUsed waits until that many units are held.
func (w *world) eventuallyUsed(s *fairsem.Semaphore, n int64) {
	w.Helper()
	w.eventually(func() bool { return w.status(s).Used == n }, fmt.Sprintf("not %d units are in use", n))
}

// evict revokes all permits.
func (w *world) evict(s *fairsem.Semaphore) {
	w.Helper()
	for held, err := range s.Holders(w.Context()) {
		require.NoError(w, err)
		require.NoError(w, s.Evict(w.Context(), held.ID))
	}
}

// dial returns a connection, which the end of the test closes.
func (w *world) dial(d *fairsemnet.Dialer, network, address string) net.Conn {
	w.Helper()
	c, err := d.DialContext(w.Context(), network, address)
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() }) // most tests have closed it
	return c
}

// listen starts a server that keeps every connection until its peer closes it.
func (w *world) listen(network, address string) net.Listener {
	w.Helper()
	l, err := net.Listen(network, address)
	require.NoError(w, err)
	w.serve(l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	return l
}

// serve calls handle with each connection of l until the end of the test, and closes the connection then.
func (w *world) serve(l net.Listener, handle func(net.Conn)) {
	done := make(chan struct{})
	w.Cleanup(func() {
		assert.NoError(w, l.Close())
		<-done
	})
	go func() { // ends with the listener, whose clean-up waits for it
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection, which the test closes
				defer func() { _ = c.Close() }()
				handle(c)
			}()
		}
	}()
}

func (w *world) tcp() string { return w.listen("tcp", "127.0.0.1:0").Addr().String() }

// order is the task of a worker process.
type order struct {
	Redis, Name, Peer string
	Limit             int64
	TTL               time.Duration
	Hold              bool // dial once, say so, and keep the connection until killed
	Rounds            int  // otherwise: dial this often in each of four goroutines
}

// worker is the main function of a worker process. It ends with its parent: stdin is a pipe.
func worker(text string) int {
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o order) work() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	s, err := client.Semaphore(o.Name, o.Limit)
	if err != nil {
		return err
	}
	d := &fairsemnet.Dialer{Semaphore: s}
	if o.Hold {
		if _, err := d.DialContext(ctx, "tcp", o.Peer); err != nil {
			return err
		}
		fmt.Println("ready")
		<-ctx.Done()
		return ctx.Err()
	}
	failures := make(chan error, 4)
	for range cap(failures) {
		go func() { // ends after its rounds; failures has room for all
			var err error
			for n := 0; n < o.Rounds && err == nil; n++ {
				err = o.round(ctx, d)
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		err = errors.Join(err, <-failures)
	}
	return errors.Join(err, client.Close())
}

// round opens a connection, and closes it when the server knows that it will.
func (o order) round(ctx context.Context, d *fairsemnet.Dialer) error {
	c, err := d.DialContext(ctx, "tcp", o.Peer)
	if err != nil {
		return err
	}
	buf := make([]byte, 1)
	_, err = io.ReadFull(c, buf) // it was counted
	if err == nil {
		_, err = c.Write(buf)
	}
	if err == nil {
		_, err = io.ReadFull(c, buf) // it is not counted any more
	}
	return errors.Join(err, c.Close())
}

// process is a running worker.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

func (w *world) start(o order) *process {
	w.Helper()
	text, err := json.Marshal(o)
	require.NoError(w, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(w, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, cmd.Start())
	p := &process{cmd, bufio.NewReader(out)}
	w.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return p
}
