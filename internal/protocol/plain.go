package protocol

import (
	"slices"
	"time"
)

// Plain says which plain scripts may answer the next call about a name. They are short, and replace acquire and release
// for most calls, and refresh for many ids at once. Or they reply with 0: the full script must answer, and nothing has changed.
type Plain int64

// Values of Plain: the part of a reply that describes the name.
const (
	NotPlain                Plain = iota
	PlainWithoutQueue             // no call waits: PlainAcquireScript and PlainReleaseScript
	PlainWithQueue                // PlainQueueScript
	PlainWithNumbers              // no call waits, and permits have numbers: PlainNumbersAcquireScript and PlainNumbersReleaseScript
	PlainWithTenants              // no call waits, and tenants share the name: for one of them PlainTenantsAcquireScript and PlainTenantsReleaseScript
	PlainWithTenantsInQueue       // PlainTenantsScript
)

// The plain scripts.
var (
	PlainAcquireScript        = plainScript("plain_acquire", PlainWithoutQueue, []int{0, 2, 3, 5}, "known_epoch", "since", "lease", "count")
	PlainReleaseScript        = plainScript("plain_release", PlainWithoutQueue, []int{0, 2, 5})
	PlainNumbersAcquireScript = plainScript("plain_numbers_acquire", PlainWithNumbers, []int{0, 2, 3, 5, 9}, "known_epoch", "since", "lease", "count")
	PlainNumbersReleaseScript = plainScript("plain_numbers_release", PlainWithNumbers, []int{0, 2, 5, 9})
	PlainTenantsScript        = plainScript("plain_tenants", PlainWithTenantsInQueue, []int{0, 1, 2, 3, 5, 6, 7, 8}, "caller", "wake", "known_epoch", "since", "lease", "queues", "count", "declared")
	PlainTenantsAcquireScript = plainScript("plain_tenants_acquire", PlainWithTenants, []int{0, 2, 3, 5, 8}, "known_epoch", "since", "lease", "count", "declared")
	PlainTenantsReleaseScript = plainScript("plain_tenants_release", PlainWithTenants, []int{0, 2, 5, 8})
	PlainRefreshScript        = plainScript("plain_refresh", PlainWithQueue, []int{0, 1, 2, 3, 5, 6, 7, 8}, "known_epoch", "since", "lease", "holding")
	PlainQueueScript          = plainScript("plain_queue", PlainWithQueue, []int{0, 1, 2, 3, 5}, "caller", "wake", "known_epoch", "since", "lease", "head_start", "count")
)

// Known is the knowledge of the caller of a plain script about the name. The script declines if it is not true.
type Known struct {
	Since int64 // the server's time of the caller's declaration
	Epoch int64
}

// PlainAcquire acquires permits of weight 1, after releasing others. The script is PlainAcquireScript or PlainNumbersAcquireScript.
func PlainAcquire[E Entry](script *Script, s CallPrefix, k Known, ttl time.Duration, entries, released []E) Call {
	c := s.plainCall(script, 4+len(entries)+len(released))
	c.Args = append(c.Args, k.Epoch, k.Since, ttl.Milliseconds(), len(entries))
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// PlainRelease releases permits of which no copy of an acquire may still be in flight. The script is PlainReleaseScript,
// PlainNumbersReleaseScript or, for entries of one tenant, PlainTenantsReleaseScript.
func PlainRelease[E Entry](script *Script, s CallPrefix, entries []E) Call {
	c := s.plainCall(script, len(entries))
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

// PlainTenants is PlainQueue on a name that tenants share, of which it declares some. Unless p has them queue in any case, it answers
// only if none of them needs to.
func PlainTenants[E Entry](s CallPrefix, k Known, p AcquireParams, declared []TenantSpec, entries, released []E) Call {
	c := s.plainCall(PlainTenantsScript, 6+4*len(declared)+len(entries)+len(released))
	c.Args = append(c.Args, k.Epoch, k.Since, p.TTL.Milliseconds(), p.QueuesInAnyCase(), len(entries), len(declared))
	c.addSpecs(declared)
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// PlainTenantsAcquire is PlainAcquire on a name that tenants share, where no call waits, for entries of one tenant.
// It may declare that tenant.
func PlainTenantsAcquire[E Entry](s CallPrefix, k Known, ttl time.Duration, declared []TenantSpec, entries, released []E) Call {
	c := s.plainCall(PlainTenantsAcquireScript, 5+4*len(declared)+len(entries)+len(released))
	c.Args = append(c.Args, k.Epoch, k.Since, ttl.Milliseconds(), len(entries), len(declared))
	c.addSpecs(declared)
	addIDs(&c, entries)
	addIDs(&c, released)
	return c
}

// PlainRefresh renews permits and waiters, of which the first hold.
func PlainRefresh[E Entry](s CallPrefix, k Known, ttl time.Duration, holding int, entries []E) Call {
	c := s.plainCall(PlainRefreshScript, 4+len(entries))
	c.Args = append(c.Args, k.Epoch, k.Since, ttl.Milliseconds(), holding)
	addIDs(&c, entries)
	return c
}

// plainCall returns a call with the arguments that each call of a plain script has, and capacity for room more.
func (s CallPrefix) plainCall(run *Script, room int) Call {
	begin := s.plain[slices.Index(PlainScripts, run)]
	return Call{run, append(make([]any, 0, len(begin)+room), begin...)}
}

// Declined reports whether a reply to s is that of a plain script which leaves the call to the full one.
func (s *Script) Declined(raw []int64) bool {
	return s.plain != NotPlain && len(raw) == 1 && raw[0] == 0
}

// plainHead is the count of numbers with which the replies of PlainQueueScript, PlainTenantsScript and PlainRefreshScript begin, queueHead
// that of those before the grants in the first of them.
const plainHead, queueHead = 3, plainHead + 2

// DecodePlain converts the reply of a plain script that released some permits and then acquired others, with this head start.
// It confirms the knowledge of the call: the declaration and, if the script compares it, the epoch.
func (s *Script) DecodePlain(raw []int64, k Known, headStart time.Duration, released, acquired int) (Reply, error) {
	r := Reply{Since: k.Since, Epoch: k.Epoch, Next: -time.Millisecond, Plain: s.plain, Results: make([]Result, released, released+acquired)}
	for i := range r.Results {
		r.Results[i] = Result{State: Held}
	}
	sound := len(raw) > 0
	switch {
	case !sound:
	case s == PlainQueueScript:
		sound = r.addQueued(raw, headStart, acquired)
	case s == PlainTenantsScript:
		sound = r.addOfTenants(raw, acquired)
	case s == PlainNumbersAcquireScript:
		sound = len(raw) == 1+acquired && r.addConsecutive(raw[0], acquired) && r.addNumbers(raw[1:])
	case s == PlainAcquireScript, s == PlainTenantsAcquireScript:
		sound = len(raw) == 1 && r.addConsecutive(raw[0], acquired)
	default: // a release, which compares no epoch
		r.Epoch = 0
		sound = len(raw) == 1 && raw[0] == 1 && acquired == 0
	}
	if !sound {
		return Reply{}, ErrReply
	}
	return r, nil
}

// addConsecutive adds the results of ids that all hold, whose tokens follow each other.
func (r *Reply) addConsecutive(first int64, count int) bool {
	for n := range int64(count) {
		r.Results = append(r.Results, Result{State: Held, Number: first + n})
	}
	return first > 0 && first <= MaxUnits
}

// addNumbers adds the numbers of units, one for each of the last results.
func (r *Reply) addNumbers(numbers []int64) bool {
	for i, number := range numbers {
		if number < 0 || number > MaxUnits {
			return false
		}
		r.Results[len(r.Results)-len(numbers)+i].Numbers = []int64{number}
	}
	return true
}

// DecodeRenewed converts the reply of PlainRefreshScript, which was asked to renew n entries, of which the first hold. What it did not
// renew is Gone in Results, whatever it is now. Results has no numbers.
func DecodeRenewed(raw []int64, k Known, holding, n int) (Reply, error) {
	r := Reply{Since: k.Since, Epoch: k.Epoch}
	if !r.addPlainHead(raw) {
		return Reply{}, ErrReply
	}
	r.Results = slices.Concat(slices.Repeat([]Result{{State: Held}}, holding), slices.Repeat([]Result{{State: Waiting}}, n-holding))
	for _, which := range raw[plainHead:] {
		if which < 1 || which > int64(n) {
			return Reply{}, ErrReply
		}
		r.Results[which-1].State = Gone
	}
	return r, nil
}

// addPlainHead adds what the replies of the plain scripts that know a queue begin with.
func (r *Reply) addPlainHead(raw []int64) bool {
	if len(raw) < plainHead || raw[0] < -1 || raw[0] > MaxWait || raw[1] < 0 || raw[2] < int64(NotPlain) || raw[2] > int64(PlainWithTenantsInQueue) {
		return false
	}
	r.Next, r.Waiters, r.Plain = time.Duration(raw[0])*time.Millisecond, raw[1], Plain(raw[2])
	return true
}

// addQueued adds the contents of a reply of PlainQueueScript.
func (r *Reply) addQueued(raw []int64, headStart time.Duration, acquired int) bool {
	if !r.addPlainHead(raw) || len(raw) < queueHead || (len(raw)-queueHead)%3 != 0 {
		return false
	}
	held, first := raw[plainHead], raw[plainHead+1]
	if held < 0 || held > int64(acquired) || first <= 0 || first > MaxUnits {
		return false
	}
	r.addConsecutive(first, int(held))
	for n := held; n < int64(acquired); n++ {
		r.Results = append(r.Results, Result{State: Waiting, Number: max(0, first+n-headStart.Microseconds())})
	}
	return r.addGrants(raw[queueHead:])
}

// addOfTenants adds the contents of a reply of PlainTenantsScript.
func (r *Reply) addOfTenants(raw []int64, acquired int) bool {
	grants := plainHead + 2*acquired // where they begin
	if !r.addPlainHead(raw) || len(raw) < grants || (len(raw)-grants)%3 != 0 {
		return false
	}
	known := len(r.Results)
	return r.addResults(raw[plainHead:grants]) && !slices.ContainsFunc(r.Results[known:], isNoEntry) && r.addGrants(raw[grants:])
}

// isNoEntry reports whether a result is not that of a permit with a token or of a waiter with a position.
func isNoEntry(one Result) bool {
	return one.State != Held && one.State != Waiting || one.Number <= 0 || one.Number > MaxUnits
}
