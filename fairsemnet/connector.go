package fairsemnet

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
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

// mark is of one call of Connect, and of its dials. Some drivers leave a connection that they give up to the garbage collector, which never
// gets one whose permit is renewed.
type mark struct {
	mu      sync.Mutex
	dialled bool
	over    bool       // Connect has returned
	opened  []net.Conn // by the dials that have ended; nil once it is over
}

// begin is called before a dial. What the driver has dialled and used until then it has given up. Of dials that run side by side it uses
// one, when it dials no more.
func (m *mark) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dialled = true
	m.opened = slices.DeleteFunc(m.opened, func(c net.Conn) bool {
		if held.IsUsed(c) {
			_ = c.Close() // unless the driver has
			return true
		}
		return false
	})
}

func (m *mark) add(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over { // else some transport goes on with a dial, in case another call wants it
		m.opened = append(m.opened, c)
	}
}

// closesItself is how long a driver may take to close the connection of a Connect that has failed: pgx first cancels a query.
const closesItself = 2 * time.Second

// end is called when Connect has returned. What a driver has dialled before it failed is closed soon.
func (m *mark) end(failed bool) (dialled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all := m.opened; failed && len(all) > 0 {
		time.AfterFunc(closesItself, func() {
			for _, c := range all {
				_ = c.Close() // unless the driver has
			}
		})
	}
	m.opened, m.over = nil, true
	return m.dialled
}

// Connect fails if the driver did not pass its context on: its connections would have no permits.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Value(onlyIdle{}) != nil {
		return nil, errOnlyIdle
	}
	m := new(mark)
	opened, err := c.Connector.Connect(context.WithValue(ctx, markOf{c.shared}, m))
	if dialled := m.end(err != nil); err != nil || dialled {
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

// markIn returns the mark of a dial for a connection of the DB, nil if it is one beside those.
func (s *sharedDB) markIn(ctx context.Context) *mark {
	m, _ := ctx.Value(markOf{s}).(*mark)
	return m
}
