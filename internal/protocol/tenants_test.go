package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/testclient"
)

// policy decides which tenant is next, in the simplest way that can be read. The scripts must do the same.
type policy struct {
	limit   int64
	holders map[string]*entry
	waiters []*entry // by position, then id
	tenants map[string]*tenant
	clock   int64    // counts grants and arrivals
	newest  int64    // the last grant
	granted []string // by the present call, in order
}

type entry struct {
	id, tenant string
	units      int64
	position   int64
}

type tenant struct {
	share, limit, since int64
	last                int64 // when it was granted something last; 0: never
	joined              since // if that is never: when the first of its calls joined the queue
}

// since is a time in the order of grants: right before the newest one, and there in the order of positions.
type since struct{ newest, position int64 }

func (p *policy) used(name string) (n int64) {
	for _, h := range p.holders {
		if h.tenant == name {
			n += h.units
		}
	}
	return n
}

func (p *policy) free() int64 {
	free := p.limit
	for _, h := range p.holders {
		free -= h.units
	}
	return free
}

func (p *policy) first(name string) *entry {
	for _, w := range p.waiters {
		if w.tenant == name {
			return w
		}
	}
	return nil
}

// next is the rule: of the tenants whose first waiter keeps within its limit, the one that holds the fewest units per share; of
// several, the one that was granted something longest ago. One that never was comes right before the last that was granted
// something when the first of its calls joined the queue.
func (p *policy) next() (next *entry) {
	var best *tenant
	var least int64
	for name, t := range p.tenants {
		head, used := p.first(name), p.used(name)
		if head == nil || t.limit > 0 && used+head.units > t.limit && head.units <= t.limit {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(used*best.share, least*t.share), t.without().compare(best.without())) < 0 {
			best, least, next = t, used, head
		}
	}
	return next
}

// without returns since when a tenant has been granted nothing.
func (t *tenant) without() since {
	if t.last == 0 {
		return t.joined
	}
	return since{t.last, math.MaxInt64}
}

func (s since) compare(other since) int {
	return cmp.Or(cmp.Compare(s.newest, other.newest), cmp.Compare(s.position, other.position))
}

func (p *policy) grant() {
	for {
		w := p.next()
		if w == nil || p.free() <= 0 {
			return
		}
		switch t := p.tenants[w.tenant]; {
		case w.units > p.limit || t.limit > 0 && w.units > t.limit: // it can never be granted
			p.leave(w.id)
		case w.units > p.free():
			return
		default:
			p.leave(w.id)
			p.clock++
			p.holders[w.id], t.last, p.newest = w, p.clock, p.clock
			p.granted = append(p.granted, w.id)
		}
	}
}

func (p *policy) leave(id string) {
	p.waiters = slices.DeleteFunc(p.waiters, func(w *entry) bool { return w.id == id })
}

// remove removes a permit or a waiter.
func (p *policy) remove(id string) {
	delete(p.holders, id)
	p.leave(id)
}

// forget removes tenants that have nothing and were never granted anything.
func (p *policy) forget() {
	for name, t := range p.tenants {
		if t.last == 0 && p.used(name) == 0 && p.first(name) == nil {
			delete(p.tenants, name)
		}
	}
}

// clone returns a copy on which nothing of p depends.
func (p *policy) clone() *policy {
	c := *p
	c.holders, c.waiters, c.granted = maps.Clone(p.holders), slices.Clone(p.waiters), slices.Clone(p.granted)
	c.tenants = make(map[string]*tenant)
	for name, t := range p.tenants {
		copied := *t
		c.tenants[name] = &copied
	}
	return &c
}

// acquire adds a request to the queue and makes the grants that are possible. If it must not wait, and is not granted, nothing has
// happened: a first waiter that its tenant's limit stops would let others pass.
func (p *policy) acquire(e *entry, wait bool, most int64) State {
	t := p.tenants[e.tenant]
	if e.units > p.limit || t.limit > 0 && e.units > t.limit {
		return TooBig
	}
	length := int64(0)
	for _, w := range p.waiters {
		if w.tenant == e.tenant {
			length++
		}
	}
	joined := p.clone()
	if length == 0 {
		joined.tenants[e.tenant].joined = since{p.newest, e.position}
	}
	joined.waiters = append(joined.waiters, e)
	slices.SortFunc(joined.waiters, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.id, b.id))
	})
	joined.grant()
	_, holds := joined.holders[e.id]
	switch {
	case !holds && !wait:
		return Refused
	case !holds && most > 0 && length >= most:
		return Full
	}
	*p = *joined
	if holds {
		return Held
	}
	return Waiting
}

// tenantWalk makes random calls on names that tenants share, and compares what happens with the policy.
type tenantWalk struct {
	*rand.Rand
	t        *testing.T
	labs     []*lab
	p        *policy
	heaviest int64
	ids      []string
	expired  map[string]bool // stored although its lease has ended
	specs    map[string]TenantSpec
	now      int64 // of declarations, in us
	ttl      time.Duration
	usual    bool // most calls are such as PlainTenantsScript may answer
	plain    int  // how many it answered, on the first lab
	declined bool // it does not answer the present one
	ended    bool // leases have ended, with which only scripts for names with waiters are concerned
	newest   map[*lab]string
}

var tenantNames = []string{"", "a", "ab", "b:1", "c\x00\xff", strings.Repeat("long", MaxTenant/4)}

// S12, S5 and what is counted, also where the plain script answers what it may.
func TestRandomCallsOfTenantsAreGrantedAsThePolicySays(t *testing.T) {
	t.Parallel()
	for n, limit := range []int64{1, 2, 3, 5, 8, 13} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			rdb := testclient.Settled(t)
			w := newTenantWalk(t, limit, newLab(t, rdb), newLab(t, rdb), newLab(t, testclient.Mini(t)))
			w.heaviest, w.usual = 1+int64(n%3), n%3 == 0
			onMini := 100
			if testing.Short() {
				onMini = 30
			}
			steps := walks(t, 400, 150, func(n int) {
				if n == onMini {
					w.labs = w.labs[:2] // miniredis is slow
				}
				w.step()
			})
			assert.True(t, !w.usual || w.plain > steps/8, "%d calls were answered by the plain script", w.plain)
		})
	}
}

func newTenantWalk(t *testing.T, limit int64, labs ...*lab) *tenantWalk {
	for _, l := range labs {
		l.seed("meta layout=2")
	}
	return &tenantWalk{
		Rand: seeded(t, 0), t: t, labs: labs, heaviest: 1, ttl: walkTTL,
		p:       &policy{limit: limit, holders: make(map[string]*entry), tenants: make(map[string]*tenant)},
		expired: make(map[string]bool), specs: make(map[string]TenantSpec), newest: make(map[*lab]string),
	}
}

func (w *tenantWalk) step() {
	if w.IntN(6) == 0 && !w.usual || w.IntN(40) == 0 {
		w.expire()
	}
	w.p.granted = nil
	for id := range w.expired { // every call removes them
		w.p.remove(id)
	}
	w.ended, w.expired = len(w.expired) > 0, make(map[string]bool)
	switch draw := w.IntN(10); {
	case draw < 5:
		w.acquire()
	case draw < 8:
		w.release()
	case w.usual && w.IntN(5) > 0:
		w.acquire()
	case draw == 8:
		w.reduce()
	default:
		w.evict()
	}
	w.p.forget()
}

// declare draws what calls declare of a tenant: mostly what is declared already, now and then something new or something old.
func (w *tenantWalk) declare(name string) TenantSpec {
	spec, known := w.specs[name]
	if !known || w.IntN(8) == 0 {
		w.now++
		spec = TenantSpec{name, 1 + w.Int64N(3), w.Int64N(2) * (1 + w.Int64N(5)), time.Duration(w.now) * time.Microsecond}
		w.specs[name] = spec
	} else if w.IntN(8) == 0 {
		return TenantSpec{name, 7, 1, spec.After - time.Microsecond}
	}
	return spec
}

func (w *tenantWalk) acquire() {
	if w.IntN(20) == 0 {
		w.ttl += 11 * time.Second // so the keys are renewed, and the permits counted again
	}
	params := AcquireParams{TTL: w.ttl, Wait: w.IntN(4) > 0, MaxQueue: int64(w.IntN(2) * 2), HeadStart: time.Duration(w.IntN(5)/4) * time.Hour}
	if w.usual {
		params.Wait, params.MaxQueue, params.HeadStart = params.Wait || w.IntN(4) > 0, 0, params.HeadStart*time.Duration(w.IntN(4)/3)
	}
	var released []*ticket
	for _, id := range w.leaving(w.IntN(3)) {
		released = append(released, &ticket{id: id})
		w.p.remove(id)
	}
	batch := 1 + w.IntN(3)
	if batch > 1 { // who waits, and whom a head start overtakes, then depends on when the script grants to others: after the last one of the batch
		params.MaxQueue, params.HeadStart = 0, 0
	}
	d := known(w.p.limit)
	var asked []*ticket
	for range batch {
		name := tenantNames[w.IntN(len(tenantNames))]
		id := fmt.Sprintf("client%d:%d", w.IntN(3), len(w.ids)+1)
		if name != "" {
			id += ":" + name
		}
		w.ids = append(w.ids, id)
		asked = append(asked, &ticket{id, 1 + w.Int64N(w.heaviest)})
		if !slices.ContainsFunc(d.Tenants, func(s TenantSpec) bool { return s.Name == name }) {
			d.Tenants = append(d.Tenants, w.declare(name))
		}
	}
	for _, spec := range d.Tenants {
		t := w.p.tenants[spec.Name]
		if t == nil {
			t = &tenant{share: 1}
			w.p.tenants[spec.Name] = t
		}
		if since := d.Since + spec.After.Microseconds(); since > t.since {
			changes := spec.Limit != t.limit
			t.share, t.limit, t.since = spec.Share, spec.Limit, since
			for head := w.p.first(spec.Name); changes && t.limit > 0 && head != nil && head.units > t.limit; head = w.p.first(spec.Name) {
				w.p.leave(head.id) // it can never be granted
			}
		}
	}
	w.p.grant()
	var want []State
	for _, a := range asked {
		w.p.clock++
		e := &entry{a.id, TenantOf(a.id), a.weight, w.p.clock}
		if params.Wait {
			e.position -= params.HeadStart.Microseconds()
		}
		want = append(want, w.p.acquire(e, params.Wait, params.MaxQueue))
	}
	w.p.grant()
	w.each(func(l *lab) Call {
		k, ok := w.tries(l, d)
		if ok && !w.ended && w.heaviest == 1 && w.IntN(2) == 0 {
			return PlainTenantsAcquire(l.space.About("name"), k, params.TTL, d.Tenants, asked, released)
		}
		if ok && w.heaviest == 1 {
			return PlainTenants(l.space.About("name"), k, params, d.Tenants, asked, released)
		}
		return Acquire(l.space.About("name"), d, params, asked, released...)
	}, len(released), len(asked), func(r Reply) {
		for i, a := range asked {
			got := w.inTheEnd(a.id, r.Results[len(released)+i].State)
			assert.Equal(w.t, stateNames[w.inTheEnd(a.id, want[i])], stateNames[got], "%q", a.id)
		}
	})
}

// inTheEnd returns the state of a request after its call. One that joins the queue may be granted what it wants by a later request of the
// same call, or at its end: policy and script differ in when, but not in what is granted.
func (w *tenantWalk) inTheEnd(id string, state State) State {
	if _, holds := w.p.holders[id]; holds && state == Waiting {
		return Held
	}
	return state
}

func (w *tenantWalk) release() {
	ids := w.leaving(1 + w.IntN(3))
	var released []*ticket
	for _, id := range ids {
		released = append(released, &ticket{id: id})
		w.p.remove(id)
	}
	w.p.grant()
	if len(ids) == 0 {
		w.each(func(l *lab) Call {
			return Refresh[*ticket](l.space.About("name"), known(w.p.limit), w.ttl, false, nil)
		}, 0, 0, nil)
		return
	}
	w.each(func(l *lab) Call {
		if k, ok := w.tries(l, known(w.p.limit)); ok {
			if !w.ended && w.IntN(2) == 0 {
				return PlainRelease(PlainTenantsReleaseScript, l.space.About("name"), released)
			}
			return PlainTenants(l.space.About("name"), k, AcquireParams{}, nil, nil, released)
		}
		return Release(l.space.About("name"), known(w.p.limit), 0, false, released)
	}, len(ids), 0, nil)
}

func (w *tenantWalk) reduce() {
	var all []*ticket
	var keeps []int64
	for _, id := range w.old(2) {
		all, keeps = append(all, &ticket{id: id}), append(keeps, 1)
		if h := w.p.holders[id]; h != nil {
			h.units = 1
		}
	}
	w.p.grant()
	w.each(func(l *lab) Call { return Reduce(l.space.About("name"), known(w.p.limit), all, keeps) }, len(all), 0, nil)
}

func (w *tenantWalk) evict() {
	for _, id := range w.old(1) {
		w.p.remove(id)
		w.p.grant()
		w.each(func(l *lab) Call { return l.space.Evict("name", LimitSpec{Limit: w.p.limit}, id) }, 1, 0, nil)
	}
}

// expire ends a lease.
func (w *tenantWalk) expire() {
	for _, id := range w.old(1) {
		_, holds := w.p.holders[id]
		if !holds && !slices.ContainsFunc(w.p.waiters, func(e *entry) bool { return e.id == id }) {
			continue
		}
		w.expired[id] = true
		for _, l := range w.labs {
			require.NoError(w.t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: id}).Err())
		}
	}
}

// old draws ids among the latest.
func (w *tenantWalk) old(n int) (ids []string) {
	latest := slices.Clone(w.ids[max(0, len(w.ids)-15):])
	w.Shuffle(len(latest), func(i, j int) { latest[i], latest[j] = latest[j], latest[i] })
	return latest[:min(len(latest), n)]
}

// leaving draws ids to release: among the latest, or mostly holders.
func (w *tenantWalk) leaving(n int) []string {
	if !w.usual || w.IntN(10) == 0 {
		return w.old(n)
	}
	holders := slices.Sorted(maps.Keys(w.p.holders))
	w.Shuffle(len(holders), func(i, j int) { holders[i], holders[j] = holders[j], holders[i] })
	return holders[:min(len(holders), n)]
}

// tries reports whether a call is to be made by the plain script, if it has such a form, and what the script has to know: on the
// first lab, until it declines.
func (w *tenantWalk) tries(l *lab, d Declaration) (Known, bool) {
	epoch, _ := strconv.ParseInt(l.meta(MetaEpoch), 10, 64)
	return Known{Since: d.Since, Epoch: epoch}, l == w.labs[0] && !w.declined
}

// ask makes a call, by the plain script or else by the full one.
func (w *tenantWalk) ask(l *lab, build func(*lab) Call, released, asked int) (Call, Reply) {
	w.t.Helper()
	c := build(l)
	if !slices.Contains(PlainScripts, c.Script) {
		return c, l.ask(c, released+asked)
	}
	before, got := l.contents(), l.run(c)
	require.NoError(w.t, got.err)
	if c.Script.Declined(got.numbers) {
		assert.Equal(w.t, before, l.contents(), "a call that was declined")
		w.declined = true
		defer func() { w.declined = false }()
		return w.ask(l, build, released, asked)
	}
	r, err := c.Script.DecodePlain(got.numbers, Known{}, 0, released, asked)
	require.NoError(w.t, err)
	w.plain++
	return c, r
}

// contents is the contents of the keys. A dump of a hash may change its order without a write.
func (l *lab) contents() (all []any) {
	l.t.Helper()
	s := l.snapshot()
	s.now = 0
	for i, left := range s.expiry {
		s.expiry[i] = min(left, 0) // whether it expires
	}
	all = append(all, s, l.rdb.HGetAll(background, l.keys[8]).Val())
	for _, key := range l.keys[6:8] {
		all = append(all, l.rdb.ZRangeWithScores(background, key, 0, -1).Val())
	}
	return all
}

// each makes a call on every server, and compares the state after it with the policy's.
func (w *tenantWalk) each(build func(*lab) Call, released, asked int, check func(Reply)) {
	w.t.Helper()
	for _, l := range w.labs {
		before := l.snapshot()
		c, r := w.ask(l, build, released, asked)
		if check != nil {
			check(r)
		}
		assert.False(w.t, r.More, "work is left")
		after := l.snapshot()
		var waiters []string
		for _, e := range w.p.waiters {
			waiters = append(waiters, e.id)
		}
		assert.Equal(w.t, waiters, members(after.queue), "who waits after %s", c.Script.Verb)
		had := scores(before.owner)
		var granted, holders []string
		for _, id := range members(after.owner) { // by token
			if _, held := had[id]; !held {
				granted = append(granted, id)
			}
			holders = append(holders, id)
		}
		assert.Equal(w.t, w.p.granted, granted, "who was granted something by %s", c.Script.Verb)
		assert.Len(w.t, w.p.holders, len(holders))
		for _, id := range holders {
			assert.Contains(w.t, w.p.holders, id)
		}
		l.checkTenants(after)
		w.checkList(l, after)
		newest := newestOf(l.rdb.HGet(background, l.keys[8], "all").Val())
		assert.GreaterOrEqual(w.t, newest, w.newest[l], "the newest token")
		w.newest[l] = newest
	}
}

// checkList compares the list of tenants with the policy. Expired entries do not count.
func (w *tenantWalk) checkList(l *lab, s snapshot) {
	w.t.Helper()
	if s.meta[MetaTenants] == "" {
		return
	}
	got := l.run(l.space.About("name").Tenants("0", 100))
	require.NoError(w.t, got.err)
	list, cursor, err := DecodeTenants(got.list)
	require.NoError(w.t, err)
	assert.Equal(w.t, "0", cursor)
	have := make(map[string]int64)
	for _, h := range w.p.holders {
		have[h.tenant]++
	}
	waiting := make(map[string]int64)
	for _, e := range w.p.waiters {
		waiting[e.tenant]++
		have[e.tenant] += 0
	}
	assert.Len(w.t, list, len(have), "tenants that have something")
	for _, e := range list {
		t := w.p.tenants[e.Name]
		assert.Equal(w.t, TenantEntry{e.Name, t.share, t.limit, w.p.used(e.Name), have[e.Name], waiting[e.Name], e.Waited}, e)
		assert.Equal(w.t, waiting[e.Name] == 0, e.Waited < 0, "whether its first waiter has waited")
	}
}

// newestOf returns the newest token that is stored beside the sum. Those of one length are ordered as numbers are.
func newestOf(sum string) string { return sum[strings.LastIndex(sum, " ")+1:] }

// checkTenants compares the stored counts of tenants with those that follow from the holders and waiters.
func (l *lab) checkTenants(s snapshot) {
	l.t.Helper()
	pipe := l.rdb.Pipeline()
	hash, lane, turn := pipe.HGetAll(background, l.keys[8]), pipe.ZRange(background, l.keys[6], 0, -1), pipe.ZRangeWithScores(background, l.keys[7], 0, -1)
	_, err := pipe.Exec(background)
	require.NoError(l.t, err)
	stored, lanes, turns := hash.Val(), lane.Val(), turn.Val()
	for i, ttl := range s.expiry[6:] {
		assert.NotEqual(l.t, time.Duration(-1), ttl, "%s never expires", Kinds[6+i])
	}
	if s.meta[MetaTenants] == "" {
		assert.Empty(l.t, len(lanes)+len(turns))
		return
	}
	units, permits := make(map[string]int64), make(map[string]int64)
	weightOf := func(id string) int64 {
		n, _ := strconv.ParseInt(cmp.Or(s.weight[id], "1"), 10, 64)
		return n
	}
	var all int64
	for _, id := range members(s.owner) {
		units[TenantOf(id)] += weightOf(id)
		permits[TenantOf(id)]++
		all += weightOf(id)
	}
	generation, _, _ := strings.Cut(stored["all"], " ")
	if len(s.owner) > 0 {
		assert.Regexp(l.t, fmt.Sprintf("^%s %d [0-9]+$", generation, all), stored["all"], "units of all")
		assert.LessOrEqual(l.t, newestOf(stored["all"]), s.counter, "the newest token")
	}
	newest, _ := strconv.ParseInt(newestOf(stored["all"]), 10, 64)
	last := make(map[string]int64) // the newest token of each tenant
	for _, z := range s.owner {
		id, token := z.Member.(string), int64(z.Score)
		last[TenantOf(id)] = max(last[TenantOf(id)], token)
		assert.GreaterOrEqual(l.t, newest, token, "the newest token, and that of %s", id)
	}
	heads, want := make(map[string]string), []string{}
	for _, z := range s.queue {
		id := z.Member.(string)
		tenant := TenantOf(id)
		rest := strings.TrimSuffix(id, ":"+tenant)
		want = append(want, fmt.Sprintf("%d:%s%014x%s", len(tenant), tenant, int64(z.Score), rest))
		if _, found := heads[tenant]; !found {
			heads[tenant] = id
		}
	}
	slices.Sort(want)
	assert.Equal(l.t, want, lanes, "lanes")
	var wantTurns []string
	for field, value := range stored {
		tenant, is := strings.CutPrefix(field, ":")
		if !is {
			continue
		}
		words := strings.Fields(value)
		require.Len(l.t, words, 7, value)
		number := func(i int) int64 { n, _ := strconv.ParseInt(words[i], 10, 64); return n }
		if words[0] != generation {
			words[1], words[2] = "0", "0"
		}
		granted, err := strconv.ParseInt(words[6][:14], 16, 64)
		require.NoError(l.t, err, value)
		assert.GreaterOrEqual(l.t, granted, last[tenant], "the last grant of %q, and the newest of its holders", tenant)
		assert.Equal(l.t, [2]int64{units[tenant], permits[tenant]}, [2]int64{number(1), number(2)}, "units and permits of %q", tenant)
		delete(units, tenant)
		head := heads[tenant]
		if head != "" {
			score := float64(1 << 53) // it may not be granted what it wants
			if number(4) == 0 || number(1)+weightOf(head) <= number(4) || weightOf(head) > number(4) {
				score = float64(number(1)) / float64(number(3))
			}
			wantTurns = append(wantTurns, fmt.Sprintf("%s%s %v", words[6], tenant, score))
		}
		delete(heads, tenant)
	}
	assert.Empty(l.t, units, "holders that are not counted")
	assert.Empty(l.t, heads, "waiters of tenants that are not stored")
	var got []string
	for _, z := range turns {
		got = append(got, fmt.Sprintf("%s %v", z.Member, z.Score))
	}
	slices.Sort(wantTurns)
	slices.Sort(got)
	assert.Equal(l.t, wantTurns, got, "turns")
}
