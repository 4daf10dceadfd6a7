package redistest

import (
	"bufio"
	"crypto/rand"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// rawConn is a connection without a Redis client, because clients retry, and these tests must not.
type rawConn struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, addr string) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &rawConn{conn, bufio.NewReader(conn)}
}

func (c *rawConn) send(t *testing.T, command string) {
	t.Helper()
	_, err := io.WriteString(c, command+"\r\n")
	require.NoError(t, err)
}

func (c *rawConn) receive(t *testing.T) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	line, err := c.lines.ReadString('\n')
	require.NoError(t, err)
	return line
}

// ping requires the connection to be forwarded, in both directions.
func (c *rawConn) ping(t *testing.T) {
	t.Helper()
	c.send(t, "PING")
	require.Equal(t, "+PONG\r\n", c.receive(t))
}

// requireSilent waits about a hundred times as long as a reply takes.
func (c *rawConn) requireSilent(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err := c.lines.ReadByte()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "silent, but not closed")
}

func (c *rawConn) requireClosed(t *testing.T) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	_, err := c.lines.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, NewServer(t).Addr())
	c := dial(t, p.Addr())
	c.ping(t)
}

func TestHeldDataArrivesAfterResume(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	old := dial(t, p.Addr())
	old.ping(t)

	p.Hold()
	old.send(t, "INCR k")
	fresh := dial(t, p.Addr())
	fresh.send(t, "INCR k")
	old.requireSilent(t)
	fresh.requireSilent(t)
	require.Zero(t, s.Client().Exists(t.Context(), "k").Val(), "nothing reached the server")

	p.Resume()
	require.ElementsMatch(t, []string{":1\r\n", ":2\r\n"}, []string{old.receive(t), fresh.receive(t)})
}

func TestCopyOnAHeldConnectionArrivesAfterWhatIsSentOnANewOne(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	old := dial(t, p.Addr())
	old.ping(t)

	p.HoldOpen()
	old.send(t, "APPEND k old")
	old.requireSilent(t)
	fresh := dial(t, p.Addr())
	fresh.send(t, "APPEND k new")
	require.Equal(t, ":3\r\n", fresh.receive(t))
	require.NoError(t, old.Close()) // what it has sent is on its way
	p.Resume()
	require.Eventually(t, func() bool { return s.Client().Get(t.Context(), "k").Val() == "newold" }, soon, pollEvery)
	fresh.ping(t)
}

func TestRedirectCutsConnectionsAndConnectsNewOnesToTheNewTarget(t *testing.T) {
	t.Parallel()
	old, next := NewServer(t), NewServer(t)
	require.NoError(t, next.Client().Set(t.Context(), "k", "next", 0).Err())
	p := NewProxy(t, old.Addr())
	c := dial(t, p.Addr())
	c.send(t, "EXISTS k")
	require.Equal(t, ":0\r\n", c.receive(t))
	p.Redirect(next.Addr())
	c.requireClosed(t)
	c = dial(t, p.Addr())
	c.send(t, "EXISTS k")
	require.Equal(t, ":1\r\n", c.receive(t))
}

func TestHoldAlsoHoldsMessagesOfTheServer(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	c := dial(t, p.Addr())
	c.send(t, "SUBSCRIBE ch")
	for range 6 { // the lines of the confirmation
		c.receive(t)
	}
	p.Hold()
	require.EqualValues(t, 1, s.Client().Publish(t.Context(), "ch", "m").Val())
	c.requireSilent(t)
	p.Resume()
	require.Equal(t, "*3\r\n", c.receive(t))
}

func TestServerExecutesRequestsWhoseRepliesAreHeld(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	c := dial(t, p.Addr())
	p.HoldReplies()
	c.send(t, "INCR k")
	require.Eventually(t, func() bool { return s.Client().Get(t.Context(), "k").Val() == "1" }, soon, pollEvery)
	c.requireSilent(t)
	p.Cut()
	c.requireClosed(t)
	p.Resume()
	fresh := dial(t, p.Addr())
	fresh.send(t, "INCR k")
	require.Equal(t, ":2\r\n", fresh.receive(t), "the cut reply is lost")
}

// When a network fails, Redis does not notice that its client has closed the connection.
func TestHeldConnectionHidesThatTheClientClosed(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	c := dial(t, p.Addr())
	c.send(t, "CLIENT SETNAME victim")
	require.Equal(t, "+OK\r\n", c.receive(t))
	p.Hold()
	require.NoError(t, c.Close())
	gone := func() bool { return !strings.Contains(s.Client().ClientList(t.Context()).Val(), "name=victim") }
	require.Never(t, gone, 50*time.Millisecond, pollEvery)
	p.Resume()
	require.Eventually(t, gone, soon, pollEvery)
}

func TestCutClosesCurrentConnectionsOnly(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, NewServer(t).Addr())
	old := dial(t, p.Addr())
	old.ping(t)
	p.Cut()
	old.requireClosed(t)
	fresh := dial(t, p.Addr())
	fresh.ping(t)
}

func TestCutClosesHeldConnections(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, NewServer(t).Addr())
	p.Hold()
	c := dial(t, p.Addr())
	c.send(t, "PING")
	c.requireSilent(t)
	p.Cut()
	c.requireClosed(t)
}

func TestProxyClosesAConnectionWhoseTargetIsDown(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	p := NewProxy(t, s.Addr())
	require.NoError(t, s.Kill())
	dial(t, p.Addr()).requireClosed(t)
}

// Not parallel: it counts goroutines.
func TestCloseOfAHeldProxyLeavesNoGoroutine(t *testing.T) {
	s := NewServer(t)
	before := goleak.IgnoreCurrent()
	p, err := StartProxy(s.Addr())
	require.NoError(t, err)
	open := dial(t, p.Addr())
	open.ping(t)
	p.Hold()
	open.send(t, "PING")
	held := dial(t, p.Addr())
	require.NoError(t, p.Close())
	open.requireClosed(t)
	held.requireClosed(t)
	require.NoError(t, p.Close(), "a second Close does nothing")
	goleak.VerifyNone(t, before)
}

func TestProxyLosesTheReplyToTheNthScript(t *testing.T) {
	for name, hole := range map[string]bool{"and ends the connection": false, "and leaves the connection open": true} {
		t.Run(name, func(t *testing.T) {
			p := NewProxy(t, SharedServer(t).Addr())
			key := rand.Text()
			script := "*4"
			for _, word := range []string{"eval", "return redis.call('incr', KEYS[1])", "1", key} {
				script += "\r\n$" + strconv.Itoa(len(word)) + "\r\n" + word
			}
			c := dial(t, p.Addr())
			p.LoseReply(2, hole)
			c.send(t, script)
			require.Equal(t, ":1\r\n", c.receive(t))
			c.send(t, "PING")
			require.Equal(t, "+PONG\r\n", c.receive(t), "only scripts count")
			c.send(t, script)
			if hole {
				c.requireSilent(t)
			} else {
				c.requireClosed(t)
			}
			other := dial(t, p.Addr())
			other.send(t, script)
			require.Equal(t, ":3\r\n", other.receive(t), "the script was executed, and only one reply is lost")
		})
	}
}

func TestDelayedRepliesArriveLate(t *testing.T) {
	p := NewProxy(t, SharedServer(t).Addr())
	c := dial(t, p.Addr())
	const delay = 60 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	c.ping(t)
	require.GreaterOrEqual(t, time.Since(began), delay)
}

func TestHeldRequestsAreExecutedAfterResume(t *testing.T) {
	p := NewProxy(t, SharedServer(t).Addr())
	c := dial(t, p.Addr())
	c.ping(t)
	p.HoldRequests()
	c.send(t, "PING")
	c.requireSilent(t)
	p.Resume()
	require.Equal(t, "+PONG\r\n", c.receive(t))
}
