package fairsemgrpc

import (
	"context"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter]. Its CallOptions apply, such as MaxQueue, HeadStart
// and TTL. Any other type is refused with [fairsem.ErrInvalid].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// NoWait as [Options.MaxWait] makes a call not wait in the queue: it is refused if its units are not free, or if others wait. It
// waits for the answer of Redis for at most a second.
const NoWait time.Duration = gate.NoWait

// Options configure an interceptor. The zero value is the documented default. Functions are called by many goroutines at once.
// They get the context of the call, with its metadata (metadata.FromIncomingContext on a server, metadata.FromOutgoingContext in a
// client), and the full name of the method, such as /package.Service/Method.
type Options struct {
	// LimitOf returns the limit of a call, instead of one limit for all. It is called for every call, before any I/O, and should do
	// none: a handle such as client.Semaphore("tenant/"+tenant, 5) is cheap. If it returns an error, the call fails with Internal.
	LimitOf func(ctx context.Context, method string) (Limit, error)

	// Weight returns how many units a call acquires. If nil, it is 1 for all. A Mutex has one unit.
	Weight func(ctx context.Context, method string) int64

	// MaxWait is how long a call waits in the queue. If zero, it is 1 s on a server, and as long as the context of the call allows in
	// a client. See also NoWait.
	MaxWait time.Duration

	// OnUnavailable is the treatment of a call when Redis does not answer within MaxWait, or answers with an error of its own.
	OnUnavailable Policy

	// OnAdmitted is called for each call that Admit lets through without a permit, before it goes on. May be nil.
	OnAdmitted func(ctx context.Context, method string, err error)

	// OnRefused is called for each call that an interceptor of a server refuses, before the answer is sent. May be nil. An interceptor of
	// a client returns the error instead.
	OnRefused func(ctx context.Context, method string, err error)
}

// Policy is the treatment of calls when Redis does not answer.
type Policy int

const (
	// Refuse lets nothing through without a permit. It is the default.
	Refuse = Policy(gate.Refuse)

	// Admit lets the call through without a permit. The limit may then be exceeded, without bound. With a MaxWait of less than some
	// hundred milliseconds, a slow answer can count as none. In an interceptor of a client it needs a MaxWait: without one, a call may wait
	// for Redis until its context ends.
	Admit = Policy(gate.Admit)
)

// call is the call that a limit applies to.
type call struct {
	ctx    context.Context
	method string
}

// interceptor is the common part of the four interceptors.
type interceptor struct {
	gate      gate.Gate[call, Limit]
	onRefused func(ctx context.Context, method string, err error) // nil: none
}

// newInterceptor returns one whose calls wait for wait unless the options say otherwise. The name is for errors.
func newInterceptor(name string, limit Limit, o Options, wait time.Duration) (*interceptor, error) {
	i := &interceptor{gate: gate.Gate[call, Limit]{
		Who: "fairsemgrpc." + name, Limit: limit, MaxWait: o.MaxWait, OnUnavailable: gate.Policy(o.OnUnavailable),
	}}
	if o.MaxWait == 0 {
		i.gate.MaxWait = wait
	}
	if o.LimitOf != nil {
		i.gate.LimitOf = func(c call) (Limit, error) { return o.LimitOf(c.ctx, c.method) }
	}
	if o.Weight != nil {
		i.gate.Weight = func(c call) int64 { return o.Weight(c.ctx, c.method) }
	}
	if o.OnAdmitted != nil {
		i.gate.OnAdmitted = func(c call, err error) { o.OnAdmitted(c.ctx, c.method, err) }
	}
	i.onRefused = o.OnRefused
	return i, i.gate.Check()
}

// enter lends a permit to a call. The loan has none if the call needs none. The error is a [refusal]; the loan has ended then.
func (i *interceptor) enter(ctx context.Context, method string, loan *held.Loan) error {
	granted, err := i.gate.Lend(ctx, loan, call{ctx, method})
	if err == nil {
		return nil
	}
	if i.onRefused != nil {
		i.onRefused(ctx, method, err)
	}
	return refuse(ctx, granted.Limit, err)
}
