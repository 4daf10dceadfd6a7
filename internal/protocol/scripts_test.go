package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Each contract of the scripts is a state, one call, and the whole state after it.

var background = context.Background()

const (
	ample    = 1 << 40 // a limit that is never reached
	pageSize = 200     // the number that the library reads at once
)

// lab is one name on one server, with keys and channels of its own.
type lab struct {
	t     testing.TB
	rdb   *redis.Client
	space Keyspace // of the client "me"
	keys  [len(Kinds)]string
}

func newLab(t testing.TB, rdb *redis.Client) *lab {
	t.Helper()
	space := Keyspace{Prefix: "fairsem-test-" + uuid.NewString(), ClientID: "me", Grace: time.Second}
	l := &lab{t, rdb, space, space.Keys("name")}
	t.Cleanup(func() { assert.NoError(t, rdb.Del(background, l.keys[:]...).Err()) })
	return l
}

// outcome is the reply of a script, or its error.
type outcome struct {
	numbers []int64
	list    []any // of the page script
	err     error
}

func (l *lab) run(c Call) outcome {
	cmd := c.Command(false)
	if err := l.rdb.Process(background, cmd); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = c.Command(true)
		_ = l.rdb.Process(background, cmd) // the command has the error
	}
	o := outcome{err: cmd.Err()}
	switch cmd := cmd.(type) {
	case Numbers:
		o.numbers = cmd.Val()
	case Values:
		o.list = cmd.Val()
	}
	return o
}

// ask is run for calls about n ids whose reply is that of finish.lua.
func (l *lab) ask(c Call, n int) Reply {
	l.t.Helper()
	got := l.run(c)
	require.NoError(l.t, got.err)
	r, err := DecodeReply(got.numbers, n)
	require.NoError(l.t, err)
	return r
}

// identity returns the identity of the server that names record. It is empty on miniredis.
func (l *lab) identity() string {
	id := l.rdb.InfoMap(background, "replication").Item("Replication", "master_replid")
	return id[:min(12, len(id))]
}

func (l *lab) now() time.Time {
	l.t.Helper()
	now, err := l.rdb.Time(background).Result()
	require.NoError(l.t, err)
	return now
}

// snapshot is the contents of all keys of a name.
type snapshot struct {
	now                   int64 // server ms
	owner, queue, timeout []redis.Z
	counter               string
	weight, meta          map[string]string
	expiry                [len(Kinds)]time.Duration // as PTTL returns it
	numbers               []redis.Z
}

func (l *lab) snapshot() snapshot {
	l.t.Helper()
	pipe := l.rdb.TxPipeline()
	now := pipe.Time(background)
	var zsets [3]*redis.ZSliceCmd
	for i := range zsets {
		zsets[i] = pipe.ZRangeWithScores(background, l.keys[i], 0, -1)
	}
	counter := pipe.Get(background, l.keys[3])
	weight, meta := pipe.HGetAll(background, l.keys[4]), pipe.HGetAll(background, l.keys[5])
	numbers := pipe.ZRangeWithScores(background, l.keys[9], 0, -1)
	var expiry [len(Kinds)]*redis.DurationCmd
	for i, key := range l.keys {
		expiry[i] = pipe.PTTL(background, key)
	}
	if _, err := pipe.Exec(background); !errors.Is(err, redis.Nil) {
		require.NoError(l.t, err)
	}
	s := snapshot{
		now.Val().UnixMilli(), zsets[0].Val(), zsets[1].Val(), zsets[2].Val(),
		counter.Val(), weight.Val(), meta.Val(), [len(Kinds)]time.Duration{}, numbers.Val(),
	}
	for i := range expiry {
		s.expiry[i] = expiry[i].Val()
	}
	l.checkPlain(s)
	return s
}

// checkPlain checks that a name which is stored as plain is so: the plain scripts read no queue and no weights. No test has
// stored it by hand, unless it stored what is right.
func (l *lab) checkPlain(s snapshot) {
	l.t.Helper()
	plain, isPlain := s.meta["plain"]
	if !isPlain {
		return
	}
	limit, mayQueue := strings.CutSuffix(plain, "+")
	limit, hasNumbers := strings.CutSuffix(limit, "#")
	limit, isShared := strings.CutSuffix(limit, "@")
	assert.Equal(l.t, s.meta[MetaTenants] != "", isShared, "tenants of a name that is stored as plain without them")
	assert.Equal(l.t, s.meta[MetaNumbered] != "", hasNumbers, "numbers of a name that is stored as plain without them")
	assert.Equal(l.t, cmp.Or(s.meta["pinned"], s.meta["declared"]), limit, "the limit in effect")
	assert.True(l.t, mayQueue || len(s.queue) == 0, "waiters of a name that is stored as plain without them")
	assert.Empty(l.t, s.weight, "weights of a plain name")
	assert.Empty(l.t, s.meta["ahead"], "a clock that was stepped back")
	assert.NotContains(l.t, plain, "/", "a rate")
	grace, _ := strconv.ParseInt(s.meta["quiet"], 10, 64)
	assert.LessOrEqual(l.t, grace, s.now, "the end of the grace period")
}

// A state is written as "owner me:1=5 you:2=6 | timeout me:1=60s you:2=20s | counter 6 | meta until=80s". Keys without
// content are omitted, counts come last, and times are relative to now, in steps of 10 s. Numbers that a script took from the clock
// are #1, #2, ... in ascending order. Numbers that a test seeds are small.
func (l *lab) seed(state string) {
	l.t.Helper()
	now := l.now().UnixMilli()
	pipe := l.rdb.TxPipeline()
	horizon := now + (80 * time.Second).Milliseconds()
	if strings.Contains(state, "meta ") {
		pipe.HSet(background, l.keys[5], "epoch", seededEpoch, "quiet", 0, "server", l.identity())
	}
	sections := strings.FieldsFunc(state, func(r rune) bool { return r == '|' })
	for _, section := range sections {
		words := strings.Fields(section)
		key := l.keys[slices.Index(Kinds[:], words[0])]
		for _, word := range words[1:] {
			field, value, _ := strings.Cut(word, "=")
			if field == MetaRestored || field == MetaGrantedIn || field == MetaHighest {
				value = strings.ReplaceAll(value, "_", " ")
			}
			if d, err := time.ParseDuration(value); err == nil && value != "0" {
				value = strconv.FormatInt(now+d.Milliseconds(), 10)
			}
			switch words[0] {
			case "counter":
				pipe.Set(background, key, field, 0)
			case "weight", "meta":
				pipe.HSet(background, key, field, value)
			default:
				score, err := strconv.ParseFloat(value, 64)
				require.NoError(l.t, err)
				pipe.ZAdd(background, key, redis.Z{Score: score, Member: field})
			}
			if field == "until" {
				horizon, _ = strconv.ParseInt(value, 10, 64)
			}
		}
	}
	for i, key := range l.keys {
		if i != 5 || !strings.Contains(state, "pinned=") {
			pipe.PExpireAt(background, key, time.UnixMilli(horizon))
		}
	}
	_, err := pipe.Exec(background)
	require.NoError(l.t, err)
}

// seededEpoch is the epoch of every seed with a meta.
const seededEpoch = 4

// seededKnown is the knowledge of a client that sends known().
var seededKnown = Known{known(0).Since, seededEpoch}

// String omits the fields of the epoch and the marks of the pace, which epoch_test.go and pace_test.go check.
func (s snapshot) String() string {
	var out []string
	for i, zset := range [][]redis.Z{s.owner, s.queue, s.timeout} {
		line := Kinds[:][i]
		for _, z := range zset {
			value := strconv.FormatFloat(z.Score, 'f', -1, 64)
			if i == 2 {
				value = s.relative(value)
			}
			line += fmt.Sprintf(" %s=%s", z.Member, value)
		}
		out = append(out, line)
	}
	out = append(out, strings.TrimSpace("counter "+s.counter))
	for i, hash := range []map[string]string{s.weight, s.meta} {
		line := Kinds[:][4+i]
		for _, field := range sorted(hash) {
			value := hash[field]
			if i == 1 && slices.Contains([]string{"epoch", "first", "quiet", "server", "restored", "earlier", "granted_in", "all_in", "highest", "marked_at", "marked", "before_at", "before", "plain"}, field) {
				continue
			}
			if field == "until" {
				value = s.relative(value)
			}
			line += fmt.Sprintf(" %s=%s", field, value)
		}
		out = append(out, line)
	}
	line := NumbersKey
	for _, z := range s.numbers {
		line += fmt.Sprintf(" %s=%v", z.Member, z.Score)
	}
	out = append(out, line)
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return !strings.Contains(s, " ") }), " | ")
}

// lifetimes is how long each key will still exist.
func (s snapshot) lifetimes() (all string) {
	for _, left := range s.expiry {
		all += " " + seconds(left)
	}
	return all
}

// relative turns a server time into a duration from now, to the nearest 10 s.
func (s snapshot) relative(ms string) string {
	n, _ := strconv.ParseInt(ms, 10, 64)
	return seconds(time.Duration(n-s.now) * time.Millisecond)
}

func seconds(d time.Duration) string {
	return strconv.Itoa(int(d.Round(10*time.Second).Seconds())) + "s"
}

func sorted(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	counts := func(key string) int { return slices.Index([]string{"granted", "lapsed"}, key) }
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(counts(a)-counts(b), cmp.Compare(a, b)) })
	return keys
}

var stateNames = map[State]string{
	Gone: "gone", Held: "held", Waiting: "waiting",
	Refused: "refused", Full: "full", TooBig: "too big", Early: "early", Evicted: "evicted",
}

func (r Reply) String() string {
	var out []string
	for _, res := range r.Results {
		word := stateNames[res.State]
		switch {
		case (res.State == Refused || res.State == Early) && res.Number != 0:
			word += " " + seconds(time.Duration(res.Number)*time.Millisecond)
		case res.Number != 0:
			word += " " + strconv.FormatInt(res.Number, 10)
		}
		if len(res.Numbers) > 0 {
			word += " with " + NumberList(res.Numbers)
		}
		out = append(out, word)
	}
	for _, g := range r.Grants {
		word := fmt.Sprintf("me:%d gets %d for %d", g.Seq, g.Token, g.Position)
		if len(g.Numbers) > 0 {
			word += " with " + NumberList(g.Numbers)
		}
		out = append(out, word)
	}
	if r.More {
		out = append(out, "more")
	}
	if r.Next >= 0 {
		out = append(out, "next "+seconds(r.Next))
	}
	if r.Room > 0 {
		out = append(out, fmt.Sprint("room ", r.Room))
	}
	return strings.Join(out, ", ")
}

var clockNumber = regexp.MustCompile(`\b\d{16}\b`)

// ranked replaces numbers from the clock by their rank.
func ranked(text string) string {
	found := clockNumber.FindAllString(text, -1)
	slices.Sort(found)
	found = slices.Compact(found)
	return clockNumber.ReplaceAllStringFunc(text, func(n string) string {
		return "#" + strconv.Itoa(slices.Index(found, n)+1)
	})
}

// listen collects the wake messages of a lab. The returned function stops that and returns them.
func (l *lab) listen() (messages func() string) {
	l.t.Helper()
	sub := l.rdb.PSubscribe(background, l.space.WakePrefix()+"*")
	l.t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(background)
	require.NoError(l.t, err)
	return func() string {
		require.NoError(l.t, l.rdb.Publish(background, l.space.WakePrefix()+"end", "").Err())
		var out []string
		for {
			m, err := sub.ReceiveMessage(background)
			require.NoError(l.t, err)
			to, _ := strings.CutPrefix(m.Channel, l.space.WakePrefix())
			if to == "end" {
				slices.Sort(out) // clients come in any order
				return strings.Join(out, ", ")
			}
			list, rest, _ := strings.Cut(m.Payload, " ")
			epoch, key, _ := strings.Cut(rest, " ")
			assert.Equal(l.t, l.keys[0], key)
			assert.Equal(l.t, l.rdb.HGet(background, l.keys[5], "epoch").Val(), epoch)
			out = append(out, to+" "+list)
		}
	}
}

// mustExpire checks that every existing key expires, and not before a deadline in it.
func (s snapshot) mustExpire(t testing.TB) {
	t.Helper()
	for i, left := range s.expiry {
		switch {
		case left == -2: // the key does not exist
		case i == 5 && s.meta["pinned"] != "":
			assert.Equal(t, time.Duration(-1), left, "a pinned limit stays")
		default:
			assert.GreaterOrEqual(t, left, time.Duration(0), "%s never expires", Kinds[:][i])
			if n := len(s.timeout); n > 0 {
				last := time.Duration(s.timeout[n-1].Score-float64(s.now)) * time.Millisecond
				assert.Greater(t, left+10*time.Millisecond, last, "%s expires before a deadline", Kinds[:][i])
			}
		}
	}
}

// ticket is an Entry.
type ticket struct {
	id     string
	weight int64
}

func (t *ticket) PermitID() string       { return t.id }
func (t *ticket) Units() int64           { return t.weight }
func (t *ticket) MaxWait() time.Duration { return 0 }

// bearing is a ticket that does not wait for its turn of a rate for longer than it bears.
type bearing struct {
	ticket
	maxWait time.Duration
}

func (b *bearing) MaxWait() time.Duration { return b.maxWait }

func bear(list []*ticket, maxWait ...time.Duration) (all []*bearing) {
	for i, t := range list {
		all = append(all, &bearing{*t, maxWait[i]})
	}
	return all
}

// tickets makes tickets from "id" and "id*weight".
func tickets(ids ...string) []*ticket {
	var all []*ticket
	for _, id := range ids {
		id, units, _ := strings.Cut(id, "*")
		weight, err := strconv.ParseInt(units, 10, 64)
		if err != nil {
			weight = 1
		}
		all = append(all, &ticket{id: id, weight: weight})
	}
	return all
}

func weightsOf(tickets []*ticket) (all []int64) {
	for _, t := range tickets {
		all = append(all, t.weight)
	}
	return all
}

// usedNow is the since of a limit that its client uses for the first time now.
const usedNow = 0

// known is the declaration that the seeds of the contracts have.
func known(limit int64) Declaration { return declares(limit, 7) }

// declares is the declaration of a client that knows no server.
func declares(limit, since int64) Declaration {
	return Declaration{Spec: LimitSpec{Limit: limit}, Since: since}
}

type contract struct {
	name  string
	seed  string
	ids   []string
	call  func(l *lab, ids []*ticket) Call
	reply string
	wake  string
	state string // "": like the seed
}

func (c contract) check(t *testing.T, rdb *redis.Client) {
	t.Helper()
	l := newLab(t, rdb)
	l.seed(c.seed)
	messages := l.listen()
	r := l.ask(c.call(l, tickets(c.ids...)), len(c.ids))
	got := l.snapshot()
	if c.state == "" {
		c.state = c.seed
	}
	assert.Equal(t,
		strings.Join([]string{c.reply, c.wake, c.state}, "\n"),
		ranked(strings.Join([]string{r.String(), messages(), got.String()}, "\n")))
	got.mustExpire(t)
}

func checkAll(t *testing.T, contracts []contract) {
	t.Helper()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for _, c := range contracts {
			t.Run(c.name, func(t *testing.T) { t.Parallel(); c.check(t, rdb) })
		}
	})
}

// acquiring is an acquire by "me" with a ttl of 60 s. It releases the ids with a minus, which come first.
func acquiring(d Declaration, change func(*AcquireParams)) func(*lab, []*ticket) Call {
	t := AcquireParams{TTL: time.Minute, Wait: true}
	if change != nil {
		change(&t)
	}
	return func(l *lab, ids []*ticket) Call {
		var asked, back []*ticket
		for _, ticket := range ids {
			if id, found := strings.CutPrefix(ticket.id, "-"); found {
				ticket.id = id
				back = append(back, ticket)
			} else {
				asked = append(asked, ticket)
			}
		}
		return Acquire(l.space.About("name"), d, t, asked, back...)
	}
}

func releasing(limit int64, tombstone time.Duration) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Release(l.space.About("name"), known(limit), tombstone, false, ids)
	}
}

// releasingOverdue is a release of ids that have expired by the clock of their client.
func releasingOverdue(limit int64, tombstone time.Duration) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Release(l.space.About("name"), known(limit), tombstone, true, ids)
	}
}

func refreshing(limit int64) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Refresh(l.space.About("name"), known(limit), time.Minute, false, ids)
	}
}

// renewing is a refresh by a client that knows the tokens.
func renewing(limit int64) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Refresh(l.space.About("name"), known(limit), time.Minute, true, ids)
	}
}

// reducing lowers the weights to those behind the ids.
func reducing(limit int64) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Reduce(l.space.About("name"), known(limit), ids, weightsOf(ids))
	}
}

func noWait(t *AcquireParams) { t.Wait = false }

func TestAcquireGrantsQueuesOrRefuses(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "grants what fits on an unused name, and declares its limit",
		ids:   []string{"me:1", "me:2*2"},
		call:  acquiring(declares(3, usedNow), nil),
		reply: "held #1, held #2",
		state: "owner me:1=#1 me:2=#2 | timeout me:1=60s me:2=60s | counter #2 | weight extra=1 me:2=2 | meta declared=3 layout=2 since=#1 until=80s granted=2",
	}, {
		name:  "queues a call that does not fit, and a later one that would fit",
		ids:   []string{"me:1*2", "me:2*2", "me:3"},
		call:  acquiring(known(3), nil),
		reply: "held #1, waiting #2, waiting #3, next 60s",
		state: "owner me:1=#1 | queue me:2=#2 me:3=#3 | timeout me:1=60s me:2=60s me:3=60s | counter #3 | weight extra=1 me:1=2 me:2=2" + meta + " granted=1",
	}, {
		name:  "adds a waiter at the end of the queue",
		seed:  "owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=20s | counter 6 | weight you:2=3" + meta,
		ids:   []string{"me:1"},
		call:  acquiring(known(3), nil),
		reply: "waiting #1, next 20s",
		state: "owner you:1=5 | queue you:2=6 me:1=#1 | timeout you:1=20s you:2=20s me:1=60s | counter #1 | weight you:2=3" + meta,
	}, {
		name:  "refuses a call without wait that does not fit",
		seed:  "owner you:1=5 you:2=6 | timeout you:1=20s you:2=20s | counter 6" + meta,
		ids:   []string{"me:1*2"},
		call:  acquiring(known(3), noWait),
		reply: "refused",
	}, {
		name:  "refuses a call without wait while another waits",
		seed:  "owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=20s | counter 6 | weight you:2=3" + meta,
		ids:   []string{"me:1"},
		call:  acquiring(known(3), noWait),
		reply: "refused",
	}, {
		name:  "counts the queue before it reports it full",
		seed:  "owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=20s | counter 6 | weight you:2=3" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  acquiring(known(3), func(t *AcquireParams) { t.MaxQueue = 2 }),
		reply: "waiting #1, full, next 20s",
		state: "owner you:1=5 | queue you:2=6 me:1=#1 | timeout you:1=20s you:2=20s me:1=60s | counter #1 | weight you:2=3" + meta,
	}, {
		name:  "grants a call that fits although the queue may have no length",
		seed:  "counter 6" + meta,
		ids:   []string{"me:1*3", "me:2", "me:3"},
		call:  acquiring(known(3), func(t *AcquireParams) { t.MaxQueue = 1 }),
		reply: "held #1, waiting #2, full, next 60s",
		state: "owner me:1=#1 | queue me:2=#2 | timeout me:1=60s me:2=60s | counter #2 | weight extra=2 me:1=3" + meta + " granted=1",
	}, {
		name:  "refuses a call that can never fit",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 5" + meta,
		ids:   []string{"me:1*4", "me:2*4"},
		call:  acquiring(known(3), nil),
		reply: "too big, too big",
	}, {
		name:  "uses the limit set by hand",
		seed:  "counter 6 | meta declared=3 layout=2 pinned=1 since=7 until=80s",
		ids:   []string{"me:1*2", "me:2", "me:3"},
		call:  acquiring(known(3), nil),
		reply: "too big, held #1, waiting #2, next 60s",
		state: "owner me:2=#1 | queue me:3=#2 | timeout me:2=60s me:3=60s | counter #2 | meta declared=3 layout=2 pinned=1 since=7 until=80s granted=1",
	}, {
		name:  "keeps a limit set by hand forever, and the rest longer than the longest ttl",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 5 | meta declared=3 layout=2 pinned=4 since=7 until=80s",
		ids:   []string{"me:1*3"},
		call:  acquiring(known(3), func(t *AcquireParams) { t.TTL = 100 * time.Second }),
		reply: "held #1",
		state: "owner you:1=5 me:1=#1 | timeout you:1=20s me:1=100s | counter #1 | weight extra=2 me:1=3 | meta declared=3 layout=2 pinned=4 since=7 until=120s granted=1",
	}, {
		name:  "queues every call during a pause",
		seed:  "counter 6 | meta declared=3 layout=2 pinned=0 since=7 until=80s",
		ids:   []string{"me:1*9"},
		call:  acquiring(known(3), nil),
		reply: "waiting #1, next 60s",
		state: "queue me:1=#1 | timeout me:1=60s | counter #1 | weight me:1=9 | meta declared=3 layout=2 pinned=0 since=7 until=80s",
	}, {
		name:  "applies a head start to the position, and not to the token",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 6 | meta declared=1 layout=2 since=7 until=80s",
		ids:   []string{"me:1"},
		call:  acquiring(known(1), func(t *AcquireParams) { t.HeadStart = time.Hour }),
		reply: "waiting #1, next 20s",
		state: "owner you:1=5 | queue me:1=#1 | timeout you:1=20s me:1=60s | counter #2 | meta declared=1 layout=2 since=7 until=80s",
	}, {
		name:  "keeps the keys longer than the longest ttl",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 5" + meta,
		ids:   []string{"me:1"},
		call:  acquiring(known(3), func(t *AcquireParams) { t.TTL = 100 * time.Second }),
		reply: "held #1",
		state: "owner you:1=5 me:1=#1 | timeout you:1=20s me:1=100s | counter #1 | meta declared=3 layout=2 since=7 until=120s granted=1",
	}})
}

// S4
func TestAcquireSentAgainIsTheSameAcquire(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "a holder and a waiter keep their numbers and are renewed",
		seed:  "owner me:1=5 | queue me:2=6 | timeout me:1=20s me:2=30s | counter 9 | weight extra=2 me:1=3" + meta,
		ids:   []string{"me:1*3", "me:2"},
		call:  acquiring(known(3), nil),
		reply: "held 5, waiting 6, next 20s",
		state: "owner me:1=5 | queue me:2=6 | timeout me:1=60s me:2=60s | counter 9 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "a holder that called without wait keeps its permit",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 9 | weight extra=2 me:1=3" + meta,
		ids:   []string{"me:1*3"},
		call:  acquiring(known(3), noWait),
		reply: "held 5",
		state: "owner me:1=5 | timeout me:1=60s | counter 9 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "a tombstone is reported as evicted, and not renewed",
		seed:  "timeout me:1=20s | counter 9" + meta,
		ids:   []string{"me:1"},
		call:  acquiring(known(3), nil),
		reply: "evicted",
	}, {
		name:  "a waiter that weighs more than a limit which was lowered meanwhile, and is removed by the call, is told so",
		seed:  "owner you:1=5 | queue you:2=6 me:1=7 | timeout you:1=-10s you:2=20s me:1=20s | counter 9 | weight extra=1 me:1=3 you:1=2" + meta + " pinned=2",
		ids:   []string{"me:1*3"},
		call:  acquiring(known(3), nil),
		reply: "too big, me:1 gets 0 for 7",
		wake:  "you 2:6:#1",
		state: "owner you:2=#1 | timeout you:2=20s | counter #1 | meta declared=3 layout=2 pinned=2 since=7 until=80s granted=1 lapsed=1",
	}, {
		name:  "an expired holder is gone, and another id of the call gets its room",
		seed:  "owner me:1=5 | timeout me:1=-10s | counter 9 | weight extra=2 me:1=3" + meta,
		ids:   []string{"me:1*3", "me:2*2"},
		call:  acquiring(known(3), nil),
		reply: "gone, held #1",
		state: "owner me:2=#1 | timeout me:2=60s | counter #1 | weight extra=1 me:2=2" + meta + " granted=1 lapsed=1",
	}})
}

// Redis checks its memory before a script's first write only, and never before one that frees memory.
func TestFullServerRefusesAnAcquireWhateverElseItDoes(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.NewServer(t, "--maxmemory-policy", "noeviction").Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	const meta = " | meta declared=1 layout=2 since=7 until=80s"
	calls := map[string]contract{
		"release":                   {seed: "owner me:1=5 | timeout me:1=60s | counter 5" + meta, ids: []string{"-me:1", "me:2", "me:3"}},
		"release and need no queue": {seed: "owner me:1=5 | timeout me:1=60s | counter 5" + meta, ids: []string{"-me:1", "me:2"}},
		"release an unknown id":     {seed: "owner you:1=5 | timeout you:1=60s | counter 5" + meta, ids: []string{"-me:1", "me:2"}},
		"reap":                      {seed: "owner you:1=5 | timeout you:1=-9s | counter 5" + meta, ids: []string{"me:2"}},
		"promote":                   {seed: "queue you:1=5 | timeout you:1=60s | counter 5" + meta, ids: []string{"me:2"}},
		"nothing":                   {ids: []string{"me:2"}},
	}
	labs := map[string]*lab{}
	for name, c := range calls {
		labs[name] = newLab(t, rdb)
		labs[name].seed(c.seed)
	}
	require.NoError(t, rdb.ConfigSet(background, "maxmemory", "100kb").Err()) // more than that is in use already
	for name, c := range calls {
		l := labs[name]
		before := l.dump()
		err := l.run(acquiring(known(1), nil)(l, tickets(c.ids...))).err
		assert.True(t, failure.Begins(failure.Discreet(err), "OOM"), "%s: %v", name, err)
		assert.Equal(t, before, l.dump(), name)
	}
}

// With full memory, parts must still be released, and waiters must get their units.
func TestFullServerAcceptsTheReleaseOfAPart(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.NewServer(t, "--maxmemory-policy", "noeviction").Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	l := newLab(t, rdb)
	l.seed("owner me:1=5 you:1=6 | queue me:2=7 | timeout me:1=20s me:2=20s you:1=-9s | counter 7 | weight extra=4 me:1=4 me:2=3 you:1=2" +
		" | meta declared=6 layout=2 since=7 until=80s")
	require.NoError(t, rdb.ConfigSet(background, "maxmemory", "100kb").Err()) // more than that is in use already
	r := l.ask(reducing(6)(l, tickets("me:1*2")), 1)
	assert.Equal(t, "held 5, me:2 gets #1 for 7", ranked(r.String()))
	require.NoError(t, rdb.ConfigSet(background, "maxmemory", "0").Err()) // to read the state
	assert.Equal(t, map[string]string{"extra": "3", "me:1": "2", "me:2": "3"}, l.snapshot().weight)
}

func TestAcquireGrantsTheQueueFirst(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "a waiter gets the room of an expired holder before the caller",
		seed:  "owner you:1=5 | queue you:2=6 | timeout you:1=-10s you:2=20s | counter 6 | weight extra=2 you:1=3 you:2=2" + meta,
		ids:   []string{"me:1*2", "me:2"},
		call:  acquiring(known(3), nil),
		reply: "waiting #2, waiting #3, next 20s",
		wake:  "you 2:6:#1",
		state: "owner you:2=#1 | queue me:1=#2 me:2=#3 | timeout you:2=20s me:1=60s me:2=60s | counter #3 | weight extra=1 me:1=2 you:2=2" + meta + " granted=1 lapsed=1",
	}, {
		name:  "a larger limit grants the queue, then the caller that declares it",
		seed:  "owner you:1=5 | queue you:2=6 me:3=7 | timeout you:1=20s you:2=20s me:3=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s",
		ids:   []string{"me:4"},
		call:  acquiring(declares(4, usedNow), nil),
		reply: "held #3, me:3 gets #2 for 7",
		wake:  "you 2:6:#1",
		state: "owner you:1=5 you:2=#1 me:3=#2 me:4=#3 | timeout me:3=20s you:1=20s you:2=20s me:4=60s | counter #3 | meta declared=4 layout=2 since=#1 until=80s granted=3",
	}, {
		name:  "an older declaration changes nothing",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s",
		ids:   []string{"me:1"},
		call:  acquiring(declares(9, 6), noWait),
		reply: "refused",
	}, {
		name:  "the first waiter of each other process gets an earlier deadline",
		seed:  "owner you:1=5 | queue you:2=6 them:1=7 you:3=8 me:1=9 | timeout you:1=90s you:2=90s them:1=90s you:3=90s me:1=90s | counter 9 | meta declared=1 layout=2 since=7 until=100s",
		ids:   []string{"me:2"},
		call:  acquiring(known(1), nil),
		reply: "waiting #1, next 60s",
		wake:  "them 1:7:0, you 2:6:0",
		state: "owner you:1=5 | queue you:2=6 them:1=7 you:3=8 me:1=9 me:2=#1 | timeout me:2=60s me:1=90s them:1=90s you:1=90s you:2=90s you:3=90s | counter #1 | meta declared=1 layout=2 since=7 until=100s",
	}, {
		name:  "a waiter that can never fit again is removed and notified",
		seed:  "queue you:1=5 me:2=6 | timeout you:1=20s me:2=20s | counter 7 | weight me:2=4 you:1=4" + meta,
		ids:   []string{"me:3"},
		call:  acquiring(known(3), nil),
		reply: "held #1, me:2 gets 0 for 6",
		wake:  "you 1:5:0",
		state: "owner me:3=#1 | timeout me:3=60s | counter #1" + meta + " granted=1",
	}})
}

// A sum of units that an interrupted script left too high must not block the name forever.
func TestSumOfUnitsIsRepairedWhenThereIsNoHolder(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "with a grant of several units",
		seed:  "counter 9 | weight extra=2" + meta,
		ids:   []string{"me:1*2"},
		call:  acquiring(known(3), nil),
		reply: "held #1",
		state: "owner me:1=#1 | timeout me:1=60s | counter #1 | weight extra=1 me:1=2" + meta + " granted=1",
	}, {
		name:  "with a grant of one unit",
		seed:  "counter 9 | weight extra=2" + meta,
		ids:   []string{"me:1"},
		call:  acquiring(known(3), nil),
		reply: "held #1",
		state: "owner me:1=#1 | timeout me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "with the promotion of one unit",
		seed:  "queue me:1=5 | timeout me:1=20s | counter 9 | weight extra=3" + meta,
		call:  refreshing(3),
		reply: "me:1 gets #1 for 5, next 20s",
		state: "owner me:1=#1 | timeout me:1=20s | counter #1" + meta + " granted=1",
	}})
}

func TestAcquireReleasesBeforeItAcquires(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "a holder, and so fits",
		seed:  "owner me:1=5 me:2=6 you:1=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7" + meta,
		ids:   []string{"-me:1", "-me:2", "me:3", "me:4"},
		call:  acquiring(known(3), noWait),
		reply: "held, held, held #1, held #2",
		state: "owner you:1=7 me:3=#1 me:4=#2 | timeout you:1=20s me:3=60s me:4=60s | counter #2" + meta + " granted=2",
	}, {
		name:  "all holders",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 7" + meta,
		ids:   []string{"-me:1", "me:3"},
		call:  acquiring(known(3), nil),
		reply: "held, held #1",
		state: "owner me:3=#1 | timeout me:3=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "a holder and an unknown id, which makes less room",
		seed:  "owner me:1=5 you:1=6 you:2=7 | timeout me:1=20s you:1=20s you:2=20s | counter 7" + meta,
		ids:   []string{"-me:1", "-me:2", "me:3", "me:4"},
		call:  acquiring(known(3), nil),
		reply: "held, gone, held #1, waiting #2, next 20s",
		state: "owner you:1=6 you:2=7 me:3=#1 | queue me:4=#2 | timeout you:1=20s you:2=20s me:3=60s me:4=60s | counter #2" + meta + " granted=1",
	}, {
		name:  "a holder, and grants earlier waiters first",
		seed:  "owner me:1=5 you:1=6 you:2=7 | queue you:3=8 me:2=9 | timeout me:1=20s me:2=20s you:1=20s you:2=20s you:3=20s | counter 9" + meta,
		ids:   []string{"-me:1", "me:3"},
		call:  acquiring(known(3), nil),
		reply: "held, waiting #2, next 20s",
		wake:  "you 3:8:#1",
		state: "owner you:1=6 you:2=7 you:3=#1 | queue me:2=9 me:3=#2 | timeout me:2=20s you:1=20s you:2=20s you:3=20s me:3=60s | counter #2" + meta + " granted=1",
	}, {
		name:  "weights, and acquires weights",
		seed:  "owner me:1=5 you:1=6 | timeout me:1=20s you:1=20s | counter 6 | weight extra=1 me:1=2" + meta,
		ids:   []string{"-me:1", "me:2", "me:3*2"},
		call:  acquiring(known(3), nil),
		reply: "held, held #1, waiting #2, next 20s",
		state: "owner you:1=6 me:2=#1 | queue me:3=#2 | timeout you:1=20s me:2=60s me:3=60s | counter #2 | weight me:3=2" + meta + " granted=1",
	}, {
		name:  "a waiter, which no longer delays the waiters behind it",
		seed:  "owner you:1=5 you:2=6 | queue me:1=7 | timeout me:1=20s you:1=20s you:2=20s | counter 7 | weight me:1=2" + meta,
		ids:   []string{"-me:1", "me:2"},
		call:  acquiring(known(3), nil),
		reply: "waiting, held #1",
		state: "owner you:1=5 you:2=6 me:2=#1 | timeout you:1=20s you:2=20s me:2=60s | counter #1" + meta + " granted=1",
	}})
}

func TestReleaseRemovesHoldersAndWaiters(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "a holder",
		seed:  "owner me:1=5 you:1=6 | timeout me:1=20s you:1=20s | counter 6 | weight extra=1 me:1=2" + meta,
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "held",
		state: "owner you:1=6 | timeout you:1=20s | counter 6" + meta,
	}, {
		name:  "a waiter",
		seed:  "owner you:1=5 | queue me:1=6 you:2=7 | timeout me:1=20s you:1=20s you:2=20s | counter 7 | weight extra=2 me:1=3 you:1=3" + meta,
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "waiting",
		state: "owner you:1=5 | queue you:2=7 | timeout you:1=20s you:2=20s | counter 7 | weight extra=2 you:1=3" + meta,
	}, {
		name:  "a waiter whose lease has ended, which counts for nothing",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue me:1=8 | timeout me:1=20s you:1=20s you:2=20s you:3=20s | counter 8 | meta declared=3 layout=2 since=7 until=30s",
		ids:   []string{"me:1"},
		call:  releasingOverdue(3, 0),
		reply: "waiting",
		state: "owner you:1=5 you:2=6 you:3=7 | timeout you:1=20s you:2=20s you:3=20s | counter 8 | meta declared=3 layout=2 since=7 until=30s",
	}, {
		name:  "an unknown id",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 6 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "gone",
	}, {
		name:  "an id that was evicted, beside one whose tombstone has expired",
		seed:  "owner you:1=5 | timeout me:2=-10s me:1=20s you:1=20s | counter 6" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  releasing(3, 0),
		reply: "evicted, gone",
		state: "owner you:1=5 | timeout you:1=20s | counter 6" + meta,
	}, {
		name:  "an id that was released with a tombstone, and was evicted as far as is known",
		seed:  "owner you:1=5 | timeout me:1=20s you:1=20s | counter 6" + meta,
		ids:   []string{"me:1"},
		call:  releasing(3, 30*time.Second),
		reply: "evicted",
		state: "owner you:1=5 | timeout you:1=20s me:1=30s | counter 6" + meta,
	}, {
		name:  "a holder, a waiter and an unknown id in one call",
		seed:  "owner me:1=5 you:1=6 | queue me:2=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | weight me:2=2" + meta,
		ids:   []string{"me:1", "me:2", "me:3"},
		call:  releasing(3, 0),
		reply: "held, waiting, gone",
		state: "owner you:1=6 | timeout you:1=20s | counter 7" + meta,
	}, {
		name:  "the last holder, and everything except the number and the limit",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 6 | weight extra=1 me:1=2" + meta,
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "held",
		state: "counter 6" + meta,
	}, {
		name:  "the last holder, whose units were counted too high, and renews the keys",
		seed:  "owner me:1=5 | timeout me:1=1s | counter 6 | weight extra=3 | meta declared=3 layout=2 since=7 until=5s",
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "held",
		state: "counter 6 | meta declared=3 layout=2 since=7 until=20s",
	}, {
		name:  "the last holder, with a short lease, without a change of when the keys expire",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=30s",
		ids:   []string{"me:1"},
		call:  releasing(3, 0),
		reply: "held",
		state: "counter 6 | meta declared=3 layout=2 since=7 until=30s",
	}, {
		name:  "a holder, a waiter and an unknown id, and leaves tombstones",
		seed:  "owner me:1=5 you:1=6 | queue me:2=7 you:2=8 | timeout me:1=60s me:2=60s you:1=60s you:2=60s | counter 8 | weight extra=1 me:2=2 you:1=2 you:2=3" + meta,
		ids:   []string{"me:1", "me:2", "me:3"},
		call:  releasing(3, 20*time.Second),
		reply: "held, waiting, gone",
		state: "owner you:1=6 | queue you:2=8 | timeout me:1=20s me:2=20s me:3=20s you:1=60s you:2=60s | counter 8 | weight extra=1 you:1=2 you:2=3" + meta,
	}, {
		name:  "a holder and a waiter whose leases have ended, and leaves tombstones that outlive them",
		seed:  "owner me:1=5 you:1=6 you:2=7 you:3=8 | queue me:2=9 | timeout me:1=20s me:2=20s you:1=20s you:2=20s you:3=20s | counter 9" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  releasingOverdue(3, time.Hour),
		reply: "held, waiting",
		state: "owner you:1=6 you:2=7 you:3=8 | timeout you:1=20s you:2=20s you:3=20s me:1=3600s me:2=3600s | counter 9" +
			" | meta declared=3 layout=2 since=7 until=3620s lapsed=1",
	}, {
		name:  "an id of an unused name, and leaves a tombstone that expires",
		ids:   []string{"me:1"},
		call:  releasing(3, 20*time.Second),
		reply: "gone",
		state: "timeout me:1=20s | meta declared=3 layout=2 since=7 until=40s",
	}})
}

// A fast path must not change the result of a call.
func TestFastPathDoesNotChangeARefresh(t *testing.T) {
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	const held = "owner me:1=5 me:2=6 you:1=7 | timeout me:1=20s me:2=20s you:1=40s | counter 7"
	refreshes := renewing(3)
	checkFastPath(t, withoutFastPath(t, RefreshScript), map[string]contract{
		"of some":  {seed: held + meta, call: refreshes, ids: []string{"me:1", "me:2"}},
		"of all":   {seed: held + meta, call: refreshes, ids: []string{"me:1", "me:2", "you:1"}},
		"of no id": {seed: held + meta, call: refreshes},
		"by a client that does not know the tokens": {seed: held + meta, call: refreshing(3), ids: []string{"me:1", "me:2"}},
		"of an unknown one":                         {seed: held + meta, call: refreshes, ids: []string{"me:1", "me:3"}},
		"of one with a tombstone":                   {seed: "owner me:1=5 | timeout me:1=20s me:2=20s" + meta, call: refreshes, ids: []string{"me:1", "me:2"}},
		"of an unused name":                         {call: refreshes, ids: []string{"me:1"}},
		"with weights":                              {seed: held + " | weight extra=1 me:1=2" + meta, call: refreshes, ids: []string{"me:1"}},
		"with a queue":                              {seed: held + " | queue me:3=8" + meta, call: refreshes, ids: []string{"me:1", "me:3"}},
		"of an expired one":                         {seed: strings.Replace(held, "me:1=20s", "me:1=-10s", 1) + meta, call: refreshes, ids: []string{"me:1", "me:2"}},
		"while another has expired":                 {seed: strings.Replace(held, "you:1=40s", "you:1=-10s", 1) + meta, call: refreshes, ids: []string{"me:1", "me:2"}},
		"with a newer limit":                        {seed: held + strings.Replace(meta, "since=7", "since=6", 1), call: refreshes, ids: []string{"me:1"}},
		"for which the keys must last longer":       {seed: held + strings.Replace(meta, "80s", "30s", 1), call: refreshes, ids: []string{"me:1"}},
	})
}

// withoutFastPath is a script that never takes its fast path.
func withoutFastPath(t *testing.T, s *Script) *Script {
	t.Helper()
	const way = "\nlocal fast ="
	require.Equal(t, 1, strings.Count(s.Text(), way))
	text := strings.Replace(s.Text(), way, way+" false and", 1)
	made := newSource([]byte(text))
	return &Script{s.Verb, s.Arguments, nil, s.plain, func() source { return made }}
}

var heldToken = regexp.MustCompile(`held #?\d+`)

// checkFastPath makes the same calls with a script and with its detour, which has no fast path, and compares all results.
func checkFastPath(t *testing.T, detour *Script, calls map[string]contract) {
	t.Helper()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, c := range calls {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				outcome := func(s *Script) string {
					l := newLab(t, rdb)
					l.seed(c.seed)
					call := c.call(l, tickets(c.ids...))
					if s != nil {
						call.Script, call.Args[1] = s, s.Hash()
					}
					r := l.ask(call, len(c.ids))
					after := l.snapshot()
					after.mustExpire(t)
					return ranked(r.String() + "\n" + after.String())
				}
				want, got := outcome(detour), outcome(nil)
				if detour.Verb == "refresh" && name != "by a client that does not know the tokens" { // the fast path does not read the tokens
					want, got = heldToken.ReplaceAllString(want, "held"), heldToken.ReplaceAllString(got, "held")
				}
				assert.Equal(t, want, got)
			})
		}
	})
}

func TestReleasePromotesTheHeadsThatFit(t *testing.T) {
	const meta = " | meta declared=6 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name: "several at once, with weights, each notified once",
		seed: "owner me:1=5 | queue you:1=6 me:2=7 him:1=8 you:2=9 me:3=10 | timeout him:1=20s me:1=20s me:2=20s me:3=20s you:1=20s you:2=20s" +
			" | counter 10 | weight extra=5 him:1=2 me:1=6 me:3=2 you:1=2" + meta,
		ids:   []string{"me:1"},
		call:  releasing(6, 0),
		reply: "held, me:2 gets #2 for 7",
		wake:  "him 1:8:#3, you 1:6:#1,2:9:#4",
		state: "owner you:1=#1 me:2=#2 him:1=#3 you:2=#4 | queue me:3=10 | timeout him:1=20s me:2=20s me:3=20s you:1=20s you:2=20s" +
			" | counter #4 | weight extra=2 him:1=2 me:3=2 you:1=2" + meta + " granted=4",
	}, {
		name:  "none behind a large one that does not fit",
		seed:  "owner me:1=5 you:9=6 | queue you:1=7 me:2=8 | timeout me:1=20s me:2=20s you:1=20s you:9=20s | counter 8 | weight you:1=6" + meta,
		ids:   []string{"me:1"},
		call:  releasing(6, 0),
		reply: "held",
		state: "owner you:9=6 | queue you:1=7 me:2=8 | timeout me:2=20s you:1=20s you:9=20s | counter 8 | weight you:1=6" + meta,
	}, {
		name:  "when a large waiter is released",
		seed:  "owner you:9=5 | queue me:1=7 you:1=8 me:2=9 | timeout me:1=20s me:2=20s you:1=20s you:9=20s | counter 9 | weight me:1=6 me:2=4" + meta,
		ids:   []string{"me:1"},
		call:  releasing(6, 0),
		reply: "waiting, me:2 gets #2 for 9",
		wake:  "you 1:8:#1",
		state: "owner you:9=5 you:1=#1 me:2=#2 | timeout me:2=20s you:1=20s you:9=20s | counter #2 | weight extra=3 me:2=4" + meta + " granted=2",
	}, {
		name:  "none while more than a smaller limit is in use",
		seed:  "owner me:1=5 you:2=6 you:3=7 | queue me:2=8 | timeout me:1=20s me:2=20s you:2=20s you:3=20s | counter 8 | meta declared=2 layout=2 since=7 until=80s",
		ids:   []string{"me:1"},
		call:  releasing(6, 0),
		reply: "held",
		state: "owner you:2=6 you:3=7 | queue me:2=8 | timeout me:2=20s you:2=20s you:3=20s | counter 8 | meta declared=2 layout=2 since=7 until=80s",
	}})
}

func TestRefreshRenewsAndRestoresNothing(t *testing.T) {
	const meta = " | meta declared=2 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "a holder and a waiter, but no tombstone and no unknown id",
		seed:  "owner me:1=5 | queue me:2=6 | timeout me:1=20s me:2=20s me:3=20s | counter 6 | weight extra=1 me:1=2" + meta,
		ids:   []string{"me:1", "me:2", "me:3", "me:4"},
		call:  refreshing(2),
		reply: "held 5, waiting 6, evicted, gone, next 20s",
		state: "owner me:1=5 | queue me:2=6 | timeout me:3=20s me:1=60s me:2=60s | counter 6 | weight extra=1 me:1=2" + meta,
	}, {
		name:  "no expired holder, whose room goes to the queue",
		seed:  "owner me:1=5 | queue me:2=6 me:3=7 you:1=8 | timeout me:1=-10s me:2=-10s me:3=20s you:1=20s | counter 8 | weight extra=1 me:1=2 me:3=2" + meta,
		ids:   []string{"me:1", "me:2", "me:3"},
		call:  refreshing(2),
		reply: "gone, gone, waiting 7, me:3 gets #1 for 7, next 20s",
		state: "owner me:3=#1 | queue you:1=8 | timeout you:1=20s me:3=60s | counter #1 | weight extra=1 me:3=2" + meta + " granted=1 lapsed=1",
	}, {
		name:  "nothing without ids, but it removes expired entries and grants",
		seed:  "owner you:1=5 | queue you:2=6 | timeout you:1=-10s you:2=20s | counter 6 | weight extra=1 you:1=2" + meta,
		call:  refreshing(2),
		reply: "next 20s",
		wake:  "you 2:6:#1",
		state: "owner you:2=#1 | timeout you:2=20s | counter #1" + meta + " granted=1 lapsed=1",
	}, {
		name: "the keys, which last longer than the longest lease",
		seed: "owner me:1=5 me:2=6 | timeout me:1=20s me:2=20s | counter 6" + meta,
		ids:  []string{"me:1", "me:2"},
		call: func(l *lab, ids []*ticket) Call {
			return Refresh(l.space.About("name"), known(2), time.Hour, false, ids)
		},
		reply: "held 5, held 6",
		state: "owner me:1=5 me:2=6 | timeout me:1=3600s me:2=3600s | counter 6 | meta declared=2 layout=2 since=7 until=3620s",
	}})
}

func TestReduceLowersWeightsAndRenewsNothing(t *testing.T) {
	const meta = " | meta declared=6 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "of a holder, to some and to one",
		seed:  "owner me:1=5 me:2=6 you:1=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | weight extra=7 me:1=4 me:2=3 you:1=3" + meta,
		ids:   []string{"me:1*2", "me:2*1"},
		call:  reducing(6),
		reply: "held 5, held 6",
		state: "owner me:1=5 me:2=6 you:1=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | weight extra=3 me:1=2 you:1=3" + meta,
	}, {
		name:  "of the only one with a weight, after which no weights are stored",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 7 | weight extra=3 me:1=4" + meta,
		ids:   []string{"me:1*1"},
		call:  reducing(6),
		reply: "held 5",
		state: "owner me:1=5 | timeout me:1=20s | counter 7" + meta,
	}, {
		name:  "never upward, so that a second copy and a late one change nothing",
		seed:  "owner me:1=5 me:2=6 me:3=7 | timeout me:1=20s me:2=20s me:3=20s | counter 7 | weight extra=2 me:1=2 me:2=2" + meta,
		ids:   []string{"me:1*2", "me:2*3", "me:3*2"},
		call:  reducing(6),
		reply: "held 5, held 6, held 7",
	}, {
		name:  "of no waiter, no tombstone and no unknown id",
		seed:  "owner you:1=5 | queue me:1=6 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | weight extra=5 me:1=4 you:1=6" + meta,
		ids:   []string{"me:1*2", "me:2", "me:3"},
		call:  reducing(6),
		reply: "waiting 6, evicted, gone",
	}, {
		name:  "of no unknown id on a name without weights",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 7" + meta,
		ids:   []string{"me:1*2"},
		call:  reducing(6),
		reply: "gone",
	}, {
		name:  "of no expired holder, which stays expired",
		seed:  "owner me:1=5 you:1=6 | timeout me:1=-10s you:1=20s | counter 7 | weight extra=4 me:1=4 you:1=2" + meta,
		ids:   []string{"me:1*2"},
		call:  reducing(6),
		reply: "gone",
		state: "owner you:1=6 | timeout you:1=20s | counter 7 | weight extra=1 you:1=2" + meta + " lapsed=1",
	}, {
		name:  "and grants the heads of the queue that fit now, and notifies them",
		seed:  "owner me:1=5 | queue you:1=6 me:2=7 you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter 8 | weight extra=5 me:1=6 me:2=2 you:2=2" + meta,
		ids:   []string{"me:1*3"},
		call:  reducing(6),
		reply: "held 5, me:2 gets #2 for 7",
		wake:  "you 1:6:#1",
		state: "owner me:1=5 you:1=#1 me:2=#2 | queue you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter #2 | weight extra=3 me:1=3 me:2=2 you:2=2" + meta + " granted=2",
	}, {
		name:  "also of one that needs more than was stored",
		seed:  "owner me:1=5 | queue me:2=6 | timeout me:1=20s me:2=20s | counter 8 | weight extra=1 me:1=2 me:2=5" + meta,
		ids:   []string{"me:1*1"},
		call:  reducing(6),
		reply: "held 5, me:2 gets #1 for 6",
		state: "owner me:1=5 me:2=#1 | timeout me:1=20s me:2=20s | counter #1 | weight extra=4 me:2=5" + meta + " granted=1",
	}, {
		name:  "none while more than a smaller limit is in use",
		seed:  "owner me:1=5 you:1=6 | queue me:2=7 | timeout me:1=20s me:2=20s you:1=20s | counter 8 | weight extra=4 me:1=4 you:1=2 | meta declared=2 layout=2 since=7 until=80s",
		ids:   []string{"me:1*1"},
		call:  reducing(2),
		reply: "held 5",
		state: "owner me:1=5 you:1=6 | queue me:2=7 | timeout me:1=20s me:2=20s you:1=20s | counter 8 | weight extra=1 you:1=2 | meta declared=2 layout=2 since=7 until=80s",
	}})
}

// A missing right can stop a script at any write. Then it must not make room that is in use: the stored weights, and their sum, are
// never below what the holders keep. The same call later repairs the state.
func TestInterruptedReduceCountsNoUnitTooFew(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	const seed = "owner me:1=5 me:2=6 you:1=7 | queue you:2=8 | timeout me:1=20s me:2=20s you:1=-10s you:2=20s" +
		" | counter 8 | weight extra=7 me:1=6 me:2=3 you:2=9 | meta declared=10 layout=2 since=7 until=80s"
	lowered := func(l *lab) Call {
		return Reduce(l.space.About("name"), known(10), tickets("me:1", "me:2"), []int64{2, 1})
	}
	whole := newLab(t, rdb)
	whole.seed(seed)
	var writes int
	for _, c := range whole.commands(lowered(whole)) {
		if !slices.Contains(reads, name(c)) {
			writes++
		}
	}
	require.Greater(t, writes, 4)
	for stop := range writes + 1 {
		l := newLab(t, rdb)
		l.seed(seed)
		l.runUpTo(stop, lowered(l))
		s := l.snapshot()
		used := int64(len(s.owner))
		for _, id := range members(s.owner) {
			if units, err := strconv.ParseInt(s.weight[id], 10, 64); err == nil {
				used += units - 1
			}
		}
		counted, _ := strconv.ParseInt(s.weight["extra"], 10, 64) // none: 0
		counted += int64(len(s.owner))
		assert.GreaterOrEqual(t, counted, used, "after %d writes: %v", stop, s)
		assert.GreaterOrEqual(t, used, int64(3), "after %d writes: %v", stop, s)
		assert.LessOrEqual(t, used, int64(12), "after %d writes: %v", stop, s)

		require.NoError(t, rdb.HSet(background, l.keys[5], "until", 0).Err()) // as if the keys had to be renewed
		r := l.ask(lowered(l), 2)
		assert.Equal(t, []State{Held, Held}, []State{r.Results[0].State, r.Results[1].State}, "after %d writes", stop)
		s = l.snapshot()
		assert.Equal(t, map[string]string{"extra": "1", "me:1": "2", "you:2": "9"}, s.weight, "after %d writes", stop)
		assert.Equal(t, int64(3), l.status(10).Used)
	}
}

func TestStatusOfAnUnusedNameStoresNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		assert.Equal(t, Status{Limit: 3, Declared: 3}, l.status(3))
		exists, err := rdb.Exists(background, l.keys[:]...).Result()
		require.NoError(t, err)
		assert.Zero(t, exists)
	})
}

// status checks the time, and returns the rest.
func (l *lab) status(limit int64) Status {
	l.t.Helper()
	before := l.rdb.Time(background).Val()
	got := l.run(l.space.Status("name", LimitSpec{Limit: limit}, 0, 0))
	require.NoError(l.t, got.err)
	found, err := DecodeStock(got.numbers)
	require.NoError(l.t, err)
	s := found.Status()
	assert.WithinRange(l.t, s.At, before, l.rdb.Time(background).Val())
	s.At = time.Time{}
	return s
}

func TestStatusDeclaresNothingAndCountsHoldersAndWaiters(t *testing.T) {
	const seed = "owner me:1=5 you:1=6 | queue me:2=7 | timeout me:2=-10s me:1=20s you:1=40s | counter 9 | weight extra=1 me:1=2 me:2=2"
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed(seed + " | meta declared=2 layout=2 pinned=3 since=7 until=80s granted=9 lapsed=8")
		before := l.snapshot().String()
		s := l.status(9)
		assert.InDelta(t, 20*time.Second, s.NextExpiry, float64(9*time.Second))
		s.NextExpiry = 0
		assert.Equal(t, Status{Limit: 3, Declared: 2, Pinned: true, Used: 3, Holders: 2, Exists: true, Granted: 9, Expired: 8}, s)
		assert.Equal(t, before, l.snapshot().String(), "a query changed the state")
	})
}

func TestNextExpiryIsThatOfAHolderOrAWaiter(t *testing.T) {
	evicted := func(first, n int) (timeout string) {
		for i := range n {
			timeout += fmt.Sprintf(" gone:%d=%ds", i, first+i)
		}
		return timeout
	}
	const meta = " | counter 9 | meta declared=3 layout=2 since=7 until=900s"
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for seed, want := range map[string]time.Duration{
			"owner me:1=5 | timeout me:1=100s":                         100 * time.Second,
			"owner me:1=5 | timeout me:1=100s" + evicted(20, 1):        100 * time.Second,
			"owner me:1=5 | timeout me:1=-9s" + evicted(20, 3):         0,
			"queue me:1=5 | timeout me:1=100s" + evicted(20, 3):        100 * time.Second,
			"timeout" + evicted(20, 3):                                 0,
			"owner me:1=5 | timeout me:1=800s" + evicted(20, MaxIDs):   time.Duration(20+MaxIDs-1) * time.Second,
			"owner me:1=5 | timeout me:1=800s" + evicted(20, MaxIDs-1): 800 * time.Second,
		} {
			l := newLab(t, rdb)
			l.seed(seed + meta)
			assert.InDelta(t, want, l.status(3).NextExpiry, float64(9*time.Second), seed)
		}
	})
}

func TestPagesListInOrderEvenWhereNumbersAreEqual(t *testing.T) {
	const seed = "owner me:1=5 | queue me:2=6 me:3=7 me:4=8 you:4=8 me:5=9" +
		" | timeout me:2=-10s me:3=20s me:4=20s me:5=20s you:4=20s me:1=60s | counter 9 | weight extra=1 me:1=2 me:3=3 | meta declared=2 layout=2 since=7 until=80s"
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed(seed)
		page := func(key, after, id string, count int) (out []string) {
			got := l.run(l.space.About("name").Page(key, Bookmark{after, id}, count))
			require.NoError(t, got.err)
			list, err := DecodePage(got.list)
			require.NoError(t, err)
			for _, e := range list.Entries {
				out = append(out, fmt.Sprintf("%s %d at %d for %s", e.ID, e.Weight, e.Number, seconds(e.Remaining)))
			}
			return out
		}
		assert.Equal(t, []string{"me:1 2 at 5 for 60s"}, page("owner", "", "", 10))
		assert.Equal(t, []string{"me:2 1 at 6 for 0s", "me:3 3 at 7 for 20s"}, page("queue", "", "", 2))
		assert.Equal(t, []string{"me:4 1 at 8 for 20s"}, page("queue", "7", "me:3", 1))
		assert.Equal(t, []string{"you:4 1 at 8 for 20s"}, page("queue", "8", "me:4", 1))
		for _, gone := range []string{"me:41", "me:5", "you", "me:4x"} {
			assert.Equal(t, []string{"you:4 1 at 8 for 20s"}, page("queue", "8", gone, 1), "after %s, which is gone", gone)
		}
		assert.Equal(t, []string{"me:4 1 at 8 for 20s"}, page("queue", "8", "me:1", 1), "before all entries with its number")
		assert.Equal(t, []string{"me:5 1 at 9 for 20s"}, page("queue", "8", "zoo", 1), "behind all entries with its number")
		assert.Equal(t, []string{"me:5 1 at 9 for 20s"}, page("queue", "8", "you:4", 10))
		assert.Empty(t, page("queue", "9", "me:5", 10))
		assert.Equal(t, seed, l.snapshot().String(), "a query changes nothing")
	})
}

// many seeds n members in a zset of the lab, with scores from first on.
func (l *lab) many(key, who string, n int, first, step float64) {
	l.t.Helper()
	members := make([]redis.Z, n)
	for i := range members {
		members[i] = redis.Z{Score: first + step*float64(i), Member: fmt.Sprintf("%s:%d", who, i+1)}
	}
	require.NoError(l.t, l.rdb.ZAdd(background, l.keys[slices.Index(Kinds[:], key)], members...).Err())
}

func TestReapingStopsAtItsBoundAndReportsIt(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("timeout me:1=-1s | owner me:1=5 | weight me:1=2 extra=1 | meta declared=9 layout=2 since=7 until=80s")
		l.many("owner", "you", MaxIDs, 10, 1)
		l.many("timeout", "you", MaxIDs, 10, 1)
		refresh := Refresh(l.space.About("name"), known(9), time.Minute, false, tickets("me:1"))

		r := l.ask(refresh, 1)
		assert.Equal(t, "gone, more", r.String(), "an expired holder is not restored, although it was not removed yet")
		s := l.snapshot()
		assert.Equal(t, "owner me:1=5 | timeout me:1=0s | weight extra=1 me:1=2", cutMeta(s))
		assert.Less(t, s.timeout[0].Score, float64(s.now), "the lease was renewed")

		r = l.ask(refresh, 1)
		assert.Equal(t, "gone", r.String())
		assert.Empty(t, cutMeta(l.snapshot()))

		l.seed("timeout me:1=-1s | owner me:1=5 | meta declared=1 layout=2 since=7 until=80s")
		l.many("owner", "you", MaxIDs, 10, 1)
		l.many("timeout", "you", MaxIDs, 10, 1)
		r = l.ask(acquiring(known(1), nil)(l, tickets("me:1")), 1)
		assert.Equal(t, "gone, more", r.String(), "an acquire does not restore it either")
	})
}

// The expired entries that remain at the bound may be all that uses the room. Until they are removed no call is refused.
func TestNoCallIsRefusedOrForgottenWhileExpiredIDsRemain(t *testing.T) {
	t.Parallel()
	const limit = MaxIDs + 50
	restored := func(l *lab, ids []*ticket) Call {
		return Restore(l.space.About("name"), known(limit), time.Minute, ids, Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{1000}, Units: []int64{1}})
	}
	full := func(t *AcquireParams) { t.MaxQueue = 1 }
	for name, c := range map[string]struct {
		call         func(*lab, []*ticket) Call
		holders      int
		waiters      int
		before, then string
	}{
		"a call without wait":                 {acquiring(known(limit), noWait), 0, limit, "early, more", "held #1"},
		"a call that finds the queue full":    {acquiring(known(limit), full), 0, limit, "early, more", "held #1"},
		"a restored holder that does not fit": {restored, 2 * limit, 0, "early, more", "held 1000, more"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, rdb *redis.Client) {
				l := newLab(t, rdb)
				l.seed(fmt.Sprintf("counter 900 | meta declared=%d layout=2 since=7 until=80s", limit))
				if c.holders > 0 {
					l.many("owner", "you", c.holders, 1, 1)
				} else {
					l.many("queue", "you", c.waiters, 1, 1)
				}
				l.many("timeout", "you", max(c.holders, c.waiters), 1, 1)
				assert.Equal(t, c.before, ranked(l.ask(c.call(l, tickets("me:1")), 1).String()))
				assert.Equal(t, c.then, ranked(l.ask(c.call(l, tickets("me:1")), 1).String()))
			})
		})
	}
}

func cutMeta(s snapshot) string {
	s.meta = nil
	return s.String()
}

func TestPromotionStopsAtItsBoundAndReportsIt(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("queue me:1=10 | timeout me:1=60s | meta declared=5000 layout=2 since=7 until=80s")
		l.many("queue", "me", 3*MaxIDs+103, 10, 1)
		l.many("timeout", "me", 3*MaxIDs+103, float64(l.now().Add(time.Minute).UnixMilli()), 0)
		var lines []int
		for more := true; more; {
			r := l.ask(Refresh[*ticket](l.space.About("name"), known(5000), 0, false, nil), 0)
			lines = append(lines, len(r.Grants))
			for i := 1; i < len(r.Grants); i++ {
				require.Less(t, r.Grants[i-1].Position, r.Grants[i].Position)
				require.Less(t, r.Grants[i-1].Token, r.Grants[i].Token)
			}
			more = r.More
			l.snapshot().mustExpire(t)
		}
		assert.Equal(t, []int{MaxIDs, MaxIDs, MaxIDs, 103}, lines)
		assert.Equal(t, int64(3*MaxIDs+103), l.status(1).Used)
	})
}

// The number of values that Lua can unpack is bounded. The largest calls that the client makes must stay below that.
func TestLargestCallsWork(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		var ids []string
		for i := range MaxIDs {
			ids = append(ids, fmt.Sprintf("me:%d*2", i+1))
		}
		all := tickets(ids...)
		t1 := AcquireParams{TTL: time.Minute, Wait: true}
		d := declares(MaxIDs, usedNow)
		for _, c := range []struct {
			call Call
			want map[State]int
		}{
			{Acquire(l.space.About("name"), d, t1, all), map[State]int{Held: MaxIDs / 2, Waiting: MaxIDs / 2}},
			{Refresh(l.space.About("name"), d, time.Minute, false, all), map[State]int{Held: MaxIDs / 2, Waiting: MaxIDs / 2}},
			{Reduce(l.space.About("name"), d, all, weightsOf(all)), map[State]int{Held: MaxIDs / 2, Waiting: MaxIDs / 2}},
			{Release(l.space.About("name"), d, time.Minute, false, all), map[State]int{Held: MaxIDs / 2, Waiting: MaxIDs / 2}},
			{Acquire(l.space.About("name"), d, t1, all), map[State]int{Evicted: MaxIDs}},
		} {
			got := make(map[State]int)
			for _, r := range l.ask(c.call, MaxIDs).Results {
				got[r.State]++
			}
			assert.Equal(t, c.want, got, c.call.Script.Verb)
		}
		assert.Zero(t, l.status(1).Used)
	})
}

// Lua prints numbers with 14 digits where it can, and a token has 16.
func TestNumbersNear2To53AreTransmittedExactly(t *testing.T) {
	const top = 1<<53 - 1000 // and one more call
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed(fmt.Sprintf("owner me:9=5 | queue you:1=%d me:2=%d me:3=%d | timeout me:9=20s you:1=20s me:2=20s me:3=20s | counter %d"+
			" | meta declared=3 layout=2 since=%d until=80s", top-7, top-6, top-5, top-4, top))
		messages := l.listen()
		r := l.ask(Release(l.space.About("name"), declares(3, 7), 0, false, tickets("me:9")), 1)
		assert.Equal(t, []Grant{{2, top - 6, top - 2, nil}, {3, top - 5, top - 1, nil}}, r.Grants)
		assert.Equal(t, fmt.Sprintf("you 1:%d:%d", int64(top-7), int64(top-3)), messages())

		r = l.ask(Release(l.space.About("name"), declares(3, top), 0, false, tickets("you:1")), 1)
		assert.Equal(t, []Result{{State: Held}}, r.Results)
		r = l.ask(Acquire(l.space.About("name"), declares(3, top), AcquireParams{TTL: time.Minute}, tickets("me:4")), 1)
		assert.Equal(t, []Result{{State: Held, Number: top}}, r.Results)
		assert.Equal(t, int64(top), r.Since)
		for id, want := range map[string]int64{"me:2": top - 2, "me:3": top - 1, "me:4": top} {
			score, err := rdb.ZScore(background, l.keys[0], id).Result()
			require.NoError(t, err)
			assert.Equal(t, want, int64(score), id)
		}
		assert.Equal(t, strconv.Itoa(top), rdb.Get(background, l.keys[3]).Val())
		got := l.run(l.space.About("name").Page("owner", Bookmark{strconv.Itoa(top - 1), "me:3"}, 5))
		require.NoError(t, got.err)
		page, err := DecodePage(got.list)
		require.NoError(t, err)
		require.Len(t, page.Entries, 1)
		assert.Equal(t, int64(top), page.Entries[0].Number)
	})
}

func TestLargestWeightAndLimitAreCountedExactly(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		d := declares(MaxUnits, usedNow)
		t1 := AcquireParams{TTL: time.Minute, Wait: true}
		largest := &ticket{id: "me:1", weight: MaxUnits}
		r := l.ask(Acquire(l.space.About("name"), d, t1, append([]*ticket{largest}, tickets("me:2", "me:3")...)), 3)
		assert.Equal(t, "held #1, waiting #2, waiting #3, next 60s", ranked(r.String()))
		s := l.status(1)
		assert.Equal(t, [2]int64{MaxUnits, MaxUnits}, [2]int64{s.Limit, s.Used})
		r = l.ask(Reduce(l.space.About("name"), d, []*ticket{largest}, []int64{MaxUnits - 1}), 1)
		assert.Equal(t, "held #1, me:2 gets #3 for #2", ranked(r.String()))
		s = l.status(1)
		assert.Equal(t, [2]int64{MaxUnits, 2}, [2]int64{s.Used, s.Holders})
		l.ask(Release(l.space.About("name"), d, 0, false, []*ticket{largest}), 1)
		assert.Equal(t, int64(2), l.status(1).Used)
		largest.id, largest.weight = "me:4", MaxUnits-1
		t1.Wait = false
		r = l.ask(Acquire(l.space.About("name"), declares(MaxUnits, 1), t1, []*ticket{largest}), 1)
		assert.Equal(t, "refused", r.String())
		l.ask(Release(l.space.About("name"), d, 0, false, tickets("me:2")), 1)
		r = l.ask(Acquire(l.space.About("name"), declares(MaxUnits, 1), t1, []*ticket{largest}), 1)
		assert.Equal(t, "held #1", ranked(r.String()))
		assert.Equal(t, int64(MaxUnits), l.status(1).Used)
	})
}

// In a grace period holders may be restored above the limit: together they have more units than a limit can be.
func TestMoreUnitsThanTheLargestLimitAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		const all = MaxUnits
		l.seed(fmt.Sprintf("owner me:1=5 me:2=6 | timeout me:1=20s me:2=20s | counter 9 | weight extra=%d me:1=%d me:2=%d | meta declared=%d layout=2 since=7 until=80s",
			int64(2*all-2), int64(all), int64(all), int64(all)))
		assert.Equal(t, int64(2*all), l.status(all).Used)
		l.ask(Release(l.space.About("name"), known(all), 0, false, tickets("me:1")), 1)
		assert.Equal(t, int64(all), l.status(all).Used)
		r := l.ask(Acquire(l.space.About("name"), known(all), AcquireParams{TTL: time.Minute}, tickets("me:3")), 1)
		assert.Equal(t, "refused", r.String())
	})
}

// everyCall is one call of each script, each of which changes as much as possible.
func (l *lab) everyCall() []Call {
	d := declares(9, usedNow)
	calls := []Call{
		Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Hour, Wait: true}, tickets("me:1", "me:9*3")),
		Release(l.space.About("name"), d, time.Hour, false, tickets("me:1", "me:2")),
		Refresh(l.space.About("name"), d, time.Hour, false, tickets("me:1", "me:2")),
		Reduce(l.space.About("name"), d, tickets("me:1", "me:2"), []int64{1, 1}),
		Restore(l.space.About("name"), d, time.Hour, tickets("me:8*2", "me:9"), Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{1, 2}, Units: []int64{2, 1}}),
		l.space.Resize("name", LimitSpec{Limit: 9}, PinAt(2), l.now().UnixMicro()),
		l.space.Evict("name", LimitSpec{Limit: 9}, "you:1"),
		l.space.Status("name", LimitSpec{Limit: 9}, 0, 0),
		l.space.About("name").Page("owner", Bookmark{}, 10),
		l.space.About("name").Tenants("0", 10),
	}
	require.Len(l.t, calls, len(Scripts), "a call of each verb, in the order of Scripts")
	return calls
}

// unread are the keys that some scripts do not read, or not always.
var unread = map[*Script][]string{
	StatusScript:  {Lanes, Turns, Tenants, NumbersKey},
	PageScript:    {Counter, Lanes, Turns, Tenants},
	TenantsScript: {Lanes, Turns, NumbersKey},
}

const fullState = "owner me:1=5 you:1=6 | queue me:2=7 | timeout me:1=20s me:2=20s you:1=20s | counter 7 | weight extra=1 me:1=2 | meta declared=3 layout=2 since=7 until=80s"

// sharedState is a name that tenants share. Their stored counts are missing, so a call counts again.
const sharedState = "owner me:1:a=5 you:1=6 | queue me:2:b=7 | timeout me:1:a=20s me:2:b=20s you:1=20s | counter 7 | weight extra=1 me:1:a=2 | " +
	"meta declared=3 layout=2 since=7 until=80s tenants=1 numbered=1"

// dump returns the value and the expiry of every key that exists, byte for byte.
func (l *lab) dump() (all [len(Kinds)]string) {
	l.t.Helper()
	for {
		pipe := l.rdb.Pipeline()
		before := pipe.Time(background)
		var values [len(Kinds)]*redis.StringCmd
		var hashes [len(Kinds)]*redis.MapStringStringCmd
		var left [len(Kinds)]*redis.Cmd
		for i, key := range l.keys {
			values[i], hashes[i], left[i] = pipe.Dump(background, key), pipe.HGetAll(background, key), pipe.Do(background, "pttl", key)
		}
		after := pipe.Time(background)
		_, _ = pipe.Exec(background) // each reply is looked at
		require.NoError(l.t, after.Err())
		// Not PEXPIRETIME, which Redis 6.2 lacks: what is left is a time only in the same millisecond.
		now := before.Val().UnixMilli()
		if now != after.Val().UnixMilli() {
			continue
		}
		for i, value := range values {
			if errors.Is(value.Err(), redis.Nil) {
				continue
			}
			require.NoError(l.t, value.Err())
			state := fmt.Sprintf("%q", value.Val())
			if hash, err := hashes[i].Result(); err == nil { // its fields are sorted: Redis 6.2 moves them while it is read
				state = fmt.Sprintf("%q", hash)
			}
			ms, err := left[i].Int64()
			require.NoError(l.t, err)
			if ms >= 0 {
				ms += now
			}
			all[i] = fmt.Sprintf("%s expires %d", state, ms)
		}
		return all
	}
}

// mustExpire checks that no key stays for ever.
func (l *lab) mustExpire(after string) {
	l.t.Helper()
	pipe := l.rdb.Pipeline()
	var left [len(Kinds)]*redis.DurationCmd
	for i, key := range l.keys {
		left[i] = pipe.PTTL(background, key)
	}
	_, err := pipe.Exec(background)
	require.NoError(l.t, err)
	for i := range left {
		assert.NotEqual(l.t, time.Duration(-1), left[i].Val(), "%s: %s never expires", after, Kinds[i])
	}
}

// S10
func TestKeyOfTheWrongTypeIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for _, seed := range []string{fullState, strings.Replace(fullState, "you:1=20s", "you:1=-10s", 1), sharedState} {
		kinds := Kinds[:]
		if seed != sharedState {
			kinds = kinds[:slices.Index(kinds, Lanes)]
		}
		for i, name := range kinds {
			l := newLab(t, rdb)
			l.seed(seed)
			require.NoError(t, rdb.Del(background, l.keys[i]).Err())
			if name == Counter {
				require.NoError(t, rdb.RPush(background, l.keys[i], "of another program").Err())
			} else {
				require.NoError(t, rdb.Set(background, l.keys[i], "of another program", 0).Err())
			}
			before := l.dump()
			for _, c := range l.everyCall() {
				err := l.run(c).err
				if slices.Contains(unread[c.Script], name) {
					assert.NoError(t, err, "the script does not use the %s", name)
					continue
				}
				assert.ErrorContains(t, err, "WRONGTYPE", "%s with a %s of the wrong type", c.Script.Verb, name)
				assert.Equal(t, before, l.dump(), "%s with a %s of the wrong type", c.Script.Verb, name)
			}
		}
	}
}

// walk makes the same random calls on several servers, and checks every invariant after each.
type walk struct {
	*rand.Rand
	t        *testing.T
	labs     []*lab
	states   []snapshot // of each lab, after the last call
	limit    int64
	heaviest int64
	resizes  bool             // whether the limit changes from time to time
	weights  map[string]int64 // of every id so far
	ids      []string         // in the order in which they were made
	tokens   []float64        // of each lab, the largest so far
	expired  map[string]bool  // ids whose lease was ended at some time
	plain    map[*Script]int  // calls that each plain script has answered; only the first lab tries them
}

// seeded returns random numbers of the seed in FAIRSEM_SEED, if it is set.
func seeded(t *testing.T, stream uint64) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("FAIRSEM_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("FAIRSEM_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, stream))
}

// walkTTL is the TTL of random calls: a machine that stands still for a while ends no lease of which the test does not know.
const walkTTL = 6 * time.Hour

// walks takes so many steps, fewer with -short, and returns how many. It says after which of them the test failed.
func walks(t *testing.T, long, short int, step func(n int)) (steps int) {
	t.Helper()
	steps = long
	if testing.Short() {
		steps = short
	}
	for n := range steps {
		if step(n); t.Failed() {
			t.Fatalf("after %d calls", n+1)
		}
	}
	return steps
}

func TestRandomCallsKeepEveryInvariant(t *testing.T) {
	t.Parallel()
	for n, limit := range []int64{3, 4, 5, 6, 7, 8, 30, 60} {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			t.Parallel()
			w := &walk{
				Rand: seeded(t, 0), t: t, limit: limit, resizes: n%2 == 1 && n < 6, weights: make(map[string]int64),
				heaviest: 5, expired: make(map[string]bool), plain: make(map[*Script]int),
				labs: []*lab{newLab(t, testclient.Settled(t)), newLab(t, testclient.Settled(t)), newLab(t, testclient.Mini(t))},
			}
			if n >= 4 {
				w.heaviest = 1 // as plain calls need
			}
			for _, l := range w.labs {
				l.seed("meta layout=2") // a name that knows its server has no grace period
			}
			w.states, w.tokens = make([]snapshot, 3), make([]float64, 3)
			onMini := 120
			if testing.Short() {
				onMini = 40
			}
			walks(t, 500, 200, func(n int) {
				if n == onMini {
					w.labs = w.labs[:2] // miniredis is slow
				}
				w.step()
			})
			assert.True(t, limit < 30 || w.plain[PlainAcquireScript]+w.plain[PlainReleaseScript] > 5, "calls that were answered by plain scripts")
		})
	}
}

func (w *walk) step() {
	if w.IntN(5) == 0 {
		w.expire()
	}
	verb, caller := w.IntN(11), w.client()
	var ids []string
	released := 0 // of the ids, from the first on
	var build func(*lab, Keyspace, []*ticket) Call
	d := declares(w.limit, known(0).Since)
	switch {
	case verb < 4:
		ids = w.newIDs()
		if w.resizes && w.IntN(4) == 0 {
			w.limit = 1 + w.Int64N(6)
			d = declares(w.limit, usedNow)
		}
		t := AcquireParams{
			TTL: walkTTL << (w.IntN(10) / 9 * 6), Wait: w.IntN(4) > 0, MaxQueue: int64(w.IntN(3) * 3),
			HeadStart: time.Duration(w.IntN(4)/3) * time.Hour,
		}
		var toRelease []string
		if w.IntN(2) == 0 {
			toRelease = slices.DeleteFunc(w.oldIDs(), func(id string) bool { return slices.Contains(ids, id) })
		}
		released, ids = len(toRelease), append(toRelease, ids...)
		build = func(_ *lab, s Keyspace, ids []*ticket) Call {
			return Acquire(s.About("name"), d, t, ids[released:], ids[:released]...)
		}
	case verb < 7:
		ids = w.oldIDs()
		released = len(ids)
		tombstone := time.Duration(w.IntN(2)) * walkTTL
		build = func(_ *lab, s Keyspace, ids []*ticket) Call {
			return Release(s.About("name"), d, tombstone, false, ids)
		}
	case verb < 9:
		ids = w.oldIDs()
		holders := scores(w.states[0].owner)
		knows := !slices.ContainsFunc(ids, func(id string) bool { _, holds := holders[id]; return !holds })
		build = func(_ *lab, s Keyspace, ids []*ticket) Call {
			return Refresh(s.About("name"), d, walkTTL, knows, ids)
		}
	case verb < 10:
		build = func(_ *lab, s Keyspace, _ []*ticket) Call {
			return s.Status("name", LimitSpec{Limit: w.limit}, 0, 0)
		}
	default:
		ids = w.oldIDs()
		keeps := w.lower(ids)
		build = func(_ *lab, s Keyspace, ids []*ticket) Call {
			return Reduce(s.About("name"), d, ids, keeps)
		}
	}
	var outcomes []string
	for i, l := range w.labs {
		space := l.space
		space.ClientID = caller
		outcomes = append(outcomes, w.call(i, build(l, space, w.tickets(ids)), caller, ids, released))
	}
	for _, outcome := range outcomes[1:] {
		assert.Equal(w.t, outcome, outcomes[0], "with plain scripts, without them, and on miniredis")
	}
}

func (w *walk) client() string { return "client" + strconv.Itoa(w.IntN(3)) }

// newIDs returns ids for an acquire: mostly new ones, sometimes one that exists.
func (w *walk) newIDs() []string {
	var ids []string
	for range 1 + w.IntN(4) {
		id := w.client() + ":" + strconv.Itoa(len(w.ids)+1)
		if w.IntN(5) == 0 && len(w.ids) > 0 {
			id = w.ids[w.IntN(len(w.ids))]
		}
		if _, used := w.weights[id]; !used || w.expired[id] { // an expired id may be stored on one server and not on another
			id = w.client() + ":" + strconv.Itoa(len(w.ids)+1)
			w.ids = append(w.ids, id)
			w.weights[id] = 1 + w.Int64N(w.heaviest)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// oldIDs returns some of the latest ids, sometimes with an unknown one. It returns none before the first exists.
func (w *walk) oldIDs() []string {
	latest := slices.Clone(w.ids[max(0, len(w.ids)-25):])
	w.Shuffle(len(latest), func(i, j int) { latest[i], latest[j] = latest[j], latest[i] })
	ids := latest[:min(len(latest), 1+w.IntN(5))]
	if w.IntN(10) == 0 {
		ids = append(ids, "client0:"+strconv.Itoa(1_000_000+w.IntN(1_000_000)))
	}
	return ids
}

func (w *walk) tickets(ids []string) (all []*ticket) {
	for _, id := range ids {
		all = append(all, &ticket{id: id, weight: w.weights[id]})
	}
	return all
}

// lower draws the units that each id keeps, which may be more than it has. From then on a holder weighs no more than that.
func (w *walk) lower(ids []string) (keeps []int64) {
	holders := scores(w.states[0].owner)
	for _, id := range ids {
		n := 1 + w.Int64N(w.heaviest)
		keeps = append(keeps, n)
		if _, holds := holders[id]; holds {
			w.weights[id] = min(w.weights[id], n)
		}
	}
	return keeps
}

// expire ends one lease.
func (w *walk) expire() {
	if all := w.states[0].timeout; len(all) > 0 {
		// in the order of ids, because deadlines differ between the servers
		slices.SortFunc(all, func(a, b redis.Z) int { return cmp.Compare(a.Member.(string), b.Member.(string)) })
		id := all[w.IntN(len(all))].Member
		w.expired[id.(string)] = true
		for _, l := range w.labs {
			require.NoError(w.t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: id}).Err())
		}
	}
}

// call makes a call on the i-th server, checks it, and returns the part of the outcome that is the same on every server.
func (w *walk) call(i int, c Call, caller string, ids []string, released int) string {
	w.t.Helper()
	l, before := w.labs[i], w.states[i]
	if len(ids) == 0 && c.Script == ReleaseScript {
		return "" // clients make no such call
	}
	if c.Script == StatusScript {
		w.checkStatus(l, w.limit)
		return c.Script.Verb
	}
	r, ok := Reply{}, false
	if i == 0 {
		r, ok = w.askPlain(l, c, ids, released)
	}
	if !ok {
		r = l.ask(c, len(ids))
	}
	after := l.snapshot()
	w.states[i] = after
	w.checkState(c, after)
	w.checkCounts(i, c, before, after, ids[:released])
	after.mustExpire(w.t)
	assert.Equal(w.t, int64(len(after.queue)), r.Waiters, "the waiters in the reply")
	w.checkGrants(i, before, after, r, caller, ids)
	w.checkResults(c.Script, after, r, ids, released)
	// A plain script leaves expired entries, and releases an expired holder as if it were valid.
	outcome := fmt.Sprint(c.Script.Verb, ids, valid(after.owner, after), valid(after.queue, after), after.meta["granted"])
	for j, id := range ids {
		if j >= released || !w.expired[id] {
			outcome += " " + stateNames[r.Results[j].State]
		}
	}
	return outcome
}

// valid returns the ids in a key that have not expired.
func valid(zset []redis.Z, s snapshot) []string {
	deadlines := scores(s.timeout)
	return slices.DeleteFunc(members(zset), func(id string) bool { return deadlines[id] == 1 })
}

// checkStatus compares the status with the stored entries that have not expired. The call changes nothing.
func (w *walk) checkStatus(l *lab, limit int64) {
	w.t.Helper()
	s := l.snapshot()
	deadlines := scores(s.timeout)
	expired := func(z redis.Z) bool { return deadlines[z.Member.(string)] == 1 }
	valid := s
	valid.owner, valid.queue = slices.DeleteFunc(slices.Clone(s.owner), expired), slices.DeleteFunc(slices.Clone(s.queue), expired)
	got := l.status(limit)
	assert.Equal(w.t, [4]int64{limit, w.used(valid), int64(len(valid.owner)), int64(len(valid.queue))}, [4]int64{got.Limit, got.Used, got.Holders, got.Waiting})
	now := l.snapshot()
	now.now, now.expiry = s.now, s.expiry
	assert.Equal(w.t, s, now)
}

// checkCounts compares the counts with the holders before and after. A released holder may have expired before.
func (w *walk) checkCounts(i int, c Call, before, after snapshot, released []string) {
	w.t.Helper()
	held, holds := scores(before.owner), scores(after.owner)
	var granted, expired, maybeExpired int
	for id := range holds {
		if _, held := held[id]; !held {
			granted++
		}
	}
	for id := range held {
		_, holds := holds[id]
		switch {
		case holds:
		case slices.Contains(released, id):
			maybeExpired++
		default:
			expired++
		}
	}
	counted := func(field string) int {
		old, _ := strconv.Atoi(before.meta[field])
		now, _ := strconv.Atoi(after.meta[field])
		return now - old
	}
	assert.Equal(w.t, granted, counted("granted"), "granted by %s on server %d", c.Script.Verb, i)
	assert.GreaterOrEqual(w.t, counted("lapsed"), expired, "expired at %s on server %d", c.Script.Verb, i)
	assert.LessOrEqual(w.t, counted("lapsed"), expired+maybeExpired, "expired at %s on server %d", c.Script.Verb, i)
}

func members(zset []redis.Z) (ids []string) {
	for _, z := range zset {
		ids = append(ids, z.Member.(string))
	}
	return ids
}

func scores(zset []redis.Z) map[string]float64 {
	m := make(map[string]float64)
	for _, z := range zset {
		m[z.Member.(string)] = z.Score
	}
	return m
}

// checkState checks S1, and that the keys are consistent.
func (w *walk) checkState(c Call, s snapshot) {
	w.t.Helper()
	deadlines, weights := scores(s.timeout), make(map[string]string)
	used := w.used(s)
	if extra := used - int64(len(s.owner)); extra > 0 {
		weights["extra"] = strconv.FormatInt(extra, 10)
	}
	holds := scores(s.owner)
	for id := range scores(s.queue) {
		if _, both := holds[id]; both {
			w.t.Errorf("%s holds and waits", id)
		}
		holds[id] = 0
	}
	for id := range holds {
		if _, ok := deadlines[id]; !ok {
			w.t.Errorf("%s has no deadline", id)
		}
		if w.weights[id] != 1 {
			weights[id] = strconv.FormatInt(w.weights[id], 10)
		}
	}
	assert.Equal(w.t, weights, s.weight)
	assert.True(w.t, w.resizes || used <= w.limit, "%d of %d are in use", used, w.limit)
	if len(s.queue) > 0 {
		head := w.weights[members(s.queue)[0]]
		assert.Greater(w.t, used+head, w.limit, "the head of the queue fits")
		assert.True(w.t, used >= w.limit || head <= w.limit, "the head of the queue can never fit, and there is room for others")
	}
	for id, deadline := range deadlines {
		if deadline == 1 && (len(s.queue) > 0 || c.Script != AcquireScript && c.Script != ReleaseScript) {
			w.t.Errorf("%s has expired and is still stored after %s", id, c.Script.Verb)
		}
	}
}

func (w *walk) used(s snapshot) (n int64) {
	for _, id := range members(s.owner) {
		n += w.weights[id]
	}
	return n
}

// checkGrants checks S5 and S6, and that every grant is reported.
func (w *walk) checkGrants(i int, before, after snapshot, r Reply, caller string, ids []string) {
	w.t.Helper()
	had, waited := scores(before.owner), scores(before.queue)
	positions := maps.Clone(waited)
	for j, id := range ids { // a waiter with a head start can be granted in the same call
		if r.Results[j].State == Waiting {
			positions[id] = float64(r.Results[j].Number)
		}
	}
	var want []Grant
	var used int64 // units in use, if anything was granted
	last := 0.0    // position of the waiter granted last
	for _, z := range after.owner {
		id := z.Member.(string)
		if token, held := had[id]; held {
			assert.Equal(w.t, token, z.Score, "%s has another token", id)
			continue
		}
		assert.Greater(w.t, z.Score, w.tokens[i], "the token of %s", id)
		w.tokens[i], used = z.Score, w.used(after)
		position, ok := positions[id]
		if !ok {
			last = 1 << 53 // behind every waiter
			continue
		}
		if _, before := waited[id]; before {
			assert.Greater(w.t, position, last, "%s was overtaken", id)
		}
		last = max(last, position) // a call with a head start comes after the waiters granted at its beginning
		if ClientOf(id) == caller {
			seq, _ := strconv.ParseInt(id[len(caller)+1:], 10, 64)
			want = append(want, Grant{Seq: seq, Position: int64(position), Token: int64(z.Score)})
		}
	}
	for _, z := range after.queue {
		if position, ok := waited[z.Member.(string)]; ok {
			assert.Equal(w.t, position, z.Score, "%s has another position", z.Member)
			assert.Greater(w.t, position, last, "%s was overtaken", z.Member)
		}
	}
	var got []Grant
	for _, g := range r.Grants {
		if g.Token != 0 {
			got = append(got, g)
			continue
		}
		id := caller + ":" + strconv.FormatInt(g.Seq, 10)
		assert.Greater(w.t, w.weights[id], w.limit, "%s is reported as never fitting", id)
		assert.NotContains(w.t, members(after.timeout), id)
	}
	assert.Equal(w.t, want, got)
	assert.LessOrEqual(w.t, used, w.limit)
	counter, _ := strconv.ParseFloat(cmp.Or(after.counter, "0"), 64)
	assert.GreaterOrEqual(w.t, counter, w.tokens[i])
}

func (w *walk) checkResults(s *Script, after snapshot, r Reply, ids []string, released int) {
	w.t.Helper()
	tokens, positions := scores(after.owner), scores(after.queue)
	for i, id := range ids {
		number := float64(r.Results[i].Number)
		_, holds := tokens[id]
		_, waits := positions[id]
		switch state := r.Results[i].State; {
		case i < released:
			assert.False(w.t, holds || waits, "%s is still stored", id)
		case state == Held && number == 0 && s == RefreshScript:
			assert.True(w.t, holds && len(after.queue) == 0, id)
		case state == Held:
			assert.Equal(w.t, tokens[id], number, id)
		case state == Waiting && waits:
			assert.Equal(w.t, positions[id], number, id)
		case state == Waiting:
			assert.True(w.t, holds || w.weights[id] > w.limit, "%s is not stored", id)
		default:
			assert.False(w.t, holds || waits, "%s is %s and stored", id, stateNames[state])
		}
	}
}

// header is the comment of a script that lists its arguments.
type header struct {
	args  []string // names of the arguments, in order
	rest  string   // the description of the variable part after them
	write string   // the line about the first write
}

var argLine = regexp.MustCompile(`^--(?: ARGV    | {9})(\S+)\s+(\S.*)$`)

// readHeader reads the arguments after the shared ones. A verb may describe a shared one again.
func readHeader(t *testing.T, file string, shared ...string) header {
	t.Helper()
	text, err := os.ReadFile("../../scripts/" + file + ".lua")
	require.NoError(t, err)
	h := header{args: shared}
	inArgs, found := false, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "--") {
			if found {
				return h
			}
			continue
		}
		found = found || strings.HasPrefix(line, "-- ARGV")
		if rest, ok := strings.CutPrefix(line, "-- First write: "); ok {
			h.write = rest
		}
		inArgs = inArgs && !strings.HasPrefix(line, "-- Re") || strings.HasPrefix(line, "-- ARGV") // Returns, Results
		if m := argLine.FindStringSubmatch(line); inArgs && m != nil {
			h.add(m[1], m[2])
		}
	}
	t.Fatalf("%s has no list of arguments, or no code after it", file)
	return h
}

func (h *header) add(name, text string) {
	switch {
	case name == "..":
		h.rest = text
	case !slices.Contains(h.args, name):
		h.args = append(slices.Clip(h.args), name)
	}
}

// The header of a script must list the arguments that the Go call sends.
func TestHeadersOfTheScriptsMatchTheArguments(t *testing.T) {
	t.Parallel()
	space := Keyspace{Prefix: "prefix", ClientID: "caller-id", Grace: 110 * time.Millisecond}
	keys := space.Keys("name")
	d := Declaration{Spec: LimitSpec{Limit: 101}, Since: 102, Knows: "116"}
	light := []*ticket{{id: "a", weight: 1}, {id: "b", weight: 1}}
	heavy := []*ticket{{id: "a", weight: 201}, {id: "b", weight: 1}}
	onlyIDs, weightsToo := "ids", "ids, then, if any of them weighs more than 1, the weights of all, then, if they are bounded, the ms that each may wait, then the ids to release"
	claims := "ids, then the token or position of each, then the weight of each, then, if any has numbers, those of each, with commas"
	params := AcquireParams{TTL: 103 * time.Millisecond, Wait: true, MaxQueue: 104, HeadStart: 105 * time.Microsecond}
	acquire := map[string]any{"lease": int64(103), "wait": true, "max_queue": int64(104), "head_start": int64(105), "bounded": false, "count": 2, "released": 0, "tenants_declared": 0, "with_numbers": false}
	exchange := maps.Clone(acquire)
	exchange["released"] = 1
	numbering, withNumbers := params, maps.Clone(acquire)
	numbering.Numbered, withNumbers["with_numbers"] = true, true
	bounding, bounded := params, maps.Clone(exchange)
	bounding.Bounded, bounded["bounded"] = true, true
	declaring, sharing := d, maps.Clone(acquire)
	declaring.Tenants, sharing["tenants_declared"] = []TenantSpec{{"t", 3, 9, 119 * time.Microsecond}}, 1
	declaresNothing := func(limit int64, more map[string]any) map[string]any {
		args := map[string]any{"spec": limit, "since": "", "lease": int64(0), "grace": int64(110), "knows": ""}
		maps.Copy(args, more)
		return args
	}
	untried := slices.Clone(Scripts)
	for _, c := range []struct {
		call   Call
		args   map[string]any
		rest   string
		values []any
	}{
		{Acquire(space.About("name"), d, params, light), acquire, weightsToo, []any{"a", "b"}},
		{Acquire(space.About("name"), d, params, heavy), acquire, weightsToo, []any{"a", "b", int64(201), int64(1)}},
		{Acquire(space.About("name"), d, params, light, &ticket{id: "c", weight: 1}), exchange, weightsToo, []any{"a", "b", "c"}},
		{Acquire(space.About("name"), d, params, heavy, &ticket{id: "c", weight: 3}), exchange, weightsToo, []any{"a", "b", int64(201), int64(1), "c"}},
		{Acquire(space.About("name"), declaring, params, light), sharing, weightsToo, []any{"t", int64(3), int64(9), int64(119), "a", "b"}},
		{Acquire(space.About("name"), d, bounding, bear(heavy, 7*time.Millisecond, -time.Second), &bearing{ticket: ticket{id: "c", weight: 3}}), bounded, weightsToo, []any{"a", "b", int64(201), int64(1), int64(7), int64(0), "c"}},
		{Acquire(space.About("name"), d, numbering, light), withNumbers, weightsToo, []any{"a", "b"}},
		{Release(space.About("name"), d, 106*time.Millisecond, true, light), map[string]any{"lease": int64(106), "overdue": true}, onlyIDs, []any{"a", "b"}},
		{Refresh(space.About("name"), d, 107*time.Millisecond, true, light), map[string]any{"lease": int64(107), "knows_tokens": true}, onlyIDs, []any{"a", "b"}},
		{
			Reduce(space.About("name"), d, light, []int64{114, 115}),
			map[string]any{"lease": int64(0)},
			"ids, then the units that each keeps",
			[]any{"a", "b", int64(114), int64(115)},
		},
		{
			Restore(space.About("name"), d, 111*time.Millisecond, heavy, Claims{Holders: 1, Epoch: seededEpoch, Confirmed: 120, Granted: 121, Numbers: []int64{112, 113}, Units: []int64{201, 1}}),
			map[string]any{"lease": int64(111), "holder_count": 1, "missed_in": int64(seededEpoch), "confirmed_in": int64(120), "granted_in": int64(121), "tenants_declared": 0, "with_numbers": false},
			claims,
			[]any{"a", "b", int64(112), int64(113), int64(201), int64(1)},
		},
		{
			Restore(space.About("name"), d, 111*time.Millisecond, heavy, Claims{Holders: 1, Epoch: seededEpoch, Confirmed: 120, Granted: 121, Numbers: []int64{112, 113}, Units: []int64{201, 1}, Lists: []string{"4,5", ""}}),
			map[string]any{"lease": int64(111), "holder_count": 1, "missed_in": int64(seededEpoch), "confirmed_in": int64(120), "granted_in": int64(121), "tenants_declared": 0, "with_numbers": true},
			claims,
			[]any{"a", "b", int64(112), int64(113), int64(201), int64(1), "4,5", ""},
		},
		{space.Resize("name", LimitSpec{Limit: 101}, PinAt(114), 116), declaresNothing(101, map[string]any{"caller": "", "pin": "114", "asked": int64(116)}), "", nil},
		{space.Evict("name", LimitSpec{Limit: 101}, "an id"), declaresNothing(101, map[string]any{"caller": "", "id": "an id"}), "", nil},
		{space.Status("name", LimitSpec{Limit: 101}, 117, 118), declaresNothing(101, map[string]any{"caller": "", "at": int64(117), "from": int64(118)}), "", nil},
		{space.About("name").Tenants("5", 109), declaresNothing(0, map[string]any{"cursor": "5", "count": 109}), "", nil},
		{space.About("name").Page("owner", Bookmark{"108", "an id"}, 109), declaresNothing(0, map[string]any{"kind": "owner", "after": "108", "after_id": "an id", "count": 109}), "", nil},
	} {
		untried = slices.DeleteFunc(untried, func(s *Script) bool { return s == c.call.Script })
		t.Run(c.call.Script.Verb, func(t *testing.T) {
			t.Parallel()
			shared := readHeader(t, "semaphore")
			own := readHeader(t, c.call.Script.Verb, shared.args...)
			want := []any{"evalsha", c.call.Script.Hash(), len(keys)}
			for _, key := range keys {
				want = append(want, key)
			}
			args := map[string]any{"caller": "caller-id", "wake": "prefix:wake:", "spec": int64(101), "since": int64(102), "grace": int64(110), "knows": "116"}
			maps.Copy(args, c.args)
			for _, name := range own.args {
				require.Contains(t, args, name)
				want = append(want, args[name])
			}
			assert.Equal(t, append(want, c.values...), c.call.Args)
			assert.Equal(t, c.rest, own.rest)
			assert.Equal(t, c.call.Script.Arguments, own.args)
			assert.Equal(t, own.rest != "", strings.Contains(c.call.Script.Text(), "local first_id"), "whether it has a name for where the ids begin")
		})
	}
	assert.Empty(t, untried)
}

// numbered is a line that names arguments: by their numbers, or by OWN, the first number that is not the same for all verbs.
var numbered = regexp.MustCompile(`(?m)^local ([\w, ]+) = (?:unpack\(ARGV, (1|OWN), (\d+|OWN \+ \d+)\)|ARGV\[(OWN)\])$`)

// One line names the arguments of all verbs, and one line of each verb its own, as Go does. No other line contains the number of an
// argument, so a new argument changes no other line.
func TestArgumentsHaveTheSameNamesInLuaAndGo(t *testing.T) {
	t.Parallel()
	for _, s := range Scripts {
		var names []string
		for _, m := range numbered.FindAllStringSubmatch(s.Text(), -1) {
			some := strings.Split(m[1], ", ")
			last, own := strings.CutPrefix(m[3], "OWN + ")
			if n, _ := strconv.Atoi(last); own {
				assert.Len(t, some, n+1, "%s: %s", s.Verb, m[0])
			} else if m[2] == "1" {
				assert.Len(t, some, n, "%s: %s", s.Verb, m[0])
				assert.Contains(t, s.Text(), fmt.Sprintf("\nlocal OWN = %d ", n+1))
			} else if m[4] == "OWN" {
				assert.Len(t, some, 1, "%s: %s", s.Verb, m[0])
			}
			names = append(names, some...)
		}
		assert.Equal(t, s.Arguments, names, s.Verb)
		rest := numbered.ReplaceAllString(s.Text(), "")
		assert.Empty(t, regexp.MustCompile(`ARGV(\[|, )\d.*`).FindAllString(rest, -1), s.Verb)
	}
}

// The keys are named and typed as in the header of semaphore.lua, in the order of keyspace.keys.
func TestHeaderOfTheKeysMatchesTheKeyspace(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../scripts/semaphore.lua")
	require.NoError(t, err)
	_, listed, _ := strings.Cut(string(text), "-- KEYS")
	listed, _, _ = strings.Cut(listed, "-- ARGV")
	found := regexp.MustCompile(`(?m)^(?:--)?\s+(\d+) (\w+)\s+(\w+)`).FindAllStringSubmatch(listed, -1)
	l := newLab(t, testclient.Settled(t))
	d := declares(3, usedNow)
	d.Tenants = []TenantSpec{{Name: "t", Share: 1}}
	l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute, Wait: true, Numbered: true}, tickets("me:1#:t*2", "me:2#:t*2")), 2)
	require.Len(t, found, len(l.keys))
	for i, m := range found {
		assert.Equal(t, strconv.Itoa(i+1), m[1])
		assert.Equal(t, l.keys[i], l.space.Prefix+":{name}:"+m[2])
		assert.Equal(t, m[3], l.rdb.Type(background, l.keys[i]).Val(), m[2])
	}
	assert.Contains(t, string(text), "local "+strings.Join(Kinds[:], ", ")+" = unpack(KEYS)\n")
}

// listOfConstants is a line that declares constants.
var listOfConstants = regexp.MustCompile(`(?m)^local ([A-Z_]+(?:, [A-Z_]+)+) = ([\d, ]+)$`)

func TestStatesAndTheHeadOfTheReplyAreTheSameInLuaAndGo(t *testing.T) {
	t.Parallel()
	texts := sources(t)
	lists := listOfConstants.FindAllStringSubmatch(texts["states.lua"]+texts["semaphore.lua"], -1)
	require.Len(t, lists, 2)
	assert.Equal(t, []string{"SINCE, NEXT, MORE, EPOCH, ROOM, SERVER, PLAIN, WAITERS", "1, 2, 3, 4, 5, 6, 7, 8"}, lists[1][1:])
	head := []int64{1, 2, 1, 4, 5, 6, 7, 8} // each number is the index that Lua has for it
	r, err := DecodeReply(head, 0)
	require.NoError(t, err)
	assert.Equal(t, Reply{Since: 1, Next: 2 * time.Millisecond, More: true, Epoch: 4, Room: 5, Server: 6, Plain: 7, Waiters: 8, Results: []Result{}}, r)
	inLua := make(map[string]string)
	numbers := strings.Split(lists[0][2], ", ")
	for i, name := range strings.Split(lists[0][1], ", ") {
		inLua[name] = numbers[i]
	}
	inGo := make(map[string]string)
	for s, name := range stateNames {
		inGo[strings.ToUpper(strings.ReplaceAll(name, " ", "_"))] = strconv.Itoa(int(s))
	}
	assert.Equal(t, inGo, inLua)
}

// fieldCall is a command on a hash, with its fields.
var fieldCall = regexp.MustCompile(`redis\.p?call\("\w+", (meta|weight), ([^()]*(?:\([^()]*\)[^()]*)*)\)`)

// The scripts use the same names of hash fields as internal/protocol.
func TestFieldsAndLayoutAreTheSameInLuaAndGo(t *testing.T) {
	t.Parallel()
	var all string
	for _, text := range sources(t) {
		all += text
	}
	inLua := map[string][]string{}
	for _, call := range fieldCall.FindAllStringSubmatch(all, -1) {
		for _, word := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(call[2], -1) {
			inLua[call[1]] = append(inLua[call[1]], word[1])
		}
	}
	inGo := slices.Sorted(slices.Values(append(MetaFields, MetaLayout)))
	slices.Sort(inLua[Meta])
	assert.Equal(t, inGo, slices.Compact(inLua[Meta]))
	assert.Equal(t, []string{WeightExtra}, slices.Compact(inLua[Weight]))
	for constant, value := range map[string]string{
		"LAYOUT": strconv.Itoa(Layout), "BOUND": strconv.Itoa(MaxIDs), "STEP": strconv.Itoa(MaxIDsOfTenants), "MOST": strconv.Itoa(MaxNumbers),
		"MAX_WAIT": "2 ^ 43",
	} {
		inLua := regexp.MustCompile(`(?m)^ *local `+constant+` = ([^-\n]*)`).FindAllStringSubmatch(all, -1)
		require.NotEmpty(t, inLua, constant)
		for _, one := range inLua {
			assert.Equal(t, value, strings.Trim(strings.TrimSpace(one[1]), `"`), constant)
		}
	}
	assert.EqualValues(t, 1<<43, MaxWait, "MAX_WAIT")

	_, header, found := strings.Cut(sources(t)["semaphore.lua"], "--         6 meta     hash    ")
	require.True(t, found)
	header, _, _ = strings.Cut(header, "--         7 ")
	assert.Equal(t, inGo, slices.Sorted(slices.Values(regexp.MustCompile(`\w+`).FindAllString(header, -1))), "the header of semaphore.lua")
}

// spy is a prefix of a script, which then returns the names of its commands instead of its reply.
const spy = `local real, log = redis, {}
local redis = { error_reply = real.error_reply }
for _, how in ipairs({ "call", "pcall" }) do
  redis[how] = function(name, key, ...)
    log[#log + 1] = name .. " " .. (key or "")
    if key then return real[how](name, key, ...) end
    return real[how](name)
  end
end
local function script()
`

var reads = []string{"TIME", "INFO", "HMGET", "ZCARD", "HLEN", "ZCOUNT", "GET", "HGET", "ZRANGE", "ZMSCORE", "ZSCORE", "ZRANGEBYSCORE", "ZRANGEBYLEX", "ZLEXCOUNT", "HSCAN", "EXISTS", "PTTL"}

// commands runs a call on a real server and returns its commands, each with its first key.
func (l *lab) commands(c Call) []string {
	l.t.Helper()
	args := slices.Clone(c.Args)
	args[0], args[1] = "eval", spy+c.Script.Text()+"\nend\nscript()\nreturn log"
	out, err := l.rdb.Do(background, args...).StringSlice()
	require.NoError(l.t, err)
	return out
}

// runWithout runs a call as a user that may not run one command.
func (l *lab) runWithout(command string, c Call) {
	l.t.Helper()
	const deny = `local real = redis
local redis = setmetatable({ pcall = function(name, ...)
  if name == "%[1]s" then return { err = "ERR denied" } end
  return real.pcall(name, ...)
end, call = function(name, ...)
  if name == "%[1]s" then error("denied") end
  return real.call(name, ...)
end }, { __index = real })
`
	args := slices.Clone(c.Args)
	args[0], args[1] = "eval", fmt.Sprintf(deny, command)+c.Script.Text()
	if err := l.rdb.Do(background, args...).Err(); err != nil {
		require.ErrorContains(l.t, err, "denied")
	}
}

// V7: a right that is missing, or was taken away, makes a call fail half-way.
func TestCallThatLacksARightLeavesNothingForEver(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	p := AcquireParams{TTL: time.Minute, Wait: true}
	ids := tickets("me:1", "me:2", "me:3")
	calls := map[string]func(l *lab) []Call{
		"semaphore": func(l *lab) []Call { return []Call{Acquire(l.space.About("name"), declares(2, usedNow), p, ids)} },
		"tenants": func(l *lab) []Call {
			d := declares(2, usedNow)
			d.Tenants = []TenantSpec{{Name: "tenant-0", Share: 2}}
			return []Call{Acquire(l.space.About("name"), d, p, ofTenants("me", 1, 4, 2)), Release(l.space.About("name"), d, 0, false, ofTenants("me", 1, 2, 2))}
		},
		"numbers": func(l *lab) []Call {
			numbered := []*ticket{{l.space.TicketID(1, "", true), 1}, {l.space.TicketID(2, "", true), 2}}
			q := p
			q.Numbered = true
			return []Call{Acquire(l.space.About("name"), declares(2, usedNow), q, numbered)}
		},
		"weights": func(l *lab) []Call {
			return []Call{Acquire(l.space.About("name"), declares(2, usedNow), p, tickets("me:1*2", "me:2*2")), Release(l.space.About("name"), declares(2, usedNow), 0, false, tickets("me:1"))}
		},
		"rate": func(l *lab) []Call {
			d := Declaration{Spec: LimitSpec{Limit: 2, Window: time.Second}, Since: usedNow}
			return []Call{Acquire(l.space.About("name"), d, p, ids)}
		},
		"restore": func(l *lab) []Call {
			return []Call{Restore(l.space.About("name"), declares(2, usedNow), time.Minute, tickets("me:1"), Claims{Holders: 1, Numbers: []int64{8}, Units: []int64{1}})}
		},
		"refresh": func(l *lab) []Call {
			return []Call{Refresh(l.space.About("name"), declares(2, usedNow), time.Minute, false, ids)}
		},
		"the end of a limit that was set by hand": func(l *lab) []Call {
			l.seed("meta declared=2 layout=2 pinned=3 pinned_at=5 since=7")
			return []Call{resizing(Unpin)(l, nil)}
		},
	}
	for name, build := range calls {
		for _, command := range []string{"SET", "ZADD", "ZREM", "HSET", "HDEL", "HINCRBY", "DEL", "PUBLISH", "ZRANGE", "ZRANGEBYLEX", "HMGET", "HGET", "EXISTS", "ZMSCORE"} {
			l := newLab(t, rdb)
			for _, c := range build(l) {
				l.runWithout(command, c)
			}
			if l.meta("pinned") == "" { // else nothing was changed
				l.mustExpire(name + " without " + command)
			}
		}
	}
}

// runUpTo runs a call on a real server and stops it before write n+1.
func (l *lab) runUpTo(n int, c Call) {
	l.t.Helper()
	const stop = `local real, remaining = redis, %d
local reads = "%s"
local redis = { error_reply = real.error_reply, pcall = real.pcall }
function redis.call(name, ...)
  if not string.find(reads, " " .. name .. " ", 1, true) then
    if remaining == 0 then error("stopped") end
    remaining = remaining - 1
  end
  return real.call(name, ...)
end
`
	args := slices.Clone(c.Args)
	args[0], args[1] = "eval", fmt.Sprintf(stop, n, " "+strings.Join(reads, " ")+" ")+c.Script.Text()
	if err := l.rdb.Do(background, args...).Err(); err != nil {
		require.ErrorContains(l.t, err, "stopped")
	}
}

func name(command string) string { return strings.Fields(command)[0] }

// S10: a key of a wrong type, or a full server, must be refused before anything is written.
func TestEveryKeyIsReadBeforeTheFirstWriteAsTheHeaderSays(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	expired := strings.Replace(fullState, "you:1=20s", "you:1=-10s", 1)
	for _, seed := range []string{"", fullState, expired, sharedState} {
		for _, s := range Scripts {
			l := newLab(t, rdb)
			l.seed(seed)
			calls := l.everyCall()
			i := slices.IndexFunc(calls, func(c Call) bool { return c.Script == s })
			require.GreaterOrEqual(t, i, 0, "everyCall has no call of %s", s.Verb)
			did := l.commands(calls[i])
			first := slices.IndexFunc(did, func(c string) bool { return !slices.Contains(reads, name(c)) })
			if first < 0 {
				first = len(did)
			} else {
				listed := readHeader(t, s.Verb, readHeader(t, "semaphore").args...).write
				assert.Contains(t, listed, name(did[first]), "the first write of %s is %s", s.Verb, did[first])
			}
			for _, key := range l.keys {
				isKey := func(c string) bool { return strings.HasSuffix(c, " "+key) }
				ofTenants := slices.Index(l.keys[:], key) > slices.Index(Kinds[:], Meta) && !strings.Contains(seed, "tenants=1")
				ofTenants = ofTenants || unread[s] != nil
				if slices.ContainsFunc(did, isKey) || !ofTenants {
					assert.True(t, slices.ContainsFunc(did[:first], isKey), "%s reads %s first", s.Verb, key)
				}
			}
			for _, c := range did {
				if strings.Contains(c, " ") && name(c) != "TIME" && name(c) != "INFO" && name(c) != "PUBLISH" {
					assert.Contains(t, l.keys, strings.Fields(c)[1], "the key is not declared")
				}
			}
		}
	}
}

// onBoth runs a test on a real server and on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Parallel()
	testclient.OnBoth(t, test)
}

// If go-redis sent a script again by itself, a client would not know the outcome.
func TestNoScriptIsSentAgainByGoRedis(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(Scripts, PlainScripts) {
		for _, withText := range []bool{false, true} {
			assert.True(t, Call{s, []any{"evalsha", s.Hash()}}.Command(withText).NoRetry(), s.Verb)
		}
	}
}

// Another program has deleted deadlines. Entries without one were lost for their clients,
// and stayed stored for as long as the name was used.
func TestEntriesWithoutADeadlineAreRenewedOrExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, spec := range map[string]LimitSpec{"of a semaphore": {Limit: 1}, "of a rate": {Limit: 1, Window: time.Minute}} {
			t.Run(name, func(t *testing.T) {
				l := newLab(t, rdb)
				l.seed("meta layout=2")
				about, d := l.space.About("name"), Declaration{Spec: spec, Since: 7}
				p := AcquireParams{TTL: time.Minute, Wait: true}
				l.ask(Acquire(about, d, p, tickets("me:1", "me:2", "dead:1", "dead:2")), 4)
				require.NoError(t, l.rdb.Del(background, l.keys[2]).Err())
				r := l.ask(Refresh(about, d, time.Minute, false, tickets("me:1", "me:2")), 2)
				assert.Equal(t, []State{Held, Waiting}, []State{r.Results[0].State, r.Results[1].State})
				assert.ElementsMatch(t, []string{"me:1", "me:2"}, members(l.snapshot().timeout))
				assert.Positive(t, l.rdb.PTTL(background, l.keys[2]).Val())

				l.ask(Refresh(about, d, time.Hour, false, tickets("me:2")), 1) // the keys are renewed, too
				deadlines := scores(l.snapshot().timeout)
				require.Len(t, deadlines, 4)
				for _, id := range []string{"dead:1", "dead:2"} {
					assert.InDelta(t, l.now().Add(time.Hour).UnixMilli(), deadlines[id], 60_000, id)
				}
			})
		}
	})
}
