package fairsem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/failure"
)

// Errors, to be tested for with [errors.Is]. A returned error names the semaphore and the cause.
var (
	// ErrNotAcquired: a call that does not wait, such as TryAcquire or TryLock, was refused. The units are not free, others are
	// before it, or its tenant would exceed its TenantLimit. Nothing is left in Redis. Or CallOptions.MaxWait has passed; then
	// the position in the queue is released in the background.
	ErrNotAcquired = errors.New("fairsem: not acquired")
	// ErrQueueFull: CallOptions.MaxQueue calls of the same tenant wait already. Nothing is left in Redis.
	ErrQueueFull = errors.New("fairsem: queue full")
	// ErrExceedsLimit: the weight exceeds the limit in force, of the name or of the tenant, so the call would wait forever.
	ErrExceedsLimit = errors.New("fairsem: weight exceeds the limit")
	// ErrLost: the permit expired, or could not be confirmed in time. Its units may have been granted to another caller.
	ErrLost = errors.New("fairsem: permit lost")
	// ErrEvicted: the permit was revoked, or the waiter removed, by hand: see [Inspector.Evict].
	ErrEvicted = errors.New("fairsem: evicted")
	// ErrNotFound: no permit and no waiter has that id.
	ErrNotFound = errors.New("fairsem: not found")
	// ErrReleased is the cause of a permit's context after Release, or after Close of its Client. After Close it is [ErrClosed], too.
	ErrReleased = errors.New("fairsem: permit released")
	// ErrClosed: the Client was closed.
	ErrClosed = failure.ErrClosed
	// ErrUnavailable: Redis did not answer for a whole TTL, or only with errors such as READONLY, or until the context of the call
	// ended; in Release, for a second. It wraps the last error.
	ErrUnavailable = errors.New("fairsem: Redis unavailable")
	// ErrInvalid: an argument that can never work. Nothing was sent.
	ErrInvalid = errors.New("fairsem: invalid argument")
)

// errNoClient is the error of zero values.
var errNoClient = fmt.Errorf("%w: this is a zero value: make it with Client.Semaphore, Client.Inspect or the like", ErrInvalid)

// errNilContext is the error of a nil context.
var errNilContext = fmt.Errorf("%w: the context is nil", ErrInvalid)

// errZeroClient is the error of a zero Client.
var errZeroClient = fmt.Errorf("%w: this is a zero Client: make it with New", ErrInvalid)

// How permits end whose holder is evicted, and those of a Client that is closed.
var (
	errHolderEvicted error = bothErrors{"fairsem: permit lost: evicted", ErrLost, ErrEvicted}
	errHolderClosed  error = bothErrors{"fairsem: permit released: client closed", ErrReleased, ErrClosed}
)

// bothErrors is two errors, in a text that begins with the package once.
type bothErrors struct {
	text     string
	one, two error
}

func (e bothErrors) Error() string   { return e.text }
func (e bothErrors) Unwrap() []error { return []error{e.one, e.two} }

// errPositionLost: Redis does not know a ticket that was not released. Its lease expired while this process or Redis stood
// still. Acquire asks again.
var errPositionLost = errors.New("fairsem: position in the queue lost")

// opError says which operation failed, and on which name; "": on none.
type opError struct {
	op, name string
	err      error
}

// wrap returns err with the operation and the name; nil stays nil.
func wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{op, name, err}
}

func nilContext(op, name string) error {
	return wrap(op, name, errNilContext)
}

func (e *opError) Error() string {
	what := e.op
	if e.name != "" {
		what = fmt.Sprintf("%s %q", e.op, e.name)
	}
	return fmt.Sprintf("fairsem: %s: %s", what, unprefixed(e.err))
}

func (e *opError) Unwrap() error { return e.err }

// unprefixed is the text of an error that is not the first in a message.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "fairsem: ") }

// advise adds advice to err.
func advise(err error) error {
	if what := failure.Advice(err); what != "" {
		return fmt.Errorf("%w (%s)", err, what)
	}
	return err
}

// unavailable returns the error of a call that got no answer for so long, or none but replies such as READONLY.
func unavailable(silence time.Duration, cause error) error {
	if cause == nil {
		cause = failure.ErrNoAnswer
	}
	what := "no answer"
	if failure.Refused(cause) || failure.IsUnreplicated(cause) {
		what = "no usable answer"
	}
	return fmt.Errorf("%w: %s from Redis for %v: %w", ErrUnavailable, what, silence.Round(time.Millisecond), cause)
}

// WaitError is the error of a call that was not granted, with the time until it would be. It is also [ErrNotAcquired].
type WaitError struct {
	RetryAfter time.Duration // until the same call would be granted, if no other came; or a lower bound, as from [Limiter.Allow]
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("%v: its turn would come in %v", ErrNotAcquired, e.RetryAfter)
}

// Unwrap returns [ErrNotAcquired].
func (e *WaitError) Unwrap() error { return ErrNotAcquired }

// ended returns the error of a call whose context has ended: that of the context, and its cause if that says more.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

var errLate = fmt.Errorf("%w: MaxWait has passed", ErrNotAcquired)

// withDoubt adds to the error of a call why Redis has not said yes or no; nil: it has.
func withDoubt(err, doubt error) error {
	if doubt == nil {
		return err
	}
	return &bothErrors{err.Error() + ": " + unprefixed(doubt), err, doubt}
}

// errNotYet is of a call that Redis has answered with neither yes nor no.
var errNotYet = errors.New("nothing is granted yet, because Redis may have lost state, see Options.Grace, or still removes expired entries")

// errTaken is the refusal of a call that does not wait.
var errTaken = fmt.Errorf("%w: too few units are free, others wait, or its tenant would exceed its TenantLimit", ErrNotAcquired)

// Why a permit was lost.
var (
	errMissing          = errors.New("it is not in Redis any more: it expired, or was removed")
	errRegranted        = errors.New("a server that had lost it granted it again, with other numbers")
	errForged           = errors.New("it is still in the queue: the message about its grant was forged")
	errAsleep           = errors.New("the machine was suspended")
	errTooLate          = errors.New("it was not renewed in time")
	errNoRefreshExpired = errors.New("nine tenths of its TTL are over, and it is never renewed")
)

// lossError is ErrLost with the reason. That is not part of the chain: it may be an io.EOF, or the end of a context, by which the readers of a
// response and callers decide.
type lossError struct{ why error }

// lostFor returns ErrLost with the reason.
func lostFor(why error) error { return &lossError{why} }

func (e *lossError) Error() string { return fmt.Sprintf("%v: %s", ErrLost, unprefixed(e.why)) }
func (e *lossError) Unwrap() error { return ErrLost }

// errOverdue is of a permit whose holder has looked at the clock before anything else noticed that its lease was over.
var errOverdue = lostFor(errors.New("its lease is over"))
