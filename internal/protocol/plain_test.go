package protocol

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// askPlain makes a call with a plain script, whether or not the name is known to be plain. It reports false if the call has no
// plain form, or was declined; a declined call has changed nothing.
func (w *walk) askPlain(l *lab, c Call, ids []string, released int) (Reply, bool) {
	w.t.Helper()
	before := l.dump()
	plain, ok := l.plainForm(c, w.tickets(ids), released)
	if !ok {
		return Reply{}, false
	}
	got := l.run(plain)
	require.NoError(w.t, got.err)
	if plain.Script.Declined(got.numbers) {
		assert.Equal(w.t, before, l.dump(), "a call that was declined")
		return Reply{}, false
	}
	w.plain++
	r, err := DecodePlain(got.numbers, Declaration{}, 1, released, len(ids)-released)
	require.NoError(w.t, err)
	return r, true
}

// plainForm returns the plain form of a call about ids, of which the first are to be released.
func (l *lab) plainForm(c Call, ids []*ticket, released int) (Call, bool) {
	l.t.Helper()
	lease := time.Duration(c.Script.Argument(c.Args, "lease").(int64)) * time.Millisecond
	for _, t := range ids[released:] {
		if t.weight != 1 {
			return Call{}, false
		}
	}
	switch {
	case c.Script == ReleaseScript && lease == 0 && len(ids) > 0:
		return PlainRelease(l.space.About("name"), ids), true
	case c.Script == AcquireScript && len(ids) > released:
		since, known := c.Script.Argument(c.Args, "since").(int64)
		if !known {
			return Call{}, false
		}
		epoch, _ := strconv.ParseInt(l.rdb.HGet(background, l.keys[5], "epoch").Val(), 10, 64)
		return PlainAcquire(l.space.About("name"), Declaration{Since: since}, epoch, lease, ids[released:], ids[:released]), true
	}
	return Call{}, false
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
	for name, c := range map[string]struct {
		contract
		answers bool
	}{
		"of one":                             {contract{seed: held + meta, call: acquires, ids: []string{"me:1"}}, true},
		"of several that just fit":           {contract{seed: held + meta, call: acquires, ids: []string{"me:1", "me:2"}}, true},
		"of one too many":                    {contract{seed: held + meta, call: acquires, ids: []string{"me:1", "me:2", "me:3"}}, false},
		"of one without wait":                {contract{seed: held + meta, call: acquiring(known(3), noWait), ids: []string{"me:1"}}, true},
		"without a holder":                   {contract{seed: "counter 6" + meta, call: acquires, ids: []string{"me:1", "me:2"}}, true},
		"without a counter":                  {contract{seed: meta[3:], call: acquires, ids: []string{"me:1"}}, false},
		"of an unused name":                  {contract{call: acquires, ids: []string{"me:1"}}, false},
		"of one that holds":                  {contract{seed: held + meta, call: acquires, ids: []string{"you:1"}}, false},
		"of one that holds and a new one":    {contract{seed: held + meta, call: acquires, ids: []string{"you:1", "me:1"}}, false},
		"of one with a tombstone":            {contract{seed: "timeout me:1=20s | counter 6" + meta, call: acquires, ids: []string{"me:1"}}, false},
		"with a number from the future":      {contract{seed: held + "000000000000000" + meta, call: acquires, ids: []string{"me:1"}}, false},
		"with a newer limit":                 {contract{seed: held + meta, call: acquiring(declares(1, 8), nil), ids: []string{"me:1"}}, false},
		"with an older limit":                {contract{seed: held + meta, call: acquiring(declares(1, 6), nil), ids: []string{"me:1", "me:2"}}, true},
		"of a name that is not plain":        {contract{seed: held + notPlain, call: acquires, ids: []string{"me:1"}}, false},
		"for which the keys must last":       {contract{seed: held + soon, call: acquires, ids: []string{"me:1"}}, false},
		"that releases one":                  {contract{seed: held + meta, call: acquires, ids: []string{"-you:1", "me:1"}}, true},
		"that just fits, for it releases":    {contract{seed: held + meta, call: acquires, ids: []string{"-you:1", "me:1", "me:2", "me:3"}}, true},
		"that releases an unknown one":       {contract{seed: held + meta, call: acquires, ids: []string{"-you:2", "me:1"}}, false},
		"that releases, without a holder":    {contract{seed: "counter 6" + meta, call: acquires, ids: []string{"-you:1", "me:1"}}, false},
		"release of one of several":          {contract{seed: three, call: releases, ids: []string{"me:1"}}, true},
		"release of several":                 {contract{seed: three, call: releases, ids: []string{"me:1", "me:2"}}, true},
		"release of an unknown one":          {contract{seed: three, call: releases, ids: []string{"me:1", "me:3"}}, false},
		"release of an unused name":          {contract{seed: meta[3:], call: releases, ids: []string{"me:1"}}, false},
		"release of a name that has waiters": {contract{seed: strings.Replace(three, " | timeout", " | queue me:3=8 | timeout", 1), call: releases, ids: []string{"me:1"}}, false},
		"release after a long lease":         {contract{seed: strings.Replace(three, "until=30s", "until=90s", 1), call: releases, ids: []string{"me:1"}}, true},
		"last release after a long lease":    {contract{seed: strings.Replace(three, "until=30s", "until=90s", 1), call: releases, ids: []string{"me:1", "me:2", "you:1"}}, false},
		"release that leaves a tombstone":    {contract{seed: three, call: releasing(3, 10*time.Second), ids: []string{"me:1"}}, false},
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
	seed := c.seed
	if strings.Contains(seed, "queue") {
		seed = strings.Replace(seed, " plain=3", "", 1)
	}
	l.seed(seed)
	ids := tickets(c.ids...)
	call := c.call(l, ids)
	released := 0
	for _, id := range c.ids {
		if strings.HasPrefix(id, "-") || call.Script == ReleaseScript {
			released++
		}
	}
	w := &walk{t: t, weights: make(map[string]int64)}
	var names []string
	for _, ticket := range ids {
		names = append(names, ticket.id)
		w.weights[ticket.id] = ticket.weight
	}
	r := Reply{}
	if plain {
		r, answered = w.askPlain(l, call, names, released)
	}
	if !answered {
		r = l.ask(call, len(ids))
	}
	r.Next = -1 // without waiters nobody needs it
	after := l.snapshot()
	after.mustExpire(t)
	return ranked(r.String() + "\n" + after.String()), answered
}

// What ends that a name is plain is stored before what a plain script would not see: the queue, weights and a limit.
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
			return Restore(l.space.About("name"), known(1), time.Minute, tickets("you:1"), Claims{0, 3, []int64{8}, []int64{1}})
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

// Without a right that it needs later, a plain script stops. What it leaves behind expires.
func TestPlainScriptThatIsStoppedHalfWayLeavesOnlyWhatExpires(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for n := range 9 {
		for _, ids := range [][]*ticket{tickets("me:1"), tickets("me:1", "me:2")} {
			l := newLab(t, rdb)
			l.seed("counter 6 | meta declared=3 layout=2 since=7 until=80s plain=3")
			l.runUpTo(n, PlainAcquire(l.space.About("name"), known(3), seededEpoch, time.Minute, ids, nil))
			s := l.snapshot()
			if ttl := s.expiry[2]; n != 1 { // one command creates the key, and the next gives it its expiry
				assert.NotEqual(t, time.Duration(-1), ttl, "the deadlines never expire after %d writes", n)
			}
			if n != 4 {
				assert.NotEqual(t, time.Duration(-1), s.expiry[0], "the owners never expire after %d writes", n)
			}
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
	assert.False(t, r.Plain)
	assert.NoError(t, l.run(l.space.Evict("name", LimitSpec{Limit: 1}, "nobody:1")).err)
}

// S10: a key of the wrong type fails the call, or leaves it to the full script, which fails.
func TestPlainScriptWithAKeyOfTheWrongTypeChangesNothing(t *testing.T) {
	t.Parallel()
	for i, kind := range Kinds {
		for _, build := range []func(l *lab) Call{
			func(l *lab) Call { return PlainRelease(l.space.About("name"), tickets("me:1")) },
			func(l *lab) Call {
				return PlainAcquire(l.space.About("name"), known(3), seededEpoch, time.Minute, tickets("me:2"), nil)
			},
			func(l *lab) Call {
				return PlainAcquire(l.space.About("name"), known(3), seededEpoch, time.Minute, tickets("me:2", "me:3"), tickets("me:1"))
			},
		} {
			l := newLab(t, testclient.Settled(t))
			l.seed("owner me:1=5 | timeout me:1=20s | counter 7 | meta declared=3 layout=2 since=7 until=30s plain=3")
			require.NoError(t, l.rdb.Set(background, l.keys[i], "of another program", 0).Err())
			before := l.dump()
			c := build(l)
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
	for _, field := range []string{"plain", "until", "epoch", "server", "since", "layout", "counter"} {
		for _, value := range []string{"", "x", "nan", "-nan", "inf", "-inf", "-1", "1e400", "0x", "9999999999999999999999", "1 2", "\x00"} {
			l := newLab(t, rdb)
			l.seed(seed)
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "plain", 3).Err())
			switch {
			case value == "":
				require.NoError(t, l.rdb.HDel(background, l.keys[5], field).Err())
			case field == "counter":
				require.NoError(t, l.rdb.Set(background, l.keys[3], value, redis.KeepTTL).Err())
			default:
				require.NoError(t, l.rdb.HSet(background, l.keys[5], field, value).Err())
			}
			before := l.dump()
			got := l.run(PlainAcquire(l.space.About("name"), known(3), seededEpoch, time.Minute, tickets("me:1", "me:2", "me:3"), nil))
			require.NoError(t, got.err, "%s %q", field, value)
			assert.True(t, PlainAcquireScript.Declined(got.numbers), "%s %q: it does not fit anyway", field, value)
			assert.Equal(t, before, l.dump(), "%s %q", field, value)

			got = l.run(PlainAcquire(l.space.About("name"), known(3), seededEpoch, time.Minute, tickets("me:1"), nil))
			require.NoError(t, got.err, "%s %q", field, value)
			if PlainAcquireScript.Declined(got.numbers) {
				assert.Equal(t, before, l.dump(), "%s %q", field, value)
				continue
			}
			for i := range l.keys {
				if l.rdb.Exists(background, l.keys[i]).Val() == 1 {
					assert.Positive(t, l.rdb.PTTL(background, l.keys[i]).Val(), "%s %q: %s never expires", field, value, Kinds[i])
				}
			}
		}
	}
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
		l.seed("owner you:1=5 | timeout you:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=30s plain=3")
		epoch := change(l)
		before := l.dump()
		got := l.run(PlainAcquire(l.space.About("name"), known(3), epoch, time.Second, tickets("me:1"), nil))
		require.NoError(t, got.err)
		assert.True(t, PlainAcquireScript.Declined(got.numbers), name)
		if strings.Contains(name, "layout") {
			assert.True(t, PlainReleaseScript.Declined(l.run(PlainRelease(l.space.About("name"), tickets("you:1"))).numbers), name)
		}
		assert.Equal(t, before, l.dump(), name)
	}
}

func (l *lab) set(field, value string) {
	l.t.Helper()
	require.NoError(l.t, l.rdb.HSet(background, l.keys[5], field, value).Err())
}

// The plain scripts include no other file, so that they are short: they repeat some of its constants.
func TestPlainScriptsHaveTheConstantsAndArgumentsOfTheOthers(t *testing.T) {
	t.Parallel()
	texts := sources(t)
	shared := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^local ([A-Z]+) = (\d+) `).FindAllStringSubmatch(texts["semaphore.lua"], -1) {
		shared[m[1]] = m[2]
	}
	for _, s := range PlainScripts {
		m := regexp.MustCompile(`(?m)^local LAYOUT, LINGER(?:, FARTHEST)? = "(\d+)", (\d+)`).FindStringSubmatch(s.Text)
		require.NotNil(t, m, s.Verb)
		assert.Equal(t, []string{shared["LAYOUT"], shared["LINGER"]}, m[1:], s.Verb)
		var names []string
		for _, i := range s.keys {
			names = append(names, Kinds[i])
		}
		assert.Contains(t, s.Text, "\n-- KEYS    "+strings.Join(names, ", ")+"\n")
		assert.Contains(t, s.Text, "\nlocal "+strings.Join(names, ", ")+" = unpack(KEYS)\n")
		h := readHeader(t, s.Verb)
		assert.Equal(t, s.Arguments, h.args, s.Verb)
		if len(s.Arguments) > 0 {
			assert.Contains(t, s.Text, fmt.Sprintf("\nlocal %s = unpack(ARGV, 1, %d)\n", strings.Join(s.Arguments, ", "), len(s.Arguments)))
			assert.Contains(t, s.Text, fmt.Sprintf("\nlocal first_id = %d\n", len(s.Arguments)+1))
		}
	}
	assert.Equal(t, shared["LINGER"], strconv.FormatInt(MaxPlainTTL.Milliseconds()/2, 10))
	assert.Contains(t, PlainAcquireScript.Text, "32 * 86400000")
	assert.Contains(t, texts["semaphore.lua"], "local MONTH = 31 * DAY")
}
