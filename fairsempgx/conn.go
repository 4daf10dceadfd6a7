package fairsempgx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// attempt is the dials for one connection of the pool: one or, if the server refuses TLS or has several addresses, more often.
type attempt struct {
	pool *pool
	open pgconn.DialFunc

	succeeded atomic.Bool // pgx has the connection

	mu     sync.Mutex
	marked bool            // pgx has begun: see marker
	over   bool            // pgx dials no more
	permit *fairsem.Permit // for the next dial: acquired before the first one, or of one that failed
	link   *link           // of the last dial that succeeded

	mayBegin bool // a server that has not answered may still begin a session
}

// dial is the DialFunc of the connection. pgx calls it for requests to cancel a query, too, when the connection is there: they
// take no slot of the server and need no permit.
func (a *attempt) dial(ctx context.Context, network, address string) (net.Conn, error) {
	permit, cancels, err := a.start(ctx)
	switch {
	case err != nil:
		return nil, err
	case cancels:
		return a.open(ctx, network, address)
	}
	if permit == nil {
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

// start returns the permit that is there for the dial, or says that this dial is for a request to cancel. pgx makes one, with a context of
// its own, also when a server breaks off a handshake, and meanwhile it dials the next address.
func (a *attempt) start(ctx context.Context) (permit *fairsem.Permit, cancels bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.marked:
		return nil, false, errTracer
	case a.succeeded.Load() || ctx.Value(attemptKey{}) != a:
		return nil, true, nil
	}
	permit, a.permit = a.permit, nil
	if permit != nil && permit.Context().Err() != nil {
		a.pool.dropped()
		permit = nil
	}
	return permit, false, nil
}

// keep has a permit wait for the next dial.
func (a *attempt) keep(p *fairsem.Permit) {
	a.mu.Lock()
	before, over := a.permit, a.over
	a.link, a.permit = nil, p
	a.mu.Unlock()
	if before != nil {
		a.pool.recycle(before)
	}
	if over {
		a.drop()
	}
}

// begin is called before the first dial.
func (a *attempt) begin() {
	a.mu.Lock()
	a.marked = true
	a.mu.Unlock()
}

// end is called, also more than once, when pgx has a connection or an error: there is no other dial.
func (a *attempt) end() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.drop()
}

// drop ends the wait for another dial.
func (a *attempt) drop() {
	a.mu.Lock()
	p, mayBegin := a.permit, a.mayBegin
	a.permit = nil
	a.mu.Unlock()
	switch {
	case p == nil:
	case mayBegin:
		time.AfterFunc(closeWait, func() { a.pool.recycle(p) })
	default:
		a.pool.recycle(p)
	}
}

// linkKey is where a connection knows its link.
const linkKey = "fairsempgx"

func (a *attempt) connected(c *pgconn.PgConn) {
	a.mu.Lock()
	a.succeeded.Store(true)
	l := a.link
	a.mu.Unlock()
	if l != nil {
		c.CustomData()[linkKey] = l
	}
}

// closed says whether the permit is for another dial.
func (a *attempt) closed(l *link) (another bool) {
	a.mu.Lock()
	another = !a.succeeded.Load() && a.link == l
	a.mayBegin = a.mayBegin || l.mayBegin
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

	answered atomic.Bool // the server has sent something
	mayBegin bool        // it had not when it was closed, and may still begin the session

	// closeCtx ends when Close no longer waits for the server.
	closeCtx    context.Context
	stopWaiting context.CancelFunc

	mu       sync.Mutex
	closing  bool        // the connection is being closed
	deadline time.Time   // that pgx has set; zero: none
	timer    *time.Timer // of the deadline of Close; nil: there was none
}

// isForOthers reports whether it is to be closed so that another process gets its permit.
func (l *link) isForOthers() bool { return l.goes.Load() && !l.recycle.Load() }

// NetConn returns the connection that was dialled.
func (l *link) NetConn() net.Conn { return l.Conn }

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 && !l.answered.Load() {
		l.answered.Store(true)
	}
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
	return held.Lost(err, l.permit, l.attempt.pool.sem.Name())
}

// SetDeadline sets the deadline of Read and Write, and while the connection is being closed that of Close instead. pgx sets it when the
// context of a call has ended, also of one that closes the connection.
func (l *link) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	if l.closing {
		l.stopWaitingAtDeadline()
		return nil
	}
	return l.Conn.SetDeadline(t)
}

// stopWaitingAtDeadline has Close return at the deadline. It is called with mu. During the dial Close takes as long as it takes: the dial
// of the next address is for the same permit.
func (l *link) stopWaitingAtDeadline() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.deadline.IsZero() && l.attempt.succeeded.Load() {
		l.timer = time.AfterFunc(time.Until(l.deadline), l.stopWaiting)
	}
}

// Close closes the connection and releases the permit. In between it waits until the server has ended the session: only then its
// slot is free. At the deadline Close returns, and the permit is released when the session has ended, or after closeWait.
func (l *link) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		if l.stop != nil {
			l.stop()
		}
		ended := make(chan error, 1)
		go func() { // ends within closeWait
			ended <- l.finish()
			l.stopWaiting()
		}()
		<-l.closeCtx.Done()
		select {
		case err = <-ended:
		default: // it goes on
			err = nil
		}
	})
	return err
}

// closeWait is how long the server may take to end a session, and to begin one that it has not answered. pgx dials the next address
// after Close, so for that Close takes answerWait only: the permit waits on, or is that of the next address.
const (
	closeWait  = 5 * time.Second
	answerWait = 250 * time.Millisecond
)

func (l *link) finish() error {
	l.mu.Lock()
	l.closing = true
	l.stopWaitingAtDeadline()
	l.mu.Unlock()
	l.awaitEnd()
	err := l.explain(l.Conn.Close())
	l.mu.Lock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.attempt.pool.closed(l)
	return err
}

// awaitEnd waits until the server closes its side.
func (l *link) awaitEnd() {
	wait := closeWait
	silent := !l.answered.Load()
	if silent {
		wait = answerWait
	}
	_ = l.Conn.SetDeadline(time.Now().Add(wait)) // a connection that is broken already fails below
	if l.lost.Load() || l.endOutput() != nil {
		return
	}
	_, err := io.Copy(io.Discard, l.Conn)
	l.mayBegin = silent && errors.Is(err, os.ErrDeadlineExceeded)
}

// endOutput has the server end the session, whether pgx has sent Terminate or not, as when a handshake fails. A DialFunc may hide
// CloseWrite; a server that is not prepared for Terminate closes the connection, too.
func (l *link) endOutput() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	_, err := l.Conn.Write([]byte{'X', 0, 0, 0, 4})
	return err
}

// lose is called when the permit has ended.
func (l *link) lose() {
	l.lost.Store(true)
	_ = l.Conn.Close() // Read and Write report it
	l.attempt.pool.forget(l)
}
