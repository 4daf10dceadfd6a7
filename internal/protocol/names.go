package protocol

import "strconv"

// anonymous begins a call without a client id. If it promotes waiters, all of them are notified by message.
func (k Keyspace) anonymous(name string, run *Script, q LimitSpec, room int) Call {
	k.ClientID = ""
	return k.About(name).newCall(run, Declaration{Spec: q, Nothing: true}, 0, room)
}

// The scripts about a name as a whole, and those of operators.
var (
	StatusScript = newScript("status", "at", "from")
	ResizeScript = newScript("resize", "pin", "asked")
	EvictScript  = newScript("evict", "id")
	PageScript   = newScript("page", "kind", "after", "after_id", "count")
)

// Status queries a name as of a server time in ms, 0 for now. from is how many of the expired entries earlier calls have
// counted.
func (k Keyspace) Status(name string, q LimitSpec, at, from int64) Call {
	c := k.anonymous(name, StatusScript, q, 2)
	c.Args = append(c.Args, at, from)
	return c
}

// Pin is a limit that is set by hand.
type Pin string

// Unpin is no limit: it removes the one that was set by hand.
const Unpin Pin = ""

// PinAt sets a limit by hand.
func PinAt(limit int64) Pin { return Pin(strconv.FormatInt(limit, 10)) }

// Resize sets a limit by hand, or removes it; asked is the time that Status returned for that.
func (k Keyspace) Resize(name string, q LimitSpec, pin Pin, asked int64) Call {
	c := k.anonymous(name, ResizeScript, q, 2)
	c.Args = append(c.Args, string(pin), asked)
	return c
}

// Promote grants the available units to waiters.
func (k Keyspace) Promote(name string, q LimitSpec) Call {
	c := k.anonymous(name, RefreshScript, q, 1)
	c.Args = append(c.Args, false)
	return c
}

// Evict removes a permit or a waiter.
func (k Keyspace) Evict(name string, q LimitSpec, id string) Call {
	c := k.anonymous(name, EvictScript, q, 1)
	c.Args = append(c.Args, id)
	return c
}

// Bookmark is the entry after which a page begins. The zero value is before the first entry.
type Bookmark struct{ number, id string }

// Page queries entries of the owner or queue key.
func (s CallPrefix) Page(kind string, after Bookmark, count int) Call {
	c := s.newCall(PageScript, Declaration{Nothing: true}, 0, 4)
	c.Args = append(c.Args, kind, after.number, after.id, count)
	return c
}
