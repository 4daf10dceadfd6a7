package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// occupyNumbered holds the numbers 0 to 3 of a name of 9 units, of which light has the 3, beside a holder without a number.
func occupyNumbered(t *testing.T, rdb redis.UniversalClient, prefix, name string) (light, heavy string) {
	t.Helper()
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: prefix, TTL: time.Hour, Grace: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // some tests break the permits to be released
	sem, err := client.Semaphore(name, 9)
	require.NoError(t, err)
	numbered := sem.With(fairsem.CallOptions{Numbered: true})
	three, err := numbered.Acquire(t.Context(), 3)
	require.NoError(t, err)
	one, err := numbered.Acquire(t.Context(), 1)
	require.NoError(t, err)
	_, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	return one.ID(), three.ID()
}

func TestEveryFaultOfNumbersIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	for what, c := range map[string]struct {
		spoil   func(*broken)
		problem string
		want    State
		says    func(*broken) string
	}{
		"one number twice": {func(b *broken) {
			b.do("ZADD", b.key("numbers"), 2, "1:"+b.light)
		}, "number-twice", Fail, func(b *broken) string {
			return fmt.Sprintf("numbers that two units have at once: 1, the first 2, of %s and %s", idWord(b.light), idWord(b.heavy))
		}},
		"one number twice in one permit": {func(b *broken) {
			b.do("ZADD", b.key("numbers"), 1, "1:"+b.heavy)
		}, "number-twice", Fail, func(b *broken) string { return "1, the first 1, of " + idWord(b.heavy) + " and " + idWord(b.heavy) }},
		"a number of an id that holds nothing": {func(b *broken) {
			b.do("ZADD", b.key("numbers"), 7, "1:ghost:1#")
		}, "number-stray", Warn, func(*broken) string { return "numbers of units that no permit has: 1, the first of 'ghost:1#'" }},
		"more numbers than units": {func(b *broken) {
			b.do("ZADD", b.key("numbers"), 7, "2:"+b.light)
		}, "number-stray", Warn, func(b *broken) string { return "1, the first of " + idWord(b.light) }},
		"a number of no unit": {func(b *broken) {
			b.do("ZADD", b.key("numbers"), 7, "x\x1b[31m")
		}, "number-stray", Warn, func(*broken) string { return `1, the first of 'x\x1b[31m'` }},
		"a holder without one of its numbers": {func(b *broken) {
			b.do("ZREM", b.key("numbers"), "2:"+b.heavy)
		}, "number-missing", Fail, func(b *broken) string {
			return "holders that lack a number, which can be granted to others: 1, the first " + idWord(b.heavy)
		}},
		"holders without any": {func(b *broken) {
			b.do("DEL", b.key("numbers"))
		}, "number-missing", Fail, func(*broken) string {
			return "holders that lack a number, which can be granted to others: 2, the first "
		}},
		"numbers for ever": {func(b *broken) {
			b.do("PERSIST", b.key("numbers"))
		}, "immortal", Fail, func(*broken) string { return "wrote them: numbers" }},
		"numbers that end early": {func(b *broken) {
			b.do("PEXPIRE", b.key("numbers"), 600_000)
		}, "expiry", Fail, func(*broken) string { return "would lose its holder: numbers" }},
		"another type": {func(b *broken) {
			b.do("DEL", b.key("numbers"))
			b.do("SET", b.key("numbers"), "x", "EX", 100)
		}, "type", Fail, func(*broken) string { return "so every call fails: numbers" }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := meet(t, "redis://"+s.Addr(), usual())
			b := &broken{t: t, rdb: s.Client(), p: p, name: what + " \x1b[31m\n\u202e}:owner", now: time.Now()}
			b.light, b.heavy = occupyNumbered(t, b.rdb, p.Prefix, b.name)
			require.Len(t, p.runs(t, "semaphores"), 1)
			c.spoil(b)
			all := p.runs(t, "semaphores")
			require.Len(t, all, 2, "%v", all)
			assert.Equal(t, c.problem, all[1].Details["problem"], all[1].Message)
			assert.Equal(t, c.want, all[1].State)
			assert.Contains(t, all[1].Message, c.says(b))
			assert.NotContains(t, all[1].Message, "\x1b")
			assert.NotEmpty(t, all[1].Advice)
		})
	}
}

// Numbers are read a part at a time, and so are those of holders that have many.
func TestNumbersFarBackAreLookedAt(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: p.Prefix, TTL: time.Hour, Grace: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // its permits are broken
	sem, err := client.Semaphore("n", 10_000)
	require.NoError(t, err)
	var ids []string
	for range 5 {
		permit, err := sem.With(fairsem.CallOptions{Numbered: true}).Acquire(t.Context(), 700)
		require.NoError(t, err)
		ids = append(ids, permit.ID())
	}
	require.Len(t, p.runs(t, "semaphores"), 1)

	b := &broken{t: t, rdb: s.Client(), p: p, name: "n"}
	last := ids[len(ids)-1]
	b.do("ZREM", b.key("numbers"), "650:"+last)
	b.do("ZADD", b.key("numbers"), 2*idsPerQuery-1, "1:ghost:1#", 2*idsPerQuery, "2:ghost:1#") // on both sides of an end of a part
	var messages []string
	for _, f := range p.runs(t, "semaphores")[1:] {
		messages = append(messages, f.Message)
	}
	stray := `"n": numbers of units that no permit has: 1, the first of 'ghost:1#'`
	require.Len(t, messages, 5, "%q", messages)
	assert.Equal(t, []string{stray, stray}, messages[3:], "warnings come last")
	assert.Contains(t, messages, `"n": holders that lack a number, which can be granted to others: 1, the first `+idWord(last))
	for _, shared := range []int{2*idsPerQuery - 1, 2 * idsPerQuery} {
		assert.Contains(t, strings.Join(messages, "\n"), fmt.Sprintf("numbers that two units have at once: 1, the first %d, of ", shared))
	}
}

func TestNumbersThatWereNotReadAreCounted(t *testing.T) {
	t.Parallel()
	var all tally
	all.add(facts{ttls: map[string]int64{protocol.Meta: 1}, unreadNumbers: 7}, nil, nil)
	assert.Contains(t, one(t, all.findings()).Message, "; 7 numbers of units were not checked, there are too many")
	for _, raw := range [][]any{nil, {int64(1)}, slices.Repeat([]any{int64(1)}, 7)} {
		_, err := decodeNumbers(raw)
		assert.ErrorIs(t, err, errReply, "%v", raw)
	}
}
