package fairsemnet_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
)

// connector is for a DB that is never used. The tests with a real database are in fairsempgx.
type connector struct{}

func (connector) Connect(context.Context) (driver.Conn, error) { return nil, driver.ErrBadConn }

func (connector) Driver() driver.Driver { return nil }

func TestShareDBRefusesWhatMakesNoSense(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	db := sql.OpenDB(connector{})
	defer func() { assert.NoError(t, db.Close()) }()
	fine := fairsemnet.DBOptions{MaxOpen: 2}
	taken := &fairsemnet.Dialer{Semaphore: s}
	require.NoError(t, taken.ShareDB(db, fine))
	for why, refused := range map[string]error{
		"MaxOpen 0":         (&fairsemnet.Dialer{Semaphore: s}).ShareDB(db, fairsemnet.DBOptions{}),
		"MaxIdleTime -1ns":  (&fairsemnet.Dialer{Semaphore: s}).ShareDB(db, fairsemnet.DBOptions{MaxOpen: 2, MaxIdleTime: -1}),
		"MaxLifetime -1ns":  (&fairsemnet.Dialer{Semaphore: s}).ShareDB(db, fairsemnet.DBOptions{MaxOpen: 2, MaxLifetime: -1}),
		"the DB is nil":     (&fairsemnet.Dialer{Semaphore: s}).ShareDB(nil, fine),
		"has no Semaphore":  (&fairsemnet.Dialer{}).ShareDB(db, fine),
		"to a DB before":    taken.ShareDB(db, fine),
		"is neither CloseC": (&fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{OnLost: 7}}).ShareDB(db, fine),
	} {
		require.ErrorIs(t, refused, fairsem.ErrInvalid)
		assert.ErrorContains(t, refused, why)
	}
}

func TestShareDBMakesTheSettingsOfTheDB(t *testing.T) {
	w := newWorld(t)
	db := sql.OpenDB(connector{})
	defer func() { assert.NoError(t, db.Close()) }()
	d := &fairsemnet.Dialer{Semaphore: w.Semaphore(1)}
	require.NoError(t, d.ShareDB(db, fairsemnet.DBOptions{MaxOpen: 7, MaxIdle: 3, MaxIdleTime: time.Hour}))
	assert.Equal(t, 7, db.Stats().MaxOpenConnections)
}
