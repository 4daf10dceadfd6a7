package fairsemnet_test

import (
	"cmp"
	"context"
	"database/sql/driver"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
)

// The tests with a real database are in fairsempgx.

// connector is that of a driver of which a test needs no more than how it dials.
type connector struct {
	connect func(context.Context) (net.Conn, error)
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return session{closer: inner}, nil
}

func (connector) Driver() driver.Driver { return dummy{} }

type session struct {
	driver.Conn
	closer net.Conn
}

func (s session) Close() error { return s.closer.Close() }

type dummy struct{ driver.Driver }

func TestOpenDBRefusesWhatMakesNoSense(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	fine := fairsemnet.DBOptions{MaxOpen: 2}
	taken := &fairsemnet.Dialer{Semaphore: s}
	db, err := taken.OpenDB(connector{}, fine)
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	refused := func(d *fairsemnet.Dialer, c driver.Connector, o fairsemnet.DBOptions) error {
		db, err := d.OpenDB(c, o)
		assert.Nil(t, db)
		return err
	}
	free, odd := &fairsemnet.Dialer{Semaphore: s}, &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{OnLost: 7}}
	for why, refused := range map[string]error{
		"MaxOpen 0":            refused(free, connector{}, fairsemnet.DBOptions{}),
		"MaxIdleTime -1ns":     refused(free, connector{}, fairsemnet.DBOptions{MaxOpen: 2, MaxIdleTime: -1}),
		"MaxLifetime -1ns":     refused(free, connector{}, fairsemnet.DBOptions{MaxOpen: 2, MaxLifetime: -1}),
		"the Connector is nil": refused(free, nil, fine),
		"has no Semaphore":     refused(&fairsemnet.Dialer{}, connector{}, fine),
		"has opened a DB":      refused(taken, connector{}, fine),
		"is neither CloseC":    refused(odd, connector{}, fine),
	} {
		require.ErrorIs(t, refused, fairsem.ErrInvalid)
		assert.ErrorContains(t, refused, why)
	}
}

func TestOpenDBMakesTheSettingsOfTheDB(t *testing.T) {
	w := newWorld(t)
	d := &fairsemnet.Dialer{Semaphore: w.Semaphore(1)}
	db, err := d.OpenDB(connector{}, fairsemnet.DBOptions{MaxOpen: 7, MaxIdle: 3, MaxIdleTime: time.Hour})
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	assert.Equal(t, 7, db.Stats().MaxOpenConnections)
	assert.Equal(t, dummy{}, db.Driver())
}

func TestConnectionOfADBHoldsAUnitAndADialBesideItTakesNone(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: piped(t)}}
	connect := func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "", "") }
	db, err := d.OpenDB(connector{connect}, fairsemnet.DBOptions{MaxOpen: 1})
	require.NoError(t, err)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.Status(s).Used)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	beside, err := d.DialContext(ctx, "", "")
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.Status(s).Used)
	require.NoError(t, beside.Close())
	for range 20 { // a release that was on its way would be counted
		assert.Equal(t, int64(1), w.Status(s).Used)
	}
	require.NoError(t, c.Close())
	require.NoError(t, db.Close())
	w.EventuallyUsed(s, 0)
}

// lib/pq does that with sslmode=prefer, where a server has no TLS, and pgx with an AfterConnect that fails. The permit kept the connection from
// the garbage collector.
func TestConnectionThatADriverGivesUpWithoutClosingItHoldsNoUnit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }() // ends with here
		return here, nil
	}}}
	fails := false
	var connecting context.Context
	db, err := d.OpenDB(connector{func(ctx context.Context) (net.Conn, error) {
		connecting = ctx
		given, err := d.DialContext(ctx, "", "")
		if err == nil {
			_, err = given.Write([]byte("TLS?"))
		}
		if err != nil || fails {
			return nil, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		second, err := d.DialContext(ctx, "", "")
		assert.ErrorIs(t, given.SetDeadline(time.Time{}), io.ErrClosedPipe, "it is open")
		return second, err
	}}, fairsemnet.DBOptions{MaxOpen: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := db.Conn(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.Status(s).Used)
	short, stop := context.WithTimeout(connecting, time.Millisecond)
	defer stop()
	_, err = d.DialContext(short, "", "") // such as a context for cancelling that is made from that of Connect
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, c.Raw(func(open any) error { return open.(session).closer.SetDeadline(time.Time{}) }), "it is in use")
	require.ErrorIs(t, c.Raw(func(any) error { return driver.ErrBadConn }), driver.ErrBadConn) // which closes it
	w.EventuallyUsed(s, 0)

	fails = true
	_, err = db.Conn(ctx)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	w.EventuallyUsed(s, 0)
	require.NoError(t, db.Close())
}

// Drivers race the addresses of a host.
func TestDialsSideBySideOfOneConnectLeaveEachOtherAlone(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	both := make(chan struct{}, 2)
	pipe := piped(t)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		both <- struct{}{}
		for len(both) < cap(both) {
			runtime.Gosched()
		}
		return pipe(ctx, network, address)
	}}}
	db, err := d.OpenDB(connector{func(ctx context.Context) (net.Conn, error) {
		other := make(chan net.Conn, 1)
		go func() { // ends with the dial
			c, err := d.DialContext(ctx, "", "")
			assert.NoError(t, err)
			other <- c
		}()
		c, err := d.DialContext(ctx, "", "")
		if lost := <-other; assert.NotNil(t, lost) {
			assert.NoError(t, lost.Close())
		}
		if assert.NoError(t, err) {
			assert.NoError(t, c.SetDeadline(time.Now()), "it was closed")
		}
		return c, err
	}}, fairsemnet.DBOptions{MaxOpen: 1})
	require.NoError(t, err)
	c, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, db.Close())
	w.EventuallyUsed(s, 0)
}

// Its connections would have no permits.
func TestDriverThatDoesNotPassOnTheContextOfConnectIsRefused(t *testing.T) {
	w := newWorld(t)
	d := &fairsemnet.Dialer{Semaphore: w.Semaphore(1), Options: fairsemnet.Options{Dial: piped(t)}}
	var closed sync.WaitGroup
	closed.Add(1)
	db, err := d.OpenDB(connector{func(context.Context) (net.Conn, error) {
		c, err := d.DialContext(context.Background(), "", "")
		return closing{c, closed.Done}, err
	}}, fairsemnet.DBOptions{MaxOpen: 1})
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	_, err = db.Conn(t.Context())
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "the context of Connect")
	closed.Wait()
}

// closer is a connector that is to be closed.
type closer struct {
	connector
	err error
}

func (c closer) Close() error { return c.err }

func TestCloseOfADBClosesItsConnector(t *testing.T) {
	w := newWorld(t)
	d := &fairsemnet.Dialer{Semaphore: w.Semaphore(1)}
	db, err := d.OpenDB(closer{err: assert.AnError}, fairsemnet.DBOptions{MaxOpen: 1})
	require.NoError(t, err)
	assert.ErrorIs(t, db.Close(), assert.AnError)
}
