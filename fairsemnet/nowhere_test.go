package fairsemnet

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// nowhere is a DB that shares, whose connections lead nowhere. Its tests call check themselves.
type nowhere struct {
	*worldtest.World
	*Dialer
	db    *sql.DB
	limit *fairsem.Semaphore // of another Client
	close func(net.Conn) error
}

// newNowhere returns a DB for which others leave all but one unit of a limit.
func newNowhere(t *testing.T, limit int64) *nowhere {
	t.Helper()
	w := &nowhere{World: worldtest.New(t), close: net.Conn.Close}
	w.limit = w.World.Semaphore(limit)
	w.Cleanup(w.Occupy(w.limit, 1))
	w.Dialer = &Dialer{Semaphore: w.World.Semaphore(limit), Options: Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		w.Cleanup(func() { _ = there.Close() }) // it never fails
		return here, nil
	}}}
	var err error
	w.db, err = w.OpenDB(w, DBOptions{MaxOpen: int(limit)})
	require.NoError(t, err)
	w.Cleanup(func() { assert.NoError(w, w.db.Close()) })
	w.shared.Load().watching = true // nothing else calls check
	return w
}

func (w *nowhere) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := w.DialContext(ctx, "", "")
	if err != nil {
		return nil, err
	}
	return session{close: func() error { return w.close(c) }}, nil
}

func (w *nowhere) Driver() driver.Driver { return nil }

type session struct {
	driver.Conn
	close func() error
}

func (s session) Close() error { return s.close() }

// take returns a connection.
func (w *nowhere) take() *sql.Conn {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	c, err := w.db.Conn(ctx)
	require.NoError(w, err)
	return c
}

// dials has a call wait for a connection of its own until the test ends, or until it has one: then it sends nil.
func (w *nowhere) dials() <-chan error {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() { // ends with ctx
		c, err := w.db.Conn(ctx)
		if err == nil {
			err = c.Close()
		}
		got <- err
	}()
	w.Cleanup(cancel)
	w.Eventually(func() bool { return w.Status(w.limit).Waiting == 1 }, "the call does not dial")
	return got
}

func (w *nowhere) pause() {
	w.Helper()
	require.NoError(w, w.limit.SetLimit(w.Context(), 0))
}

// No call gets the unit that an idle connection of a paused name releases.
func TestIdleConnectionsStayThroughAPauseThoughACallDials(t *testing.T) {
	w := newNowhere(t, 4)
	all := []*sql.Conn{w.take(), w.take(), w.take()}
	w.dials()
	w.pause()
	w.shared.Load().check()
	for _, c := range all {
		require.NoError(t, c.Close())
	}
	for range 3 {
		w.shared.Load().check()
		assert.Equal(t, 3, w.db.Stats().Idle)
	}
}

// A DB counts the call that dials as a connection, so the limit of what it has must, too.
func TestBusyDBIsNotDrainedByAPauseWhileACallDials(t *testing.T) {
	w := newNowhere(t, 4)
	all := []*sql.Conn{w.take(), w.take(), w.take()}
	w.dials()
	w.pause()
	for range 3 {
		for i, c := range all {
			w.shared.Load().check()
			require.NoError(t, c.Close())
			require.Equal(t, 1, w.db.Stats().Idle)
			all[i] = w.take()
		}
	}
	for _, c := range all {
		require.NoError(t, c.Close())
	}
}

// The close of a driver says good-bye to a server, which may take seconds.
func TestOneIdleConnectionIsClosedForACallThatDialsAndWhatIsReleasedMeanwhileIsKept(t *testing.T) {
	w := newNowhere(t, 6)
	closing, goOn := make(chan struct{}, 10), make(chan struct{})
	w.close = func(c net.Conn) error {
		closing <- struct{}{}
		<-goOn
		return c.Close()
	}
	all := []*sql.Conn{w.take(), w.take(), w.take(), w.take(), w.take()}
	got := w.dials()
	for _, c := range all[:2] { // of which one is enough
		require.NoError(t, c.Close())
	}
	checked := make(chan struct{})
	go func() { // ends when all is closed
		w.shared.Load().check()
		close(checked)
	}()
	<-closing
	released := make(chan struct{})
	go func() { // ends when all is closed
		<-checked
		for _, c := range all[2:] {
			assert.NoError(t, c.Close())
		}
		close(released)
	}()
	select {
	case <-released:
		assert.Equal(t, 4, w.db.Stats().Idle)
		assert.Empty(t, closing)
	case <-time.After(time.Minute):
		assert.Fail(t, "the check waits for the close")
	}
	close(goOn)
	require.NoError(t, <-got)
	w.Eventually(func() bool { now := w.db.Stats(); return now.Idle == 5 && now.OpenConnections == 5 }, "more were closed")
}
