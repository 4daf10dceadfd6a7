package fairsem

import "context"

// Locks are semaphores under another name: a [Mutex] has a limit of 1, and the writer of an [RWMutex] acquires all units.
// There is no second mechanism, so the promises of this package about permits hold for locks.

// Mutex is a distributed lock: one holder at a time, first come, first served. It is safe for concurrent use.
//
// A holder has a lease, as with every [Permit]. Its token fences: a store that refuses tokens lower than one it has seen is safe
// from a holder that was paused while its lease ended. A holder that locks again waits for itself.
//
// Status, Holders, Waiters, SetLimit, Evict and others are methods of its [Inspector].
type Mutex struct {
	*Inspector
	sem *Semaphore
}

// Mutex returns a handle on the lock of that name, which is the [Semaphore] of that name with a limit of 1. Names, cost
// and error are those of [Client.Semaphore].
//
// A name should have one kind of handle, which nothing enforces. A Mutex, an [RWMutex] and a [Semaphore] of the same name share
// holders, queue and limit, and the limit that was declared last stands: with a Semaphore of limit 5 under the name of a Mutex
// five callers can hold the lock. The same happens with [Inspector.SetLimit].
func (c *Client) Mutex(name string) (*Mutex, error) {
	s, err := c.Semaphore(name, 1)
	if err != nil {
		return nil, err
	}
	return newMutex(s), nil
}

// Lock waits until the lock is free and all earlier calls of the same tenant have been granted. The caller must release the
// permit. Otherwise it is like [Semaphore.Acquire], with its errors.
func (m *Mutex) Lock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "lock", 1, inQueue)
}

// TryLock is Lock without waiting in the queue: if the lock is held, or other calls wait for it, it returns
// [ErrNotAcquired]. Calls of other tenants count as in [Semaphore.TryAcquire], and it waits for the answer of Redis as
// that does.
func (m *Mutex) TryLock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "try-lock", 1, atOnce)
}

// Request returns a request for the lock, for [AcquireAll]. It does no I/O.
func (m *Mutex) Request() Request { return m.semaphore().Request(1) }

// Do runs fn while it holds the lock, which it releases when fn returns or panics. See [Semaphore.Do] for the context of fn
// and for the result.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return m.semaphore().do(ctx, "do", 1, fn)
}

// With returns a handle on the same lock whose calls have these options, as [Semaphore.With] does.
func (m *Mutex) With(o CallOptions) *Mutex { return newMutex(m.semaphore().With(o)) }

// semaphore is nil for a handle that no Client has made: its methods return an error.
func (m *Mutex) semaphore() *Semaphore {
	if m == nil {
		return nil
	}
	return m.sem
}

func newMutex(s *Semaphore) *Mutex { return &Mutex{s.Inspector, s} }

// allUnits is the limit of an RWMutex, and the weight of its writer: more than there will ever be readers, and easy to recognize.
// It can never change: a writer of another version that acquired fewer units would let readers in.
const allUnits = 1_000_000_000

// RWMutex is a distributed lock that is held by any number of readers or by one writer. It is safe for concurrent use.
//
// Readers and writers wait in one queue, first come, first served. A waiting writer blocks the readers that come after it, and
// readers that are next to each other in the queue are granted together, so neither kind starves the other. Where tenants share
// the lock, this applies only to readers of the writer's own tenant; readers of other tenants can pass the writer until it is
// next. A holder that locks again can wait for itself; so can a reader, if a writer has queued in between. A reader cannot become
// a writer without releasing first.
//
// Tokens increase with every grant of either kind, and a writer is alone. So its token is larger than those of all earlier
// holders and smaller than those of all later ones. A store that is to be safe from holders that were paused keeps the
// largest token it has seen, and the largest token of a writer. It refuses a write with a token lower than the first, and a
// read with a token lower than the second, so readers that hold together never exclude each other.
//
// An [Inspector] shows a semaphore of 1,000,000,000 units, of which a reader has one and a writer all. [Status].Used is the
// number of readers, or the whole limit while a writer holds the lock. [Ticket].Weight tells readers from writers.
type RWMutex struct {
	*Inspector
	sem *Semaphore
}

// RWMutex returns a handle on the lock of that name. Names, cost and error are those of [Client.Semaphore]. A name should
// have one kind of handle, see [Client.Mutex]: with a lower limit above 0, declared or set by hand, Lock returns
// [ErrExceedsLimit], and with a larger one a writer is not alone.
func (c *Client) RWMutex(name string) (*RWMutex, error) {
	s, err := c.Semaphore(name, allUnits)
	if err != nil {
		return nil, err
	}
	return newRWMutex(s), nil
}

// Lock waits until the lock is free of readers and writers and all earlier calls of the same tenant have been granted. The caller
// must release the permit. Otherwise it is like [Semaphore.Acquire], with its errors.
func (m *RWMutex) Lock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "lock", allUnits, inQueue)
}

// TryLock is Lock without waiting in the queue: if the lock is held, or other calls wait for it, it returns
// [ErrNotAcquired]. Calls of other tenants count as in [Semaphore.TryAcquire], and it waits for the answer of Redis as
// that does.
func (m *RWMutex) TryLock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "try-lock", allUnits, atOnce)
}

// RLock waits until no writer holds the lock and all earlier calls of the same tenant have been granted. The caller must release the
// permit. Otherwise it is like [Semaphore.Acquire], with its errors.
func (m *RWMutex) RLock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "rlock", 1, inQueue)
}

// TryRLock is RLock without waiting in the queue: if a writer holds the lock, or other calls wait for it, it returns
// [ErrNotAcquired]. Calls of other tenants count as in [Semaphore.TryAcquire], and it waits for the answer of Redis as
// that does.
func (m *RWMutex) TryRLock(ctx context.Context) (*Permit, error) {
	return m.semaphore().acquire(ctx, "try-rlock", 1, atOnce)
}

// Request returns a request for the lock as a writer, for [AcquireAll]. It does no I/O.
func (m *RWMutex) Request() Request { return m.semaphore().Request(allUnits) }

// RRequest is [RWMutex.Request] as a reader.
func (m *RWMutex) RRequest() Request { return m.semaphore().Request(1) }

// Do runs fn while it holds the lock as a writer, and releases it when fn returns or panics. See [Semaphore.Do] for the
// context of fn and for the result.
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return m.semaphore().do(ctx, "do", allUnits, fn)
}

// RDo is [RWMutex.Do] as a reader.
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context) error) error {
	return m.semaphore().do(ctx, "rdo", 1, fn)
}

// With returns a handle on the same lock whose calls have these options, as [Semaphore.With] does.
func (m *RWMutex) With(o CallOptions) *RWMutex { return newRWMutex(m.semaphore().With(o)) }

func (m *RWMutex) semaphore() *Semaphore {
	if m == nil {
		return nil
	}
	return m.sem
}

func newRWMutex(s *Semaphore) *RWMutex { return &RWMutex{s.Inspector, s} }
