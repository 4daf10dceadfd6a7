package fairsemhttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fairsem/fairsem"
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter]. Its CallOptions apply, such as MaxQueue, HeadStart
// and TTL. Any other type is refused with [fairsem.ErrInvalid].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// NoWait as [Options.MaxWait] makes a request not wait in the queue: it is refused if its units are not free, or if others wait.
// It waits for the answer of Redis for at most a second.
const NoWait time.Duration = -1

const (
	defaultMaxWait = time.Second // of a Handler
	answerWait     = time.Second // of NoWait
)

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

	// OnUnavailable is what happens to a request when Redis does not answer within MaxWait, or answers with an error of its own.
	OnUnavailable Policy

	// OnAdmitted is called for each request that Admit lets through without a permit, before it is handled. May be nil.
	OnAdmitted func(*http.Request, error)

	// OnRefused is called for each request that a Handler refuses, before the answer is written. May be nil. A Transport
	// returns the error instead.
	OnRefused func(*http.Request, error)

	// PolicyName is the name of the limit in what a Handler answers; "default" if empty. It is for all who send requests to see,
	// so it is not the name of the limit in Redis. It must be printable ASCII.
	PolicyName string
}

// Policy is what happens to requests when Redis does not answer.
type Policy int

const (
	// Refuse lets nothing through without a permit. It is the default.
	Refuse Policy = iota

	// Admit lets the request through without a permit. The limit may then be exceeded, without bound. With a MaxWait of less than some
	// hundred milliseconds, a slow answer can count as none.
	Admit
)

// check returns why limit and options can never work. Both names are for the error.
func check(who string, limit Limit, o Options) error {
	switch _, lock := limit.(*fairsem.Mutex); {
	case o.LimitOf != nil && limit != nil:
		return invalid(who, "there is a limit and LimitOf: set one of them")
	case o.MaxWait < 0 && o.MaxWait != NoWait:
		return invalid(who, "MaxWait %v is below 0 and not NoWait", o.MaxWait)
	case o.OnUnavailable != Refuse && o.OnUnavailable != Admit:
		return invalid(who, "OnUnavailable %d is neither Refuse nor Admit", o.OnUnavailable)
	case lock && o.Weight != nil:
		return invalid(who, "a Mutex has one unit, so Weight must be nil")
	case o.LimitOf != nil:
		return nil
	}
	return checkLimit(who, limit)
}

func checkLimit(who string, limit Limit) error {
	made := false
	switch l := limit.(type) {
	case nil:
		return invalid(who, "there is no limit: pass a *fairsem.Semaphore, *fairsem.Mutex or *fairsem.Limiter")
	case *fairsem.Semaphore:
		made = l != nil && l.Inspector != nil
	case *fairsem.Mutex:
		made = l != nil && l.Inspector != nil
	case *fairsem.Limiter:
		made = l != nil && l.Inspector != nil
	default:
		return invalid(who, "a limit must be a *fairsem.Semaphore, *fairsem.Mutex or *fairsem.Limiter, not a %T", limit)
	}
	if !made {
		return invalid(who, "the %T is nil or a zero value: make it with a method of fairsem.Client", limit)
	}
	return nil
}

func invalid(who, format string, args ...any) error {
	return fmt.Errorf("%w: fairsemhttp.%s: %s", fairsem.ErrInvalid, who, fmt.Sprintf(format, args...))
}

// checkPolicyName returns an error for a name that does not fit in a string of a structured field.
func checkPolicyName(name string) error {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return invalid("Handler", "PolicyName %q is not printable ASCII", name)
		}
	}
	return nil
}
