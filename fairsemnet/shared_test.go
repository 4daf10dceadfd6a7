package fairsemnet

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// nothing makes connections to nothing.
type nothing struct{}

func (nothing) Connect(context.Context) (driver.Conn, error) { return conn{}, nil }
func (nothing) Driver() driver.Driver                        { return nil }

type conn struct{ driver.Conn }

func (conn) Close() error { return nil }

// After one wait, a DB that is in use would ask for connections for ever, and take idle ones from others.
func TestDBIsFullOnlyWhileACallMayWait(t *testing.T) {
	t.Parallel()
	s := &sharedDB{db: sql.OpenDB(nothing{}), options: DBOptions{MaxOpen: 2}}
	defer func() { assert.NoError(t, s.db.Close()) }()
	s.db.SetMaxOpenConns(1)
	take := func() *sql.Conn {
		c, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		return c
	}
	first := take()
	assert.False(t, s.isFull(), "in use")
	waits := make(chan *sql.Conn)
	go func() { // ends when first is closed
		c, _ := s.db.Conn(t.Context())
		waits <- c
	}()
	require.Eventually(t, func() bool { return s.db.Stats().WaitCount == 1 }, time.Minute, time.Millisecond)
	for range 2 {
		assert.True(t, s.isFull(), "a call waits, however often it is asked")
	}
	require.NoError(t, first.Close())
	require.NoError(t, (<-waits).Close())
	assert.False(t, s.isFull(), "idle")
	last := take()
	assert.False(t, s.isFull(), "in use again")
	require.NoError(t, last.Close())
}

// The last check comes when the permit of the last connection ends. The DB counts that connection until the driver has closed it.
func TestCheckOfADBThatIsClosedStartsNothing(t *testing.T) {
	before := goleak.IgnoreCurrent() // no test runs beside this one
	s := &sharedDB{db: sql.OpenDB(nothing{}), options: DBOptions{MaxOpen: 1, MaxIdleTime: time.Hour}}
	require.False(t, s.isClosed())
	c, err := s.db.Conn(t.Context())
	require.NoError(t, err)
	s.relax()
	require.NoError(t, s.db.Close())
	require.NoError(t, goleak.Find(before), "what closes idle connections ends with the DB")
	s.hasten(0)
	s.relax()
	assert.NoError(t, goleak.Find(before))
	assert.NoError(t, c.Close())
}
