package protocol

import (
	"slices"
	"time"
)

// A name is plain while nobody waits for it and every weight is 1. Its reply says so, and then the plain scripts, which
// are short, do for most calls what acquire and release do. They answer with one number, or with 0: the full script must
// answer, and nothing has changed.
var (
	PlainAcquireScript = plainScript("plain_acquire", []int{0, 2, 3, 5}, "known_epoch", "since", "lease", "count")
	PlainReleaseScript = plainScript("plain_release", []int{0, 2, 5})
)

// MaxPlainTTL is the longest lease with which plain calls are worth while. After a longer one, the release that leaves a name idle
// shortens how long its keys exist, and the acquire after that extends it, which only the full scripts do.
const MaxPlainTTL = 20 * time.Second

// PlainAcquire acquires permits of weight 1, after releasing others, for a client that knows the epoch and the server's time
// of its declaration.
func PlainAcquire[E Entry](s CallPrefix, d Declaration, epoch int64, ttl time.Duration, entries, released []E) Call {
	c := Call{PlainAcquireScript, make([]any, 0, len(s.plainAcquire)+4+len(entries)+len(released))}
	c.Args = append(append(c.Args, s.plainAcquire...), epoch, d.Since, ttl.Milliseconds(), len(entries))
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// PlainRelease releases permits of which no copy of an acquire may still be in flight.
func PlainRelease[E Entry](s CallPrefix, entries []E) Call {
	c := Call{PlainReleaseScript, make([]any, 0, len(s.plainRelease)+len(entries))}
	c.Args = append(c.Args, s.plainRelease...)
	addIDs(&c, entries)
	return c
}

// Declined reports whether a reply to s is that of a plain script which leaves the call to the full one.
func (s *Script) Declined(raw []int64) bool {
	return slices.Contains(PlainScripts, s) && len(raw) == 1 && raw[0] == 0
}

// DecodePlain converts the reply of a plain script that released some permits and then acquired others. It confirms what the
// call knew: the declaration and, if it acquired, the epoch.
func DecodePlain(raw []int64, d Declaration, epoch int64, released, acquired int) (Reply, error) {
	if len(raw) != 1 || raw[0] <= 0 || raw[0] > MaxUnits {
		return Reply{}, ErrReply
	}
	r := Reply{Since: d.Since, Next: -time.Millisecond, Plain: true, Results: make([]Result, released+acquired)}
	if acquired > 0 {
		r.Epoch = epoch
	}
	for i := range r.Results {
		r.Results[i].State = Held
		if i >= released {
			r.Results[i].Number = raw[0] + int64(i-released)
		}
	}
	return r, nil
}
