package fairsempgx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
)

// Options change the effect of a lost permit. The zero value is the documented default.
type Options struct {
	// OnLost is the treatment of an open connection whose permit is lost, or ends because the Client is closed. With
	// [fairsemnet.KeepOpen] an outage of Redis interrupts no query; there may then be more connections than the limit, until
	// those without a permit are closed, by the age or idle time that the pool allows.
	OnLost fairsemnet.LossPolicy
}

// Configure makes the pool that is created from config share the limit of s with all others configured like this, in all processes. It is
// called once for each pool, after all other fields of config are set and before [pgxpool.NewWithConfig]. Hooks that are set
// already are kept and called. Where BeforeConnect or ConnConfig.Tracer is replaced afterwards, calls of the pool fail with
// [fairsem.ErrInvalid]; for BeforeConnect from the second call on.
//
// The error is [fairsem.ErrInvalid].
func Configure(config *pgxpool.Config, s *fairsem.Semaphore) error {
	return Options{}.Configure(config, s)
}

// Configure is the function [Configure] with options.
func (o Options) Configure(config *pgxpool.Config, s *fairsem.Semaphore) error {
	if err := o.check(config, s); err != nil {
		return err
	}
	p := newPool(s, o.OnLost == fairsemnet.KeepOpen, int(config.MinConns), int(config.MaxConns))
	p.beforeClose = config.BeforeClose
	userTracer := config.ConnConfig.Tracer
	config.ConnConfig.Tracer = newTracer(p, userTracer)
	config.BeforeConnect = beforeConnect(p, userTracer, config.BeforeConnect)
	if before := config.BeforeAcquire; before != nil && config.PrepareConn == nil { //nolint:staticcheck // users still have it
		config.PrepareConn = func(ctx context.Context, c *pgx.Conn) (bool, error) { return before(ctx, c), nil }
	}
	config.PrepareConn = prepareConn(config.PrepareConn)
	config.ShouldPing = shouldPing(config.ShouldPing)
	if config.AfterRelease != nil || config.BeforeClose != nil {
		p.shedsAfterRelease = true
		config.AfterRelease = afterRelease(config.AfterRelease)
	}
	return nil
}

func (o Options) check(config *pgxpool.Config, s *fairsem.Semaphore) error {
	why := ""
	switch {
	case config == nil || config.ConnConfig == nil:
		why = "the config is nil: make it with pgxpool.ParseConfig"
	case config.ConnConfig.DialFunc == nil:
		why = "the config has no DialFunc: keep that of pgxpool.ParseConfig, or set one"
	case s == nil || s.Name() == "":
		why = "the Semaphore is nil or a zero value: set one that Client.Semaphore returned"
	case o.OnLost != fairsemnet.CloseConn && o.OnLost != fairsemnet.KeepOpen:
		why = fmt.Sprintf("OnLost %d is neither CloseConn nor KeepOpen", o.OnLost)
	default:
		if _, again := config.ConnConfig.Tracer.(*tracer); !again {
			return nil
		}
		why = "the config was configured before: parse one for each pool"
	}
	return fmt.Errorf("%w: fairsempgx.Configure: %s", fairsem.ErrInvalid, why)
}

// inside is the context of this package's own calls of Pool.Acquire. They get an idle connection or none.
type inside struct{ context.Context }

type insideKey struct{}

func (c inside) Value(key any) any {
	if key == (insideKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// isInside is for hooks that get the context of the call itself, and need not search it.
func isInside(ctx context.Context) bool {
	_, is := ctx.(inside)
	return is
}

var errNoIdle = errors.New("fairsempgx: no connection is idle")

// beforeConnect has each connection dial with a permit. The tracer of the pool is not that of its connections.
func beforeConnect(p *pool, userTracer pgx.QueryTracer, user func(context.Context, *pgx.ConnConfig) error) func(context.Context, *pgx.ConnConfig) error {
	return func(ctx context.Context, config *pgx.ConnConfig) error {
		if ctx.Value(insideKey{}) != nil {
			return errNoIdle
		}
		if _, ours := config.Tracer.(*tracer); !ours {
			return errTracer
		}
		config.Tracer = userTracer
		if user != nil {
			if err := user(ctx, config); err != nil {
				return err
			}
		}
		a := &attempt{pool: p, open: config.DialFunc}
		if callOf(ctx) == nil { // pgxpool opens it by itself, and one that is refused in the dial would break off those beside it
			permit, err := p.background(ctx)
			if err != nil {
				return notAvailable(ctx, err)
			}
			a.permit = permit
			context.AfterFunc(ctx, a.end) // pgx may never begin: a hook around this one may fail
		}
		config.DialFunc = a.dial
		config.Tracer = &marker{config.Tracer, a}
		after := config.AfterConnect
		config.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
			a.connected(c)
			if after == nil {
				return nil
			}
			return after(ctx, c)
		}
		return nil
	}
}

// notAvailable is how pgxpool learns that it may not have one more connection: that is no failure.
func notAvailable(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, fairsem.ErrUnavailable): // then pgxpool keeps the idle connections that it has
	case errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull), errors.Is(err, errFull),
		errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil: // backgroundWait is over
		return puddle.ErrNotAvailable
	}
	return err
}

// prepareConn has the pool drop connections whose permits were lost, and keeps the hook of the user from connections that are to be closed.
func prepareConn(user func(context.Context, *pgx.Conn) (bool, error)) func(context.Context, *pgx.Conn) (bool, error) {
	return func(ctx context.Context, c *pgx.Conn) (bool, error) {
		l := linkOf(c)
		switch {
		case l != nil && (l.lost.Load() || l.goes.Load()):
			return false, nil
		case user == nil || isInside(ctx):
			return true, nil
		}
		return user(ctx, c)
	}
}

func shouldPing(user func(context.Context, pgxpool.ShouldPingParams) bool) func(context.Context, pgxpool.ShouldPingParams) bool {
	return func(ctx context.Context, params pgxpool.ShouldPingParams) bool {
		switch {
		case isInside(ctx):
			return false
		case user == nil:
			return params.IdleDuration > time.Second // as pgxpool does
		}
		return user(ctx, params)
	}
}

// afterRelease has the pool close the connections that were marked when they were released.
func afterRelease(user func(*pgx.Conn) bool) func(*pgx.Conn) bool {
	return func(c *pgx.Conn) bool {
		keep := user == nil || user(c)
		l := linkOf(c)
		return keep && (l == nil || !l.goes.Load())
	}
}
