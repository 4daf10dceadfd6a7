package fairsempgx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairsem/fairsem"
)

// attempt is what one connection of the pool dials: once or, if the server refuses TLS or has several addresses, more often.
type attempt struct {
	pool *pool
	open pgconn.DialFunc

	mu        sync.Mutex
	permit    *fairsem.Permit // of a dial that failed, for the next one
	link      *link           // of the last dial that succeeded
	succeeded bool
}

// dial is the DialFunc of the connection. pgx calls it for requests to cancel a query, too, when the connection is there: they
// take no slot of the server and need no permit.
func (a *attempt) dial(ctx context.Context, network, address string) (net.Conn, error) {
	permit, cancels := a.start()
	if cancels {
		return a.open(ctx, network, address)
	}
	if permit == nil {
		var err error
		if permit, err = a.pool.permitFor(ctx, a); err != nil {
			return nil, err
		}
	}
	ok := false
	defer func() {
		if !ok {
			a.keep(permit)
		}
	}()
	inner, err := a.open(ctx, network, address)
	switch {
	case err != nil:
		return nil, err
	case inner == nil:
		return nil, errNoConn
	}
	ok = true
	l := a.pool.newLink(a, inner, permit)
	a.mu.Lock()
	a.link = l
	a.mu.Unlock()
	return l, nil
}

var errNoConn = fmt.Errorf("%w: fairsempgx: DialFunc returned neither a connection nor an error", fairsem.ErrInvalid)

func (a *attempt) start() (permit *fairsem.Permit, cancels bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.succeeded || a.link != nil {
		return nil, true
	}
	permit, a.permit = a.permit, nil
	if permit != nil && permit.Context().Err() != nil {
		a.pool.dropped()
		permit = nil
	}
	return permit, false
}

// keepFor is how long a permit waits for the next dial. Only the end of a call says that there is none.
const keepFor = time.Second

func (a *attempt) keep(p *fairsem.Permit) {
	a.mu.Lock()
	a.link, a.permit = nil, p
	a.mu.Unlock()
	time.AfterFunc(keepFor, a.drop)
}

// drop ends the wait for another dial.
func (a *attempt) drop() {
	a.mu.Lock()
	p := a.permit
	a.permit = nil
	a.mu.Unlock()
	if p != nil {
		a.pool.dropped()
		a.pool.recycle(p)
	}
}

// linkKey is where a connection knows its link.
const linkKey = "fairsempgx"

func (a *attempt) connected(c *pgconn.PgConn) {
	a.mu.Lock()
	a.succeeded = true
	l := a.link
	a.mu.Unlock()
	if l != nil {
		c.CustomData()[linkKey] = l
	}
}

// closed says whether the permit is for another dial.
func (a *attempt) closed(l *link) (another bool) {
	a.mu.Lock()
	another = !a.succeeded && a.link == l
	a.mu.Unlock()
	if another {
		a.keep(l.permit)
	}
	return another
}

func linkOf(c *pgx.Conn) *link {
	l, _ := c.PgConn().CustomData()[linkKey].(*link)
	return l
}

// link is a network connection and its permit.
type link struct {
	net.Conn
	attempt *attempt
	permit  *fairsem.Permit
	once    sync.Once
	stop    func() bool // of the wait for the end of the permit; nil: there is none
	lost    atomic.Bool // the end of the permit closed the connection
	goes    atomic.Bool // it is to be closed, so that another process gets its permit
	recycle atomic.Bool // it is to be closed, so that a call of this pool gets its permit
	async   atomic.Bool // Close does not wait for the server
}

// NetConn returns the connection that was dialled.
func (l *link) NetConn() net.Conn { return l.Conn }

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	return n, l.explain(err)
}

func (l *link) Write(b []byte) (int, error) {
	n, err := l.Conn.Write(b)
	return n, l.explain(err)
}

func (l *link) explain(err error) error {
	if err == nil || !l.lost.Load() {
		return err
	}
	if !errors.Is(err, net.ErrClosed) {
		err = fmt.Errorf("%w: %w", net.ErrClosed, err)
	}
	return fmt.Errorf("%w, because its permit of %q ended: %w", err, l.attempt.pool.sem.Name(), context.Cause(l.permit.Context()))
}

// Close closes the connection and releases the permit. In between it waits until the server has ended the session: only then its
// slot is free.
func (l *link) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		if l.stop != nil {
			l.stop()
		}
		if l.async.Load() {
			go func() { _ = l.finish() }() // ends within closeWait
			err = nil
			return
		}
		err = l.finish()
	})
	return err
}

// closeWait is how long the server may take to end a session.
const closeWait = 5 * time.Second

func (l *link) finish() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok && !l.lost.Load() {
		_ = l.SetDeadline(time.Now().Add(closeWait)) // a connection that is broken already is closed below
		if half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, l.Conn) // until the server closes its side
		}
	}
	err := l.explain(l.Conn.Close())
	l.attempt.pool.closed(l)
	return err
}

// lose is called when the permit has ended.
func (l *link) lose() {
	l.lost.Store(true)
	_ = l.Conn.Close() // Read and Write report it
	l.attempt.pool.forget(l)
}
