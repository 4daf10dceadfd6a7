package protocol

import (
	"slices"
	"time"
)

// Entry is a permit or a waiter in a call.
type Entry interface {
	PermitID() string
	Units() int64
	MaxWait() time.Duration // for how long it may wait, if AcquireParams.Bounded
}

// AcquireParams are the parameters that all requests of one acquire have in common.
type AcquireParams struct {
	TTL       time.Duration
	Wait      bool
	MaxQueue  int64
	HeadStart time.Duration
	Bounded   bool // of a rate: none joins the queue whose turn comes after its patience
	Numbered  bool // the units have numbers
}

// QueuesInAnyCase reports whether a call that cannot be granted anything joins the queue at its end, however long that is.
func (p AcquireParams) QueuesInAnyCase() bool { return p.Wait && p.MaxQueue == 0 && p.HeadStart == 0 }

// AcquireScript acquires.
var AcquireScript = newScript("acquire", "wait", "max_queue", "head_start", "bounded", "count", "released", "tenants_declared", "with_numbers")

// Acquire acquires permits, after releasing others.
func Acquire[E Entry](s CallPrefix, d Declaration, p AcquireParams, entries []E, released ...E) Call {
	c := s.newCall(AcquireScript, d, p.TTL, 8+4*len(d.Tenants)+3*len(entries)+len(released))
	c.Args = append(c.Args, p.Wait, p.MaxQueue, p.HeadStart.Microseconds(), p.Bounded, len(entries), len(released))
	c.addTenants(d.Tenants, p.Numbered)
	addIDs(&c, entries)
	if slices.ContainsFunc(entries, func(e E) bool { return e.Units() != 1 }) {
		for _, e := range entries {
			c.Args = append(c.Args, e.Units())
		}
	}
	if p.Bounded {
		for _, e := range entries {
			c.Args = append(c.Args, max(0, e.MaxWait().Milliseconds()))
		}
	}
	addIDs(&c, released)
	return c
}

// ReleaseScript releases.
var ReleaseScript = newScript("release", "overdue")

// Release releases permits and removes waiters. A tombstone refuses late copies of their acquire for that long. If overdue
// is set, their leases have ended: their client knows that slightly before Redis.
func Release[E Entry](s CallPrefix, d Declaration, tombstone time.Duration, overdue bool, entries []E) Call {
	c := s.newCall(ReleaseScript, d, tombstone, 1+len(entries))
	c.Args = append(c.Args, overdue)
	addIDs(&c, entries)
	return c
}

// RefreshScript renews and queries.
var RefreshScript = newScript("refresh", "knows_tokens")

// Refresh renews permits and waiters, or with a lease of 0 only queries them. If known is set, the reply may omit the
// tokens.
func Refresh[E Entry](s CallPrefix, d Declaration, lease time.Duration, known bool, entries []E) Call {
	c := s.newCall(RefreshScript, d, lease, 1+len(entries))
	c.Args = append(c.Args, known)
	addIDs(&c, entries)
	return c
}

// ReduceScript reduces.
var ReduceScript = newScript("reduce")

// Reduce lowers the weight of each permit to the units that it keeps.
func Reduce[E Entry](s CallPrefix, d Declaration, entries []E, keeps []int64) Call {
	c := s.newCall(ReduceScript, d, 0, 2*len(entries))
	addIDs(&c, entries)
	c.addNumbers(keeps)
	return c
}

// RestoreScript restores.
var RestoreScript = newScript("restore", "holder_count", "missed_in", "confirmed_in", "granted_in", "tenants_declared", "with_numbers")

// Claims are the former numbers and units of permits and waiters that are to be restored, permits before waiters.
type Claims struct {
	Holders   int      // how many of them are permits
	Epoch     int64    // in which they are missing
	Confirmed int64    // the epoch in which Redis had them last
	Granted   int64    // the last epoch in which one of the permits was granted; 0: unknown
	Numbers   []int64  // token or position of each
	Units     []int64  // of each
	Lists     []string // the numbers of each, as NumberList writes them; nil: no units have numbers
}

// Restore stores permits and waiters again with the numbers and units that they had.
func Restore[E Entry](s CallPrefix, d Declaration, lease time.Duration, entries []E, had Claims) Call {
	c := s.newCall(RestoreScript, d, lease, 6+4*len(d.Tenants)+4*len(entries))
	c.Args = append(c.Args, had.Holders, had.Epoch, had.Confirmed, had.Granted)
	c.addTenants(d.Tenants, had.Lists != nil)
	addIDs(&c, entries)
	c.addNumbers(had.Numbers)
	c.addNumbers(had.Units)
	for _, list := range had.Lists {
		c.Args = append(c.Args, list)
	}
	return c
}

func (c *Call) addNumbers(list []int64) {
	for _, n := range list {
		c.Args = append(c.Args, n)
	}
}

func addIDs[E Entry](c *Call, entries []E) {
	for _, e := range entries {
		c.Args = append(c.Args, e.PermitID())
	}
}
