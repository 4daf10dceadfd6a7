package fairsemhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter]. Its CallOptions apply, such as MaxQueue, HeadStart
// and TTL. Any other type is refused with [fairsem.ErrInvalid].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// NoWait as [Options.MaxWait] makes a request not wait in the queue: it is refused if its units are not free, or if others wait.
// It waits for the answer of Redis for at most a second.
const NoWait time.Duration = gate.NoWait

// Options configure a [Handler] or a [Transport]. The zero value is the documented default. Functions are called by many
// goroutines at once.
type Options struct {
	// LimitOf returns the limit of a request, instead of one limit for all. It is called for every request, before any I/O, and should
	// do none: a handle such as client.Semaphore("tenant/"+tenant, 5) is cheap. If it returns an error, a Handler answers
	// 500, and a Transport returns it.
	LimitOf func(*http.Request) (Limit, error)

	// Weight returns how many units a request acquires. If nil, it is 1 for all. A Mutex has one unit.
	Weight func(*http.Request) int64

	// MaxWait is how long a request waits in the queue. If zero, it is 1 s for a Handler, and as long as the context of the request allows
	// for a Transport. See also NoWait.
	MaxWait time.Duration

	// OnUnavailable is the treatment of a request when Redis does not answer within MaxWait, or answers with an error of its own.
	OnUnavailable Policy

	// OnAdmitted is called for each request that Admit lets through without a permit, before it is handled. May be nil.
	OnAdmitted func(*http.Request, error)

	// OnRefused is called for each request that a Handler refuses, before the answer is written. May be nil. A Transport
	// returns the error instead.
	OnRefused func(*http.Request, error)

	// PolicyName is the name of the limit in the responses of a Handler; "default" if empty. All clients can see it,
	// so it is not the name of the limit in Redis. It must be printable ASCII.
	PolicyName string
}

// Policy is the treatment of requests when Redis does not answer.
type Policy int

const (
	// Refuse lets nothing through without a permit. It is the default.
	Refuse = Policy(gate.Refuse)

	// Admit lets the request through without a permit. The limit may then be exceeded, without bound. With a MaxWait of less than some
	// hundred milliseconds, a slow answer can count as none. In a Transport it needs a MaxWait: without one, a request may wait for Redis until
	// its context ends.
	Admit = Policy(gate.Admit)
)

// gateOf returns the gate of a Handler or a Transport.
func gateOf(who string, limit Limit, o Options) gate.Gate[*http.Request, Limit] {
	return gate.Gate[*http.Request, Limit]{
		Who: who, Limit: limit, LimitOf: o.LimitOf, Weight: o.Weight,
		MaxWait: o.MaxWait, OnUnavailable: gate.Policy(o.OnUnavailable), OnAdmitted: o.OnAdmitted,
	}
}

// checkPolicyName returns an error for a name that does not fit in a string of a structured field.
func checkPolicyName(name string) error {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return gate.Invalid(handlerName, "PolicyName %q is not printable ASCII", name)
		}
	}
	return nil
}
