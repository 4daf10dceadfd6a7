package fairsem

import "context"

// Locks are semaphores with another name for what they do: a [Mutex] has a limit of 1, and the writer
// of an [RWMutex] takes all the units that there are. There is no second mechanism, so what this
// package promises of permits it promises of locks.

// Mutex is a lock that processes share: one holder at a time, first come, first served. It is safe for
// concurrent use.
//
// What a holder has is a lease, as every [Permit] is. Its token fences: a store that refuses tokens
// lower than one it has seen is safe from a holder that was paused while its lease ended. A holder that
// locks again waits for itself.
type Mutex struct {
	*Inspector
	sem *Semaphore
}

// Mutex returns a handle on the lock of that name: the [Semaphore] of that name with a limit of 1. Names, cost and error are as with [Client.Semaphore].
//
// A name belongs to one kind of thing. A Mutex, an [RWMutex] and a [Semaphore] of the same name share
// holders, line and limit, and the limit that was declared last stands: a Semaphore of limit 5 under the
// name of a Mutex lets five callers have the lock, and so does [Inspector.SetLimit]. Looking at it declares nothing.
func (c *Client) Mutex(name string) (*Mutex, error) {
	s, err := c.Semaphore(name, 1)
	if err != nil {
		return nil, err
	}
	return newMutex(s), nil
}

// Lock waits until nobody holds the lock and everybody who asked before has been served. The caller
// must release the permit. Otherwise it is [Semaphore.Acquire], with its errors.
func (m *Mutex) Lock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "lock", 1, true)
}

// TryLock is Lock without waiting in line: if anybody holds the lock or waits for it, it returns
// [ErrNotAcquired]. It waits for Redis to say so, for as long as ctx allows.
func (m *Mutex) TryLock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "try-lock", 1, false)
}

// Do runs fn while it holds the lock, and gives it back when fn returns or panics. See [Semaphore.Do]
// for the context of fn and for the result.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return m.sem.do(ctx, "do", 1, fn)
}

// With returns a handle on the same lock whose calls have these options, as [Semaphore.With] does.
func (m *Mutex) With(o CallOptions) *Mutex { return newMutex(m.sem.With(o)) }

func newMutex(s *Semaphore) *Mutex { return &Mutex{s.Inspector, s} }

// allUnits is the limit of an RWMutex, and what its writer weighs: more than there will ever be readers,
// and a number that is read at a glance. It can never change: a writer of another version that took less
// than all would let readers in.
const allUnits = 1_000_000_000

// RWMutex is a lock that processes share, held by any number of readers or by one writer. It is safe
// for concurrent use.
//
// Readers and writers stand in one line, first come, first served. A writer that waits holds up the
// readers that come after it, and readers that stand next to each other get in together, so neither
// kind starves the other. Whoever holds the lock and asks again can wait for itself, a reader too, when
// a writer has come in between; and a reader cannot become a writer without releasing first.
//
// Tokens increase with every grant, to whichever kind, and a writer is alone: its token is larger than
// those of all who held before it, and lower than those of all who come after. A store that is to be
// safe from holders that were paused keeps the largest token that it has seen of anybody, and the largest
// of a writer. It refuses a write with a token lower than the first, and a read with a token lower than
// the second, so readers that hold together never shut each other out.
//
// To who looks at it, it is a semaphore of 1,000,000,000 units, of which a reader has one and a writer
// has all: [Status].Used is the number of readers, or the whole limit while a writer holds, and
// [Ticket].Weight tells readers and writers in line apart.
type RWMutex struct {
	*Inspector
	sem *Semaphore
}

// RWMutex returns a handle on the lock of that name. Names, cost and error are as with
// [Client.Semaphore], and a name belongs to one kind of thing, see [Client.Mutex]: where a lower limit
// was declared for it, or pinned, Lock returns [ErrExceedsLimit], and where a larger one, a writer is not
// alone.
func (c *Client) RWMutex(name string) (*RWMutex, error) {
	s, err := c.Semaphore(name, allUnits)
	if err != nil {
		return nil, err
	}
	return newRWMutex(s), nil
}

// Lock waits until nobody holds the lock, reader or writer, and everybody who asked before has been
// served. The caller must release the permit. Otherwise it is [Semaphore.Acquire], with its errors.
func (m *RWMutex) Lock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "lock", allUnits, true)
}

// TryLock is Lock without waiting in line: if anybody holds the lock or waits for it, it returns
// [ErrNotAcquired]. It waits for Redis to say so, for as long as ctx allows.
func (m *RWMutex) TryLock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "try-lock", allUnits, false)
}

// RLock waits until no writer holds the lock and everybody who asked before has been served. The caller
// must release the permit. Otherwise it is [Semaphore.Acquire], with its errors.
func (m *RWMutex) RLock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "rlock", 1, true)
}

// TryRLock is RLock without waiting in line: if a writer holds the lock, or anybody waits for it, it
// returns [ErrNotAcquired]. It waits for Redis to say so, for as long as ctx allows.
func (m *RWMutex) TryRLock(ctx context.Context) (*Permit, error) {
	return m.sem.acquire(ctx, "try-rlock", 1, false)
}

// Do runs fn while it holds the lock as a writer, and gives it back when fn returns or panics. See
// [Semaphore.Do] for the context of fn and for the result.
func (m *RWMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return m.sem.do(ctx, "do", allUnits, fn)
}

// RDo is [RWMutex.Do] as a reader.
func (m *RWMutex) RDo(ctx context.Context, fn func(context.Context) error) error {
	return m.sem.do(ctx, "rdo", 1, fn)
}

// With returns a handle on the same lock whose calls have these options, as [Semaphore.With] does.
func (m *RWMutex) With(o CallOptions) *RWMutex { return newRWMutex(m.sem.With(o)) }

func newRWMutex(s *Semaphore) *RWMutex { return &RWMutex{s.Inspector, s} }
