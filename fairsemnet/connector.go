package fairsemnet

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/fairsem/fairsem"
)

// connector is that of a DB that shares. It marks the context of Connect, so that the Dialer knows which dials are for connections of the
// DB: a driver dials with a context of its own to cancel a query.
type connector struct {
	driver.Connector
	shared *sharedDB
}

// markOf is the key of the mark of a DB.
type markOf struct{ *sharedDB }

// onlyIdle is the key of a context with which no connection is opened.
type onlyIdle struct{}

var errOnlyIdle = errors.New("fairsemnet: no connection is idle")

// mark is of one call of Connect.
type mark struct{ dialled atomic.Bool }

// Connect fails if the driver did not pass its context on: its connections would have no permits.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Value(onlyIdle{}) != nil {
		return nil, errOnlyIdle
	}
	m := new(mark)
	opened, err := c.Connector.Connect(context.WithValue(ctx, markOf{c.shared}, m))
	if err != nil || m.dialled.Load() {
		return opened, err
	}
	if opened != nil {
		_ = opened.Close() // it has not been used
	}
	return nil, fmt.Errorf("%w: fairsemnet.Dialer.OpenDB: the driver must dial with d and the context of Connect", fairsem.ErrInvalid)
}

// Close is for a connector that is an io.Closer: sql.DB.Close calls it.
func (c connector) Close() error {
	if closer, ok := c.Connector.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// connects reports whether a dial with that context is for a connection of the DB, and not beside those.
func (s *sharedDB) connects(ctx context.Context) bool {
	m, ok := ctx.Value(markOf{s}).(*mark)
	if ok {
		m.dialled.Store(true)
	}
	return ok
}
