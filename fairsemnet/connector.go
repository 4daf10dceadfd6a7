package fairsemnet

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

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

// mark is of one call of Connect, and of its dials. Some drivers leave a connection that they give up to the garbage collector, which never
// gets one whose permit is renewed.
type mark struct {
	mu      sync.Mutex
	dialled bool
	opened  []net.Conn // by the dials that have ended
}

// begin is called before a dial: the driver has given up what it had dialled until then. Dials that run side by side leave each other alone.
func (m *mark) begin() {
	m.mu.Lock()
	m.dialled = true
	m.mu.Unlock()
	m.close()
}

func (m *mark) add(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened = append(m.opened, c)
}

func (m *mark) isDialled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dialled
}

// close closes what was dialled, unless the driver has.
func (m *mark) close() {
	m.mu.Lock()
	all := m.opened
	m.opened = nil
	m.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // it was given up
	}
}

// Connect fails if the driver did not pass its context on: its connections would have no permits.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Value(onlyIdle{}) != nil {
		return nil, errOnlyIdle
	}
	m := new(mark)
	opened, err := c.Connector.Connect(context.WithValue(ctx, markOf{c.shared}, m))
	switch {
	case err != nil:
		m.close()
		return opened, err
	case m.isDialled():
		return opened, nil
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
