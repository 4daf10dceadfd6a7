package protocol

import (
	"slices"
	"time"
)

// Plain says which plain scripts may answer the next call about a name. They are short, and do for most calls what acquire and
// release do. Or they reply with 0: the full script must answer, and nothing has changed.
type Plain int64

// What a reply says of a name.
const (
	NotPlain          Plain = iota
	PlainWithoutQueue       // nobody waits: PlainAcquireScript and PlainReleaseScript
	PlainWithQueue          // PlainQueueScript
	PlainWithNumbers        // nobody waits, and permits have numbers: PlainNumbersAcquireScript and PlainNumbersReleaseScript
)

// The plain scripts.
var (
	PlainAcquireScript        = plainScript("plain_acquire", []int{0, 2, 3, 5}, "known_epoch", "since", "lease", "count")
	PlainReleaseScript        = plainScript("plain_release", []int{0, 2, 3, 5})
	PlainNumbersAcquireScript = plainScript("plain_numbers_acquire", []int{0, 2, 3, 5, 9}, "known_epoch", "since", "lease", "count")
	PlainNumbersReleaseScript = plainScript("plain_numbers_release", []int{0, 2, 3, 5, 9})
	PlainQueueScript          = plainScript("plain_queue", []int{0, 1, 2, 3, 5}, "caller", "wake", "known_epoch", "since", "lease", "head_start", "count")
)

// Known is what the caller of a plain script knows of the name. The script declines if it is not true.
type Known struct {
	Since int64 // the server's time of the caller's declaration
	Epoch int64
}

// PlainAcquire acquires permits of weight 1, after releasing others.
func PlainAcquire[E Entry](s CallPrefix, k Known, ttl time.Duration, entries, released []E) Call {
	return plainAcquire(PlainAcquireScript, s, k, ttl, entries, released)
}

// PlainNumbersAcquire is PlainAcquire for permits with numbers.
func PlainNumbersAcquire[E Entry](s CallPrefix, k Known, ttl time.Duration, entries, released []E) Call {
	return plainAcquire(PlainNumbersAcquireScript, s, k, ttl, entries, released)
}

func plainAcquire[E Entry](run *Script, s CallPrefix, k Known, ttl time.Duration, entries, released []E) Call {
	c := s.plainCall(run, 4+len(entries)+len(released))
	c.Args = append(c.Args, k.Epoch, k.Since, ttl.Milliseconds(), len(entries))
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// PlainRelease releases permits of which no copy of an acquire may still be in flight.
func PlainRelease[E Entry](s CallPrefix, entries []E) Call {
	c := s.plainCall(PlainReleaseScript, len(entries))
	addIDs(&c, entries)
	return c
}

// PlainNumbersRelease is PlainRelease where permits of the name have numbers.
func PlainNumbersRelease[E Entry](s CallPrefix, entries []E) Call {
	c := s.plainCall(PlainNumbersReleaseScript, len(entries))
	addIDs(&c, entries)
	return c
}

// PlainQueue acquires permits of weight 1, after releasing others. There may be none to acquire. Of p it needs the TTL and the
// head start: the call waits, however long the queue is.
func PlainQueue[E Entry](s CallPrefix, k Known, p AcquireParams, entries, released []E) Call {
	c := s.plainCall(PlainQueueScript, 5+len(entries)+len(released))
	c.Args = append(c.Args, k.Epoch, k.Since, p.TTL.Milliseconds(), p.HeadStart.Microseconds(), len(entries))
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// plainCall returns a call with what a plain script needs at each call, and capacity for room more.
func (s CallPrefix) plainCall(run *Script, room int) Call {
	begin := s.plain[slices.Index(PlainScripts, run)]
	return Call{run, append(make([]any, 0, len(begin)+room), begin...)}
}

// Declined reports whether a reply to s is that of a plain script which leaves the call to the full one.
func (s *Script) Declined(raw []int64) bool {
	return slices.Contains(PlainScripts, s) && len(raw) == 1 && raw[0] == 0
}

// plainHead is the count of numbers with which a reply of PlainQueueScript begins.
const plainHead = 4

// DecodePlain converts the reply of a plain script that released some permits and then acquired others, with this head start.
// It confirms what the call knew: the declaration and, if the script compares it, the epoch.
func (s *Script) DecodePlain(raw []int64, k Known, headStart time.Duration, released, acquired int) (Reply, error) {
	r := Reply{Since: k.Since, Epoch: k.Epoch, Next: -time.Millisecond, Plain: PlainWithoutQueue, Results: make([]Result, released+acquired)}
	held, first := int64(acquired), int64(0)
	switch {
	case s == PlainQueueScript && len(raw) >= plainHead && (len(raw)-plainHead)%3 == 0 && raw[0] <= MaxWait:
		r.Next = time.Duration(raw[0]) * time.Millisecond
		if r.Waiters, held, first = raw[1], raw[2], raw[3]; r.Waiters < 0 {
			r.Waiters = 0
		} else {
			r.Plain = PlainWithQueue
		}
		if !r.addGrants(raw[plainHead:]) {
			return Reply{}, ErrReply
		}
	case s == PlainNumbersAcquireScript && len(raw) == 1+acquired:
		first, r.Plain = raw[0], PlainWithNumbers
	case s == PlainNumbersReleaseScript && len(raw) == 1:
		first, r.Plain = raw[0], PlainWithNumbers
	case (s == PlainAcquireScript || s == PlainReleaseScript) && len(raw) == 1:
		first = raw[0]
	}
	if first <= 0 || first > MaxUnits || held < 0 || held > int64(acquired) {
		return Reply{}, ErrReply
	}
	if s == PlainReleaseScript || s == PlainNumbersReleaseScript {
		r.Epoch = 0
	}
	for i := range r.Results {
		n := int64(i - released)
		switch {
		case n < 0:
			r.Results[i] = Result{State: Held}
		case n < held:
			r.Results[i] = Result{State: Held, Number: first + n}
			if s == PlainNumbersAcquireScript {
				number := raw[1+n]
				if number < 0 || number > MaxUnits {
					return Reply{}, ErrReply
				}
				r.Results[i].Numbers = []int64{number}
			}
		default:
			r.Results[i] = Result{State: Waiting, Number: max(0, first+n-headStart.Microseconds())}
		}
	}
	return r, nil
}
