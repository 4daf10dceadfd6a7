package protocol

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// askPlain makes a call with a plain script, whatever is known of the name. It reports false if the call has no plain form, or
// all were declined; a call that is declined has changed nothing.
func (w *walk) askPlain(l *lab, c Call, ids []string, released int) (Reply, bool) {
	w.t.Helper()
	for _, plain := range l.plainForms(c, w.tickets(ids), released) {
		before := l.dump()
		got := l.run(plain)
		require.NoError(w.t, got.err)
		if plain.Script.Declined(got.numbers) {
			assert.Equal(w.t, before, l.dump(), "a call that was declined")
			continue
		}
		w.plain[plain.Script]++
		headStart := time.Duration(0)
		if c.Script == AcquireScript {
			headStart = time.Duration(c.Script.Argument(c.Args, "head_start").(int64)) * time.Microsecond
		}
		r, err := plain.Script.DecodePlain(got.numbers, Known{Epoch: 1}, headStart, released, len(ids)-released)
		require.NoError(w.t, err)
		return r, true
	}
	return Reply{}, false
}

// plainForms returns the plain forms of a call about ids, of which the first are to be released.
func (l *lab) plainForms(c Call, ids []*ticket, released int) (all []Call) {
	l.t.Helper()
	since, known := c.Script.Argument(c.Args, "since").(int64)
	if !known || slices.ContainsFunc(ids[released:], func(t *ticket) bool { return t.weight != 1 }) {
		return nil
	}
	argument := func(name string) any { return c.Script.Argument(c.Args, name) }
	space, k := l.space, Known{Since: since}
	space.ClientID = argument("caller").(string)
	about := space.About("name")
	k.Epoch, _ = strconv.ParseInt(l.rdb.HGet(background, l.keys[5], "epoch").Val(), 10, 64)
	lease := time.Duration(argument("lease").(int64)) * time.Millisecond
	switch {
	case c.Script == ReleaseScript && lease == 0 && len(ids) > 0:
		return []Call{PlainRelease(PlainReleaseScript, about, ids), PlainQueue(about, k, AcquireParams{}, nil, ids)}
	case c.Script == AcquireScript && len(ids) > released:
		all = append(all, PlainAcquire(PlainAcquireScript, about, k, lease, ids[released:], ids[:released]))
		if argument("wait") == true && argument("max_queue") == int64(0) {
			p := AcquireParams{TTL: lease, HeadStart: time.Duration(argument("head_start").(int64)) * time.Microsecond}
			all = append(all, PlainQueue(about, k, p, ids[released:], ids[:released]))
		}
	}
	return all
}

// A plain script answers as the full one does, or leaves the call to it and changes nothing.
func TestPlainScriptsDoWhatTheFullOnesDo(t *testing.T) {
	t.Parallel()
	const meta = " | meta declared=3 layout=2 since=7 until=80s plain=3"
	const held = "owner you:1=5 | timeout you:1=20s | counter 6"
	const three = "owner me:1=5 me:2=6 you:1=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=30s plain=3"
	notPlain := strings.Replace(meta, " plain=3", "", 1)
	soon := strings.Replace(meta, "80s", "30s", 1)
	acquires, releases := acquiring(known(3), nil), releasing(3, 0)

	const full = "owner you:1=4 me:1=5 | timeout you:1=20s me:1=20s | counter 8 | meta declared=2 layout=2 since=7 until=80s plain=2+"
	queue := strings.NewReplacer(" | timeout", " | queue you:2=6 me:2=7 you:3=8 | timeout", " | counter", " you:2=20s me:2=20s you:3=20s | counter").Replace(full)
	paceDue := strings.Replace(queue, " plain", " marked_at=1 plain", 1)
	queues := acquiring(known(2), nil)
	headStart := func(p *AcquireParams) { p.HeadStart = time.Second }
	shortLease := func(p *AcquireParams) { p.TTL = 10 * time.Second }
	maxQueue := func(p *AcquireParams) { p.MaxQueue = 4 }
	for name, c := range map[string]struct {
		contract
		answers bool
	}{
		"of one":                                          {contract{seed: held + meta, call: acquires, ids: []string{"me:1"}}, true},
		"of several that just fit":                        {contract{seed: held + meta, call: acquires, ids: []string{"me:1", "me:2"}}, true},
		"of one too many":                                 {contract{seed: held + meta, call: acquires, ids: []string{"me:1", "me:2", "me:3"}}, true},
		"of one without wait":                             {contract{seed: held + meta, call: acquiring(known(3), noWait), ids: []string{"me:1"}}, true},
		"without a holder":                                {contract{seed: "counter 6" + meta, call: acquires, ids: []string{"me:1", "me:2"}}, true},
		"without a counter":                               {contract{seed: meta[3:], call: acquires, ids: []string{"me:1"}}, false},
		"of an unused name":                               {contract{call: acquires, ids: []string{"me:1"}}, false},
		"of one that holds":                               {contract{seed: held + meta, call: acquires, ids: []string{"you:1"}}, false},
		"of one that holds and a new one":                 {contract{seed: held + meta, call: acquires, ids: []string{"you:1", "me:1"}}, false},
		"of one with a tombstone":                         {contract{seed: "timeout me:1=20s | counter 6" + meta, call: acquires, ids: []string{"me:1"}}, false},
		"with a number from the future":                   {contract{seed: held + "000000000000000" + meta, call: acquires, ids: []string{"me:1"}}, false},
		"with a newer limit":                              {contract{seed: held + meta, call: acquiring(declares(1, 8), nil), ids: []string{"me:1"}}, false},
		"with an older limit":                             {contract{seed: held + meta, call: acquiring(declares(1, 6), nil), ids: []string{"me:1", "me:2"}}, true},
		"of a name that is not plain":                     {contract{seed: held + notPlain, call: acquires, ids: []string{"me:1"}}, false},
		"for which the keys must last":                    {contract{seed: held + soon, call: acquires, ids: []string{"me:1"}}, true},
		"that releases one":                               {contract{seed: held + meta, call: acquires, ids: []string{"-you:1", "me:1"}}, true},
		"that just fits, for it releases":                 {contract{seed: held + meta, call: acquires, ids: []string{"-you:1", "me:1", "me:2", "me:3"}}, true},
		"that releases an unknown one":                    {contract{seed: held + meta, call: acquires, ids: []string{"-you:2", "me:1"}}, false},
		"that fits if one is released twice":              {contract{seed: held + meta, call: acquires, ids: []string{"-you:1", "-you:1", "me:1", "me:2", "me:3"}}, false},
		"that releases, without a holder":                 {contract{seed: "counter 6" + meta, call: acquires, ids: []string{"-you:1", "me:1"}}, false},
		"release of one of several":                       {contract{seed: three, call: releases, ids: []string{"me:1"}}, true},
		"release of several":                              {contract{seed: three, call: releases, ids: []string{"me:1", "me:2"}}, true},
		"release of an unknown one":                       {contract{seed: three, call: releases, ids: []string{"me:1", "me:3"}}, false},
		"release of an unused name":                       {contract{seed: meta[3:], call: releases, ids: []string{"me:1"}}, false},
		"release after a long lease":                      {contract{seed: strings.Replace(three, "until=30s", "until=90s", 1), call: releases, ids: []string{"me:1"}}, true},
		"last release after a long lease":                 {contract{seed: strings.Replace(three, "until=30s", "until=90s", 1), call: releases, ids: []string{"me:1", "me:2", "you:1"}}, true},
		"last release beside a tombstone":                 {contract{seed: strings.NewReplacer("until=30s", "until=90s", " | counter", " you:2=20s | counter").Replace(three), call: releases, ids: []string{"me:1", "me:2", "you:1"}}, true},
		"last release of a pinned limit":                  {contract{seed: strings.Replace(three, "until=30s", "until=90s pinned=3", 1), call: releases, ids: []string{"me:1", "me:2", "you:1"}}, true},
		"of a pinned limit, for which the keys must last": {contract{seed: held + soon + " pinned=3", call: acquires, ids: []string{"me:1"}}, true},
		"release that leaves a tombstone":                 {contract{seed: three, call: releasing(3, 10*time.Second), ids: []string{"me:1"}}, false},

		"that queues":                                        {contract{seed: queue, call: queues, ids: []string{"me:3"}}, true},
		"of several that queue":                              {contract{seed: queue, call: queues, ids: []string{"me:3", "you:4"}}, true},
		"that begins the queue":                              {contract{seed: full, call: queues, ids: []string{"me:3"}}, true},
		"that begins the queue and fits in part":             {contract{seed: full, call: acquiring(known(2), nil), ids: []string{"-me:1", "me:3", "me:4", "me:5"}}, true},
		"that fits on a name that had a queue":               {contract{seed: full, call: queues, ids: []string{"-me:1", "me:3"}}, true},
		"that queues with a head start":                      {contract{seed: queue, call: acquiring(known(2), headStart), ids: []string{"me:3"}}, true},
		"that queues for a shorter lease":                    {contract{seed: queue, call: acquiring(known(2), shortLease), ids: []string{"me:3"}}, false},
		"that does not wait in a queue":                      {contract{seed: queue, call: acquiring(known(2), noWait), ids: []string{"me:3"}}, false},
		"that waits in a short queue only":                   {contract{seed: queue, call: acquiring(known(2), maxQueue), ids: []string{"me:3"}}, false},
		"of one that waits":                                  {contract{seed: queue, call: queues, ids: []string{"me:2"}}, false},
		"of one that waits and a new one":                    {contract{seed: queue, call: queues, ids: []string{"you:2", "me:3"}}, false},
		"that queues by a newer limit":                       {contract{seed: queue, call: acquiring(declares(9, 8), nil), ids: []string{"me:3"}}, false},
		"that queues by an older limit":                      {contract{seed: queue, call: acquiring(declares(9, 6), nil), ids: []string{"me:3"}}, true},
		"that releases one and queues":                       {contract{seed: queue, call: queues, ids: []string{"-you:1", "me:3"}}, true},
		"that releases all and queues":                       {contract{seed: queue, call: queues, ids: []string{"-you:1", "-me:1", "me:3"}}, true},
		"that releases more than wait":                       {contract{seed: queue, call: acquiring(known(2), nil), ids: []string{"-you:1", "-me:1", "me:3", "me:4"}}, true},
		"that releases one that waits":                       {contract{seed: queue, call: queues, ids: []string{"-me:2", "me:3"}}, false},
		"that releases one twice":                            {contract{seed: queue, call: queues, ids: []string{"-you:1", "-you:1", "me:3"}}, false},
		"release of one of several, with a queue":            {contract{seed: queue, call: releases, ids: []string{"me:1"}}, true},
		"release of several, with a queue":                   {contract{seed: queue, call: releases, ids: []string{"me:1", "you:1"}}, true},
		"release that leaves a tombstone, with a queue":      {contract{seed: queue, call: releasing(2, 10*time.Second), ids: []string{"me:1"}}, false},
		"release of one that waits":                          {contract{seed: queue, call: releases, ids: []string{"me:2"}}, false},
		"release of one twice":                               {contract{seed: queue, call: releases, ids: []string{"me:1", "me:1"}}, false},
		"release where a holder expired":                     {contract{seed: strings.Replace(queue, "you:1=20s", "you:1=-10s", 1), call: releases, ids: []string{"me:1"}}, false},
		"release of one that expired":                        {contract{seed: strings.Replace(queue, "me:1=20s", "me:1=-10s", 1), call: releases, ids: []string{"me:1"}}, false},
		"release where a waiter expired":                     {contract{seed: strings.Replace(queue, "me:2=20s", "me:2=-10s", 1), call: releases, ids: []string{"me:1"}}, false},
		"release where a waiter is at no position":           {contract{seed: strings.Replace(queue, "you:2=6", "you:2=6.5", 1), call: releases, ids: []string{"me:1"}}, false},
		"release where a waiter's id is no client's":         {contract{seed: strings.ReplaceAll(queue, "me:2=", "me2="), call: releases, ids: []string{"me:1"}}, true},
		"release above a limit that was lowered":             {contract{seed: strings.NewReplacer("declared=2", "declared=1", "plain=2", "plain=1").Replace(queue), call: releases, ids: []string{"me:1"}}, true},
		"release of a name whose queue is empty":             {contract{seed: full, call: releases, ids: []string{"me:1"}}, true},
		"release of all of a name whose queue is empty":      {contract{seed: strings.Replace(full, "80s", "40s", 1), call: releases, ids: []string{"me:1", "you:1"}}, true},
		"release of all after a long lease":                  {contract{seed: full, call: releases, ids: []string{"me:1", "you:1"}}, true},
		"that fits on an idle name that had a queue":         {contract{seed: strings.NewReplacer("owner you:1=4 me:1=5 | timeout you:1=20s me:1=20s | ", "").Replace(full), call: queues, ids: []string{"me:3"}}, true},
		"release when the pace is due":                       {contract{seed: paceDue, call: releases, ids: []string{"me:1"}}, true},
		"that queues when the pace is due":                   {contract{seed: paceDue, call: queues, ids: []string{"me:3"}}, true},
		"release that empties the queue, the pace due":       {contract{seed: strings.NewReplacer(" me:2=7 you:3=8", "", " me:2=20s you:3=20s", "").Replace(paceDue), call: releases, ids: []string{"me:1", "you:1"}}, true},
		"that begins the queue when the pace is due":         {contract{seed: strings.Replace(full, " plain", " marked_at=1 plain", 1), call: queues, ids: []string{"me:3"}}, true},
		"that fits when the pace is due":                     {contract{seed: strings.Replace(full, " plain", " marked_at=1 plain", 1), call: queues, ids: []string{"-me:1", "me:3"}}, true},
		"that queues, with a number from the future":         {contract{seed: strings.Replace(queue, "counter 8", "counter 8000000000000000", 1), call: queues, ids: []string{"me:3"}}, false},
		"that queues and for which the keys must last":       {contract{seed: strings.Replace(queue, "until=80s", "until=30s", 1), call: queues, ids: []string{"me:3"}}, true},
		"that queues on a name that is not plain":            {contract{seed: strings.Replace(queue, " plain=2+", "", 1), call: queues, ids: []string{"me:3"}}, false},
		"that queues on a name stored as without a queue":    {contract{seed: strings.Replace(full, "2+", "2", 1), call: queues, ids: []string{"me:3"}}, true},
		"of no more than fit, without a queue":               {contract{seed: strings.Replace(full, "2+", "2", 1), call: queues, ids: []string{"-me:1", "me:3"}}, true},
		"that fits on a name that is stored as with a queue": {contract{seed: full, call: acquiring(known(2), noWait), ids: []string{"-me:1", "me:3"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full, _ := outcomeOf(t, c.contract, false)
			plain, answered := outcomeOf(t, c.contract, true)
			assert.Equal(t, full, plain)
			assert.Equal(t, c.answers, answered, "whether the plain script answers")
		})
	}
}

// outcomeOf makes the call of a contract, if it may with a plain script first, and reports whether that answered.
func outcomeOf(t *testing.T, c contract, plain bool) (outcome string, answered bool) {
	t.Helper()
	l := newLab(t, testclient.Settled(t))
	l.seed(c.seed)
	if strings.Contains(c.seed, "plain=2") && !strings.Contains(c.seed, "marked_at") {
		l.set("marked_at", fmt.Sprint(l.now().UnixMicro()))
		defer func(marked time.Time) {
			if time.Since(marked) > time.Second { // it was due again in between
				outcome, answered = outcomeOf(t, c, plain)
			}
		}(time.Now())
	}
	ids := tickets(c.ids...)
	call := c.call(l, ids)
	released := 0
	for _, id := range c.ids {
		if strings.HasPrefix(id, "-") || call.Script == ReleaseScript {
			released++
		}
	}
	w := &walk{t: t, weights: make(map[string]int64), plain: make(map[*Script]int)}
	var names []string
	for _, ticket := range ids {
		names = append(names, ticket.id)
		w.weights[ticket.id] = ticket.weight
	}
	messages := l.listen()
	r := Reply{}
	if plain {
		r, answered = w.askPlain(l, call, names, released)
	}
	if !answered {
		r = l.ask(call, len(ids))
	}
	after := l.snapshot()
	after.mustExpire(t)
	pace := fmt.Sprint(after.meta["marked_at"] != "", after.meta["before_at"] != "")
	return ranked(strings.Join([]string{r.String(), after.String(), strings.TrimSuffix(after.meta["plain"], "+"), pace, after.lifetimes(), messages()}, "\n")), answered
}

// Most calls about a name with a queue are answered by a plain script. Their effect is the same as that of the full ones: the
// answers, the messages, and who holds and waits, with which numbers.
func TestRandomCallsAboutAQueueHaveTheSameOutcomeWithAPlainScript(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for limit := range int64(5) {
		t.Run(fmt.Sprintf("limit %d", limit+1), func(t *testing.T) {
			t.Parallel()
			w := &walk{Rand: seeded(t, 0), t: t, weights: make(map[string]int64), plain: make(map[*Script]int)}
			labs, listeners := [2]*lab{}, [2]func() string{}
			for i := range labs {
				labs[i] = newLab(t, rdb)
				labs[i].seed(fmt.Sprintf("meta layout=2 declared=%d since=7 until=80s", limit+1))
				listeners[i] = labs[i].listen()
			}
			steps := walks(t, 300, 100, func(int) {
				ids, released, build := w.draw(labs[0], limit+1)
				var outcomes [2]string
				for i, l := range labs {
					l.set("marked_at", fmt.Sprint(l.now().UnixMicro()))
					call := build(l, w.tickets(ids))
					r, answered := Reply{}, false
					if i == 0 {
						r, answered = w.askPlain(l, call, ids, released)
					}
					if !answered {
						r = l.ask(call, len(ids))
					}
					s := l.snapshot()
					r.Next = r.Next.Round(time.Minute) // whether it is reported: the deadlines are those of two different moments
					s.timeout, s.meta = nil, map[string]string{"granted": s.meta["granted"]}
					outcomes[i] = ranked(strings.Join([]string{r.String(), s.String(), listeners[i]()}, "\n"))
				}
				require.Equal(t, outcomes[1], outcomes[0], "with plain scripts, and without")
			})
			assert.Greater(t, w.plain[PlainQueueScript], steps/3) // of most seeds more than half
		})
	}
}

// draw returns a random call about ids, of which the first are to be released: holders, and seldom others.
func (w *walk) draw(l *lab, limit int64) (ids []string, released int, build func(*lab, []*ticket) Call) {
	s := l.snapshot()
	holders := members(s.owner)
	w.Shuffle(len(holders), func(i, j int) { holders[i], holders[j] = holders[j], holders[i] })
	ids = holders[:min(w.IntN(3), len(holders))]
	if waiters := members(s.queue); len(waiters) > 0 && w.IntN(20) == 0 {
		ids = append(ids, waiters[w.IntN(len(waiters))])
	}
	released = len(ids)
	if released > 0 && (w.IntN(2) == 0 || len(s.queue) > 20) {
		return ids, released, func(l *lab, ids []*ticket) Call { return releasing(limit, 0)(l, ids) }
	}
	for range 1 + w.IntN(3) {
		id := []string{"me", "you", "she"}[w.IntN(3)] + ":" + strconv.Itoa(len(w.weights)+1)
		w.weights[id] = 1
		ids = append(ids, id)
	}
	p := AcquireParams{TTL: walkTTL, Wait: true, HeadStart: time.Duration(w.IntN(10)/9) * time.Hour}
	return ids, released, func(l *lab, ids []*ticket) Call {
		return Acquire(l.space.About("name"), known(limit), p, ids[released:], ids[:released]...)
	}
}

// plain_queue adds the "+" with the first waiter, and removes it when nobody has waited for a second: until then the queue may come again.
func TestPlainQueueStoresThatANameMayHaveWaiters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seed, marked string // marked: how long ago
		acquires     string
		releases     string
		stored       string
		says         Plain
	}{
		"one that waits":            {"2", "0s", "me:3", "", "2+", PlainWithQueue},
		"one that fits":             {"2", "0s", "me:3", "me:1", "2", PlainWithoutQueue},
		"one that fits soon after":  {"2+", "0s", "me:3", "me:1", "2+", PlainWithQueue},
		"one that fits much later":  {"2+", "2s", "me:3", "me:1", "2", PlainWithoutQueue},
		"a release soon after":      {"2+", "0s", "", "me:1", "2+", PlainWithQueue},
		"a release much later":      {"2+", "2s", "", "me:1", "2", PlainWithoutQueue},
		"one that waits soon after": {"2+", "0s", "me:3", "", "2+", PlainWithQueue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for {
				l := newLab(t, testclient.Settled(t))
				l.seed("owner you:1=4 me:1=5 | timeout you:1=20s me:1=20s | counter 8 | meta declared=2 layout=2 since=7 until=80s plain=" + c.seed)
				ago, err := time.ParseDuration(c.marked)
				require.NoError(t, err)
				began := time.Now()
				l.set("marked_at", fmt.Sprint(l.now().Add(-ago).UnixMicro()))
				acquired, released := tickets(strings.Fields(c.acquires)...), tickets(strings.Fields(c.releases)...)
				got := l.run(PlainQueue(l.space.About("name"), seededKnown, AcquireParams{TTL: time.Minute}, acquired, released))
				require.NoError(t, got.err)
				if ago == 0 && time.Since(began) > time.Second {
					continue // it is not soon any more
				}
				r, err := PlainQueueScript.DecodePlain(got.numbers, seededKnown, 0, len(released), len(acquired))
				require.NoError(t, err, "%v", got.numbers)
				assert.Equal(t, c.stored, l.meta(MetaPlain))
				assert.Equal(t, c.says, r.Plain)
				assert.Equal(t, int64(len(l.snapshot().queue)), r.Waiters)
				return
			}
		})
	}
}

// The reply of every call says whether the next one may be plain. A client that renews its permits must not forget it.
// Redis searches a sorted set of up to 128 short members from its beginning, unless it was told to make an index.
func TestSortedSetsOfManyWaitersGetAnIndex(t *testing.T) {
	t.Parallel()
	for _, tenants := range []int{0, 3} {
		for waiters, indexed := range map[int]bool{15: false, 16: true} {
			t.Run(fmt.Sprint(waiters, " of ", tenants, " tenants"), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, testclient.Settled(t))
				l.seed("meta layout=2")
				p, about, d := AcquireParams{TTL: time.Minute, Wait: true}, l.space.About("name"), known(4)
				all := tickets()
				for seq := range 5 + waiters {
					all = append(all, tickets(fmt.Sprint("me:", 1+seq))...)
				}
				if tenants > 0 {
					all, d = ofTenants("me", 1, 5+waiters, tenants), naming(4, TenantSpec{Name: "tenant-0", Share: 1})
				}
				first, last := all[:4+waiters], all[4+waiters:]
				l.ask(Acquire(about, d, p, first), len(first))
				l.set("marked_at", fmt.Sprint(l.now().Add(-time.Hour).UnixMicro()))
				c := PlainQueue(about, seededKnown, p, last, first[:1])
				keys := []string{Queue, Timeout}
				if tenants > 0 {
					c = PlainTenants(about, seededKnown, p, nil, last, first[:1])
					keys = append(keys, Lanes, Turns)
				}
				got := l.run(c)
				require.NoError(t, got.err)
				require.Greater(t, len(got.numbers), 1, "declined")
				for _, kind := range keys {
					encoding := l.rdb.ObjectEncoding(background, l.keys[slices.Index(Kinds[:], kind)]).Val()
					assert.Equal(t, indexed, encoding == "skiplist", "%s: %s", kind, encoding)
				}
				s := l.snapshot()
				assert.Len(t, s.queue, waiters)
				assert.Len(t, s.timeout, 4+waiters)
				if tenants > 0 {
					l.checkTenants(s)
				}
			})
		}
	}
}

func TestRenewalByTheFastPathSaysThatTheNameIsPlain(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=80s plain=3")
	r := l.ask(Refresh(l.space.About("name"), known(3), 20*time.Second, true, tickets("me:1")), 1)
	assert.Equal(t, PlainWithoutQueue, r.Plain)
}

// An expired holder whose units nobody needs may stay, but not for as long as the name is in use: the call that makes the keys last
// longer removes it.
func TestPlainCallAfterWhichTheKeysLastLongerRemovesExpiredHolders(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("owner you:1=5 | timeout you:1=-10s | counter 6 | meta declared=3 layout=2 since=7 until=15s plain=3")
	w := &walk{t: t, plain: make(map[*Script]int), weights: map[string]int64{"me:1": 1}}
	call := acquiring(known(3), nil)(l, tickets("me:1"))
	if _, answered := w.askPlain(l, call, []string{"me:1"}, 0); !answered {
		l.ask(call, 1)
	}
	assert.Equal(t, []string{"me:1"}, members(l.snapshot().owner))
	assert.Equal(t, "1", l.meta(MetaExpired))
}

// Most of what a call of one id costs is the commands that its script calls.
func TestPlainCallsOfOneIDTakeFewCommands(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	about, p := l.space.About("name"), AcquireParams{TTL: 10 * time.Second, Wait: true}
	k := Known{known(1).Since, l.ask(Acquire(about, known(1), p, tickets("me:1")), 1).Epoch}
	pace := regexp.MustCompile("HMGET (HDEL|HSET) HSET ") // stored once a second
	names := func(c Call) (all string) {
		for _, command := range l.commands(c) {
			all += name(command) + " "
		}
		return pace.ReplaceAllString(all, "")
	}
	assert.Equal(t, "HMGET ZCARD ZREM ZREM ", names(PlainRelease(PlainReleaseScript, about, tickets("me:1"))))
	assert.Equal(t, "HMGET ZCARD TIME GET INFO ZADD PEXPIREAT SET HINCRBY ZADD PEXPIREAT ",
		names(PlainAcquire(PlainAcquireScript, about, k, p.TTL, tickets("me:2"), nil)))
	assert.Equal(t, "HMGET ZCARD TIME GET INFO ZCARD ZRANGE ZADD SET HSET ZADD PEXPIREAT ",
		names(PlainQueue(about, k, p, tickets("you:3"), nil)), "the first that waits")
	assert.Equal(t, "HMGET ZCARD TIME GET INFO ZCARD ZRANGE ZADD SET ZADD ",
		names(PlainQueue(about, k, p, tickets("me:4"), nil)), "the next one")
	assert.Equal(t, "HMGET ZCARD TIME GET INFO ZCARD ZRANGE ZRANGE ZREM ZREM SET ZREM ZADD PEXPIREAT HINCRBY PUBLISH ",
		names(PlainQueue(about, k, AcquireParams{}, nil, tickets("me:2"))), "a release that grants to another process")
}

// What a server knows of a grant outlives its lease, also if that was long and is released: a holder that was away may have an older one.
func TestReleaseOfTheLastHolderLeavesTheKeysForTheRestOfItsLease(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(l *lab) Call{
		"plain": func(l *lab) Call { return PlainRelease(PlainReleaseScript, l.space.About("name"), tickets("me:1")) },
		"queue": func(l *lab) Call {
			return PlainQueue(l.space.About("name"), seededKnown, AcquireParams{}, nil, tickets("me:1"))
		},
		"in full": func(l *lab) Call { return releasing(1, 0)(l, tickets("me:1")) },
	} {
		l := newLab(t, testclient.Settled(t))
		l.seed("meta layout=2")
		acquire := Acquire(l.space.About("name"), known(1), AcquireParams{TTL: time.Hour, Wait: true}, tickets("me:1"))
		l.ask(acquire, 1)
		if name == "queue" {
			l.ask(acquiring(known(1), nil)(l, tickets("me:2")), 1)
			l.ask(releasing(1, 0)(l, tickets("me:2")), 1)
		}
		call := release(l)
		got := l.run(call)
		require.NoError(t, got.err)
		require.False(t, call.Script.Declined(got.numbers), name)
		require.Empty(t, l.snapshot().owner, name)
		assert.Greater(t, l.snapshot().expiry[5], time.Hour, name)
	}
}

func TestRepliesOfPlainScriptsAreDecodedOnlyIfTheyAreSound(t *testing.T) {
	t.Parallel()
	const queued, wait = int64(PlainWithTenantsInQueue), MaxWait
	for _, c := range []struct {
		script *Script
		sound  bool
		raw    []int64 // about one id that it acquires
	}{
		{PlainQueueScript, true, []int64{-1, 0, 2, 1, 5}},
		{PlainQueueScript, true, []int64{wait, 1, 2, 0, 5, 7, 4, 6}},
		{PlainQueueScript, false, []int64{-1, 0, 2, 1}},
		{PlainQueueScript, false, []int64{-1, 0, 2, 1, 5, 7}},
		{PlainQueueScript, false, []int64{-1, 0, 2, -1, 5}},
		{PlainQueueScript, false, []int64{-1, 0, 2, 2, 5}},
		{PlainQueueScript, false, []int64{-1, 0, 2, 1, 0}},
		{PlainQueueScript, false, []int64{-1, 0, 2, 1, MaxUnits + 1}},
		{PlainQueueScript, false, []int64{-2, 0, 2, 1, 5}},
		{PlainQueueScript, false, []int64{wait + 1, 0, 2, 1, 5}},
		{PlainQueueScript, false, []int64{-1, -1, 2, 1, 5}},
		{PlainQueueScript, false, []int64{-1, 0, -1, 1, 5}},
		{PlainQueueScript, false, []int64{-1, 0, queued + 1, 1, 5}},
		{PlainTenantsScript, true, []int64{-1, 0, queued, int64(Held), 5}},
		{PlainTenantsScript, true, []int64{-1, 1, queued, int64(Waiting), 5, 7, 4, 6}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Held)}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Held), 5, 7}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Held), 0}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Held), -5}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Waiting), MaxUnits + 1}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Gone), 5}},
		{PlainTenantsScript, false, []int64{-1, 0, queued, int64(Evicted), 5}},
	} {
		_, err := c.script.DecodePlain(c.raw, seededKnown, 0, 0, 1)
		if c.sound {
			assert.NoError(t, err, "%s %v", c.script.Verb, c.raw)
		} else {
			assert.ErrorIs(t, err, ErrReply, "%s %v", c.script.Verb, c.raw)
		}
	}
}

// A reply is one list of numbers.
func TestPlainQueueRepliesWithNumbersOnly(t *testing.T) {
	t.Parallel()
	var reply []any
	for tries := 0; tries < 5 && len(reply) < 2; tries++ { // it declines where a second has passed since the mark
		l := newLab(t, testclient.Settled(t))
		l.seed("owner me:1=5 | timeout me:1=20s | counter 8 | meta declared=1 layout=2 since=7 until=80s plain=1+")
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "marked_at", l.now().UnixMicro()).Err())
		c := PlainQueue(l.space.About("name"), seededKnown, AcquireParams{TTL: time.Minute}, tickets("me:2", "me:3"), tickets("me:1"))
		var err error
		reply, err = l.rdb.Do(background, c.Command(true).Args()...).Slice()
		require.NoError(t, err)
	}
	require.Greater(t, len(reply), 1, "it declined")
	for i, number := range reply {
		assert.IsType(t, int64(0), number, "number %d of %v", i, reply)
	}
}

// The end of a name's plain state is stored before data that a plain script would not see: the queue, weights and a limit.
func TestNameIsNoLongerPlainOnceAScriptThatEndsItIsStoppedHalfWay(t *testing.T) {
	t.Parallel()
	const seed = "owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s plain=1"
	rdb := testclient.Settled(t)
	for name, build := range map[string]func(l *lab) Call{
		"a waiter": func(l *lab) Call { return acquiring(known(1), nil)(l, tickets("you:1")) },
		"a weight": func(l *lab) Call { return acquiring(declares(9, usedNow), nil)(l, tickets("you:1*2")) },
		"a limit":  func(l *lab) Call { return acquiring(declares(9, usedNow), nil)(l, tickets("you:1")) },
		"a pin":    func(l *lab) Call { return l.space.Resize("name", LimitSpec{Limit: 1}, PinAt(7), l.now().UnixMicro()) },
		"a restored": func(l *lab) Call {
			return Restore(l.space.About("name"), known(1), time.Minute, tickets("you:1"), Claims{Epoch: 3, Numbers: []int64{8}, Units: []int64{1}})
		},
		"a rate": func(l *lab) Call { return Release(l.space.About("name"), known(1), 0, false, tickets("me:1")) },
		"a tombstone": func(l *lab) Call {
			return Release(l.space.About("name"), known(1), time.Minute, false, tickets("me:1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 12 {
				l := newLab(t, rdb)
				l.seed(seed)
				l.runUpTo(n, build(l))
				l.snapshot() // checks it
			}
		})
	}
}

// Without a right that it needs later, a plain script stops. Its partial writes expire, and are no grant too many.
func TestPlainScriptThatIsStoppedHalfWayLeavesOnlyWhatExpires(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	const idle = "counter 6 | meta declared=3 layout=2 since=7 until=80s plain=3"
	const queue = "owner you:1=4 | queue you:2=5 | timeout you:1=20s you:2=20s | counter 6 | meta declared=1 layout=2 since=7 until=80s plain=1+"
	for name, c := range map[string]struct {
		seed    string
		build   func(about CallPrefix) Call
		timeout int // the write that creates the key of the deadlines, which the next one gives its expiry; 0: the key exists
		owner   int // the same of the key of the holders
	}{
		"one": {idle, func(about CallPrefix) Call {
			return PlainAcquire(PlainAcquireScript, about, seededKnown, time.Minute, tickets("me:1"), nil)
		}, 1, 4},
		"several": {idle, func(about CallPrefix) Call {
			return PlainAcquire(PlainAcquireScript, about, seededKnown, time.Minute, tickets("me:1", "me:2"), nil)
		}, 1, 4},
		"one with numbers": {strings.Replace(idle, "plain=3", "plain=3# numbered=1", 1), func(about CallPrefix) Call {
			return PlainAcquire(PlainNumbersAcquireScript, about, seededKnown, time.Minute, tickets("me:1#", "me:2#"), nil)
		}, 1, 6},
		"one that queues": {queue, func(about CallPrefix) Call {
			return PlainQueue(about, seededKnown, AcquireParams{TTL: time.Minute}, tickets("me:1"), tickets("you:1"))
		}, 0, 6},
		"a release": {queue, func(about CallPrefix) Call {
			return PlainQueue(about, seededKnown, AcquireParams{}, nil, tickets("you:1"))
		}, 0, 5},
		"a renewal": {strings.Replace(queue, "80s", "40s", 1), func(about CallPrefix) Call {
			return PlainRefresh(about, seededKnown, time.Minute, 1, tickets("you:1", "you:2"))
		}, 0, 0},
	} {
		for n := range 12 {
			l := newLab(t, rdb)
			l.seed(c.seed)
			l.set("marked_at", fmt.Sprint(l.now().Add(-time.Millisecond).UnixMicro()))
			l.runUpTo(n, c.build(l.space.About("name")))
			s := l.snapshot()
			assert.LessOrEqual(t, len(s.owner), 2, "%s", name)
			if n != c.timeout || n == 0 {
				assert.NotEqual(t, time.Duration(-1), s.expiry[2], "%s: the deadlines never expire after %d writes", name, n)
			}
			if n != c.owner {
				assert.NotEqual(t, time.Duration(-1), s.expiry[0], "%s: the owners never expire after %d writes", name, n)
			}
			for _, id := range append(members(s.owner), members(s.queue)...) {
				assert.Contains(t, members(s.timeout), id, "%s: an entry without a deadline after %d writes", name, n)
			}
			assert.True(t, !strings.Contains(c.seed, "declared=1") || len(s.owner) <= 1, "%s: too many holders after %d writes", name, n)
		}
	}
}

// Whether a name is plain is a hint: a server that refuses to store it must not refuse the call.
func TestCallThatWritesNothingElseWorksOnAFullServer(t *testing.T) {
	t.Parallel()
	l := newLab(t, redistest.NewServer(t).Client())
	l.seed("owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s")
	require.NoError(t, l.rdb.ConfigSet(background, "maxmemory", "1").Err())
	t.Cleanup(func() { assert.NoError(t, l.rdb.ConfigSet(background, "maxmemory", "0").Err()) })
	r := l.ask(Acquire(l.space.About("name"), known(1), AcquireParams{TTL: time.Minute}, tickets("me:2")), 1)
	assert.Equal(t, Refused, r.Results[0].State)
	assert.Equal(t, NotPlain, r.Plain)
	assert.NoError(t, l.run(l.space.Evict("name", LimitSpec{Limit: 1}, "nobody:1")).err)
}

// A server checks its memory before the first write of a script only, and never before one that frees memory.
func TestFullServerRefusesWhatPlainScriptsAcquireAndAcceptsWhatTheyRelease(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t, "--maxmemory-policy", "noeviction").Client()
	type attempt struct {
		*lab
		Call
		accepted bool
	}
	attempts := make(map[string]attempt)
	for kind, seed := range map[string]string{
		"nobody waits": "owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=80s plain=3",
		"a queue":      "owner me:1=5 | queue you:1=6 you:2=7 | timeout me:1=20s you:1=20s you:2=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s plain=1+",
	} {
		for name, ids := range map[string][2][]*ticket{
			"it acquires one":            {nil, tickets("me:2")},
			"it acquires several":        {nil, tickets("me:2", "me:3")},
			"it releases and acquires":   {tickets("me:1"), tickets("me:2")},
			"it releases and acquires 2": {tickets("me:1"), tickets("me:2", "me:3")},
			"it releases":                {tickets("me:1"), nil},
		} {
			l := newLab(t, rdb)
			l.seed(seed)
			about := l.space.About("name")
			c := PlainQueue(about, seededKnown, AcquireParams{TTL: time.Minute}, ids[1], ids[0])
			if kind == "nobody waits" && ids[1] != nil {
				c = PlainAcquire(PlainAcquireScript, about, seededKnown, time.Minute, ids[1], ids[0])
			} else if kind == "nobody waits" {
				c = PlainRelease(PlainReleaseScript, about, ids[0])
			}
			attempts[kind+", "+name] = attempt{l, c, ids[1] == nil}
		}
	}
	for _, asks := range []bool{true, false} {
		l := newLab(t, rdb)
		l.seed("owner me:1#=5 | timeout me:1#=20s | numbers 1:me:1#=0 | counter 7 | meta declared=3 layout=2 since=7 until=80s plain=3# numbered=1")
		c := PlainRelease(PlainNumbersReleaseScript, l.space.About("name"), tickets("me:1#"))
		if asks {
			c = PlainAcquire(PlainNumbersAcquireScript, l.space.About("name"), seededKnown, time.Minute, tickets("me:2#"), nil)
		}
		attempts[fmt.Sprint("numbers, it acquires: ", asks)] = attempt{l, c, !asks}
	}
	eachPlainKind(t, rdb, func(l *lab, kind string, k plainKind) {
		attempts["tenants, "+kind] = attempt{l, k.call, !strings.Contains(kind, "acquires") && !strings.Contains(kind, "is to")}
	})
	require.NoError(t, rdb.ConfigSet(background, "maxmemory", "100kb").Err()) // more than that is in use already
	for name, a := range attempts {
		before := a.dump()
		got := a.run(a.Call)
		if a.accepted {
			require.NoError(t, got.err, name)
			assert.False(t, a.Script.Declined(got.numbers), name)
			continue
		}
		assert.True(t, failure.Begins(failure.Discreet(got.err), "OOM"), "%s: %v %v", name, got.err, got.numbers)
		assert.Equal(t, before, a.dump(), name)
	}
}

// S10: without the right to SET nothing is released that others wait for.
func TestPlainCallThatMayNotSetReleasesNothingBeforeItAcquires(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("owner you:1=4 | queue you:2=5 | timeout you:1=20s you:2=20s | counter 6 | meta declared=1 layout=2 since=7 until=80s plain=1+")
	l.runWithout("SET", PlainQueue(l.space.About("name"), seededKnown, AcquireParams{TTL: time.Minute}, tickets("me:1"), tickets("you:1")))
	assert.Equal(t, []string{"you:1"}, members(l.snapshot().owner))
}

// S10: a key of the wrong type fails the call, or leaves it to the full script, which fails.
func TestPlainScriptWithAKeyOfTheWrongTypeChangesNothing(t *testing.T) {
	t.Parallel()
	for i, kind := range Kinds {
		for _, build := range []func(l *lab) Call{
			func(l *lab) Call { return PlainRelease(PlainReleaseScript, l.space.About("name"), tickets("me:1")) },
			func(l *lab) Call {
				return PlainAcquire(PlainAcquireScript, l.space.About("name"), seededKnown, time.Minute, tickets("me:2"), nil)
			},
			func(l *lab) Call {
				return PlainAcquire(PlainAcquireScript, l.space.About("name"), seededKnown, time.Minute, tickets("me:2", "me:3"), tickets("me:1"))
			},
			func(l *lab) Call {
				return PlainQueue(l.space.About("name"), seededKnown, AcquireParams{}, nil, tickets("me:1"))
			},
			func(l *lab) Call {
				return PlainQueue(l.space.About("name"), seededKnown, AcquireParams{TTL: time.Minute}, tickets("me:2"), tickets("me:1"))
			},
			func(l *lab) Call {
				return PlainRefresh(l.space.About("name"), seededKnown, time.Minute, 1, tickets("me:1", "you:1"))
			},
		} {
			l := newLab(t, testclient.Settled(t))
			c := build(l)
			if c.Script == PlainQueueScript || c.Script == PlainRefreshScript {
				l.seed("owner me:1=5 | queue you:1=6 | timeout me:1=20s you:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=80s plain=3+")
				l.set("marked_at", fmt.Sprint(l.now().UnixMicro()))
			} else {
				l.seed("owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=80s plain=3")
			}
			require.NoError(t, l.rdb.Set(background, l.keys[i], "of another program", 0).Err())
			before := l.dump()
			if got := l.run(c); got.err != nil {
				assert.ErrorContains(t, got.err, "WRONGTYPE", kind)
				assert.Equal(t, before, l.dump(), "%s with a %s of the wrong type", c.Script.Verb, kind)
			} else if c.Script.Declined(got.numbers) {
				assert.Equal(t, before, l.dump(), "%s with a %s of the wrong type", c.Script.Verb, kind)
			}
		}
	}
}

// Any program may have stored anything in meta. No value of it makes a plain script fail half-way, or grant for ever.
func TestPlainScriptDeclinesWhateverIsStoredInMeta(t *testing.T) {
	t.Parallel()
	const seed = "owner you:1=5 | timeout you:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=80s"
	rdb := testclient.Settled(t)
	fields := []string{"plain", "until", "epoch", "server", "since", "layout", "marked_at", "counter"}
	for _, field := range fields {
		for _, value := range []string{"", "x", "nan", "-nan", "inf", "-inf", "-1", "1e400", "0x", "9999999999999999999999", "1 2", "\x00", "+", "-1+", "0x1+", "1e400+"} {
			for plain, queue := range map[string]string{"3": "", "3+": " | queue you:2=6"} {
				l := newLab(t, rdb)
				l.seed(strings.Replace(seed, " | timeout", queue+" | timeout", 1))
				l.set("plain", plain)
				l.set("marked_at", fmt.Sprint(l.now().UnixMicro()))
				switch {
				case value == "":
					require.NoError(t, l.rdb.HDel(background, l.keys[5], field).Err())
				case field == "counter":
					require.NoError(t, l.rdb.Set(background, l.keys[3], value, redis.KeepTTL).Err())
				default:
					l.set(field, value)
				}
				about := l.space.About("name")
				l.answersSoundly(PlainRefresh(about, seededKnown, time.Minute, 1, tickets("you:1", "you:2")), field+" "+value)
				if queue == "" {
					c := PlainAcquire(PlainAcquireScript, about, seededKnown, time.Minute, tickets("me:1", "me:2", "me:3"), nil)
					assert.False(t, l.answersSoundly(c, field+" "+value), "%s %q: it does not fit anyway", field, value)
					l.answersSoundly(PlainAcquire(PlainAcquireScript, about, seededKnown, time.Minute, tickets("me:1"), nil), field+" "+value)
					continue
				}
				l.answersSoundly(PlainQueue(about, seededKnown, AcquireParams{TTL: time.Minute}, tickets("me:1", "me:2"), tickets("you:1")), field+" "+value)
			}
		}
	}
}

// answersSoundly makes a call of a plain script, which must not fail. It reports false if that declined, and has changed nothing.
// Otherwise every key must expire.
func (l *lab) answersSoundly(c Call, stored string) bool {
	l.t.Helper()
	before := l.dump()
	got := l.run(c)
	require.NoError(l.t, got.err, "%q", stored)
	if c.Script.Declined(got.numbers) {
		assert.Equal(l.t, before, l.dump(), "%q", stored)
		return false
	}
	l.mustExpire(fmt.Sprintf("%q", stored))
	return true
}

// The server of the name has been replaced, or its epoch is not the one that the caller knows: it may have lost state. Or
// another version of this library has written the keys.
func TestPlainScriptDeclinesOnAServerOrInAnEpochOrLayoutThatTheCallerDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *lab) int64{
		"another server": func(l *lab) int64 { l.set("server", someServer); return seededEpoch },
		"another layout": func(l *lab) int64 { l.set("layout", fmt.Sprint(Layout+1)); return seededEpoch },
		"another epoch":  func(*lab) int64 { return seededEpoch + 1 },
		"an epoch to be": func(l *lab) int64 {
			epoch := l.now().Add(time.Hour).UnixMicro()
			l.set("epoch", fmt.Sprint(epoch))
			return epoch
		},
	} {
		l := newLab(t, testclient.Settled(t))
		l.seed("owner you:1=5 | timeout you:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=80s plain=3")
		epoch := change(l)
		for plain, c := range map[string]Call{
			"3+": PlainQueue(l.space.About("name"), Known{seededKnown.Since, epoch}, AcquireParams{TTL: time.Second}, tickets("me:1"), tickets("you:1")),
			"3":  PlainAcquire(PlainAcquireScript, l.space.About("name"), Known{seededKnown.Since, epoch}, time.Second, tickets("me:1"), nil),
			"3@": PlainRefresh(l.space.About("name"), Known{seededKnown.Since, epoch}, time.Second, 1, tickets("you:1")),
		} {
			l.set("plain", plain)
			assert.False(t, l.answersSoundly(c, name), name)
		}
		l.set("plain", "3")
		before := l.dump()
		if strings.Contains(name, "layout") {
			assert.True(t, PlainReleaseScript.Declined(l.run(PlainRelease(PlainReleaseScript, l.space.About("name"), tickets("you:1"))).numbers), name)
		}
		assert.Equal(t, before, l.dump(), name)
	}
}

func (l *lab) set(field, value string) {
	l.t.Helper()
	require.NoError(l.t, l.rdb.HSet(background, l.keys[5], field, value).Err())
}

// The keys are kept for as long as a name is in use.
func TestCallsOfAllScriptsShareTheTextOfTheKeys(t *testing.T) {
	t.Parallel()
	about := Keyspace{Prefix: "prefix"}.About("name")
	shared := make(map[string]*byte)
	for _, key := range about.begin[1 : 1+len(Kinds)] {
		shared[key.(string)] = unsafe.StringData(key.(string))
	}
	for i, s := range PlainScripts {
		keys := about.plain[i][3:][:len(s.keys)]
		for _, key := range keys {
			assert.Same(t, shared[key.(string)], unsafe.StringData(key.(string)), "%s: %s", s.Verb, key)
		}
	}
}

func TestScriptsOfSomeKeysNameThemAndTheirArgumentsAsGoDoes(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(PlainScripts, AuditScripts) {
		var names []string
		for _, i := range s.keys {
			names = append(names, Kinds[i])
		}
		assert.Contains(t, s.Text(), "\n-- KEYS    "+strings.Join(names, ", ")+"\n")
		assert.Contains(t, s.Text(), "\nlocal "+strings.Join(names, ", ")+" = unpack(KEYS)\n")
		h := readHeader(t, s.Verb)
		assert.Equal(t, s.Arguments, h.args, s.Verb)
		if len(s.Arguments) > 0 {
			assert.Contains(t, s.Text(), fmt.Sprintf("\nlocal %s = unpack(ARGV, 1, %d)\n", strings.Join(s.Arguments, ", "), len(s.Arguments)))
		}
		if len(s.Arguments) > 0 && h.rest != "" {
			assert.Regexp(t, fmt.Sprintf(`\nlocal first_(id|tenant|field|id, first_released) = %d(, %[1]d \+ count)?\n`, len(s.Arguments)+1), s.Text())
		}
	}
}
