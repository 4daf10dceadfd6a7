package fairsemnet

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// Dialer opens connections that hold a unit of a semaphore each. It is safe for concurrent use; it must not be changed after
// the first call.
type Dialer struct {
	// Semaphore is the limit of the connections. Its CallOptions apply: MaxWait bounds the wait for a unit, and MaxQueue the
	// number of calls that wait.
	Semaphore *fairsem.Semaphore

	// Options change how connections are dialled, and the effect of a lost permit. The zero value is the documented default.
	Options Options

	shared atomic.Pointer[sharedDB] // nil: OpenDB was not called
}

// Options configure a [Dialer].
type Options struct {
	// Dial opens the connection once there is a unit for it. If nil, it is that of a zero [net.Dialer]. The end of its context
	// must not affect a connection that it has returned, as with [net.Dialer.DialContext].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// OnLost is the treatment of an open connection whose permit is lost, or ends because the Client is closed.
	OnLost LossPolicy
}

// LossPolicy is the treatment of a connection whose permit is lost.
type LossPolicy int

const (
	// CloseConn closes the connection: there are never more connections than the limit. It is the default.
	CloseConn LossPolicy = iota

	// KeepOpen leaves the connection open: an outage of Redis, or a revoked permit, interrupts no work. There may then be more
	// connections than the limit, until those without a permit are closed.
	KeepOpen
)

// DialContext waits for a unit, dials, and returns a connection that holds the unit until it is closed. The end of ctx ends
// both, and does not affect the connection. Nothing is dialled without a unit.
//
// For a *net.TCPConn, a *net.UnixConn or a *tls.Conn the connection has all methods of that type. For any other type it has
// CloseWrite, CloseRead beside CloseWrite, and SyscallConn if the dialled connection has them. Its method NetConn returns the dialled
// connection; for TLS, it is that of [tls.Conn].
//
// After [Dialer.OpenDB] a dial of the driver beside the connections of the DB, to cancel a query, takes no unit. Without OpenDB it waits
// for one, as any dial does.
//
// An error of Options.Dial is returned as it is. The other errors are those of [fairsem.Semaphore.Acquire]; if the wait was in
// vain, they say how many connections are in use, unless Redis does not answer at once. As a [net.Error] they are no timeouts; use
// [errors.Is] with [context.DeadlineExceeded]. A Dialer without a Semaphore returns [fairsem.ErrInvalid].
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	shared := d.shared.Load()
	var connecting *mark // nil: without a DB
	if shared != nil {
		if connecting = shared.markIn(ctx); connecting == nil {
			return d.open(ctx, network, address)
		}
		connecting.begin()
	}
	permit, err := shared.acquire(ctx, d.Semaphore)
	if err != nil {
		return nil, &refusal{d.explain(err)}
	}
	inner, err := d.dial(ctx, permit, network, address)
	if err != nil {
		return nil, err
	}
	shared.opened(permit)
	c := held.Conn(inner, permit, d.Semaphore.Name(), d.Options.OnLost == KeepOpen)
	if connecting != nil {
		connecting.add(c)
	}
	return c, nil
}

// check does the checks that Acquire does not do.
func (d *Dialer) check() error {
	switch {
	case d == nil || d.Semaphore == nil:
		return fmt.Errorf("%w: fairsemnet.Dialer has no Semaphore: set one that Client.Semaphore returned", fairsem.ErrInvalid)
	case d.Options.OnLost != CloseConn && d.Options.OnLost != KeepOpen:
		return fmt.Errorf("%w: fairsemnet.Dialer: OnLost %d is neither CloseConn nor KeepOpen", fairsem.ErrInvalid, d.Options.OnLost)
	}
	return nil
}

// dial calls Options.Dial. Unless it returns a connection, it releases the permit, also if Options.Dial panics.
func (d *Dialer) dial(ctx context.Context, permit *fairsem.Permit, network, address string) (inner net.Conn, err error) {
	defer func() {
		if inner == nil {
			held.Release(permit)
		}
	}()
	if d.Options.OnLost == CloseConn {
		scope := new(held.Scope)
		scope.Begin(ctx)
		scope.Bind(permit)
		defer scope.End()
		ctx = scope
	}
	return d.open(ctx, network, address)
}

func (d *Dialer) open(ctx context.Context, network, address string) (net.Conn, error) {
	open := d.Options.Dial
	if open == nil {
		open = new(net.Dialer).DialContext
	}
	inner, err := open(ctx, network, address)
	switch {
	case err != nil:
		return nil, err
	case inner == nil:
		return nil, fmt.Errorf("%w: fairsemnet.Dialer: Options.Dial returned neither a connection nor an error", fairsem.ErrInvalid)
	}
	return inner, nil
}
