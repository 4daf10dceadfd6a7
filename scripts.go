package fairsem

import (
	"embed"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// This is the only file that knows Lua: the key names, what goes into each script, and what comes
// back. scripts/semaphore.lua says what the keys hold; a change of a script ends at this file.

//go:embed scripts/*.lua
var sources embed.FS

// script is one verb: its text, and the hash by which Redis caches it.
type script struct {
	verb, text string
	hash       any // a string, which need not become an any at each call
}

var (
	acquireScript = newScript("acquire", "semaphore", "limit", "epoch", "quick_acquire", "line", "forecast", "enter", "acquire", "finish")
	releaseScript = newScript("release", "semaphore", "quick_release", "limit", "epoch", "line", "release", "finish")
	refreshScript = newScript("refresh", "semaphore", "limit", "epoch", "quick_refresh", "line", "forecast", "refresh", "finish")
	reduceScript  = newScript("reduce", "semaphore", "limit", "epoch", "line", "reduce", "finish")
	restoreScript = newScript("restore", "semaphore", "limit", "epoch", "line", "enter", "restore", "finish")
	resizeScript  = newScript("resize", "semaphore", "limit", "epoch", "line", "resize", "finish")
	evictScript   = newScript("evict", "semaphore", "limit", "epoch", "line", "evict", "finish")
	statusScript  = newScript("status", "semaphore", "limit", "status")
	pageScript    = newScript("page", "semaphore", "page")
)

// newScript joins a verb with what it shares with others. The files are part of the program, so one
// that is missing stops every test at its start.
func newScript(verb string, files ...string) *script {
	text := fmt.Sprintf("local VERB = %q\n", verb)
	for _, file := range files {
		part, err := sources.ReadFile("scripts/" + file + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(part)
	}
	return &script{verb, text, redis.NewScript(text).Hash()}
}

// A script is sent exactly once: one that go-redis re-sends by itself after a lost reply is an
// operation whose outcome the client cannot know of.
type (
	numbers struct{ *redis.IntSliceCmd } // replies with a list of numbers
	values  struct{ *redis.SliceCmd }    // replies with a list of anything
)

func (numbers) NoRetry() bool { return true }
func (values) NoRetry() bool  { return true }

// maxIDs is how many ids one call carries at most. With BOUND in semaphore.lua it bounds how long a call keeps the
// server from others, which is what docs/performance.md measures, in "The longest calls".
const maxIDs = 150

// maxUnits bounds limits and weights: Lua counts in doubles, which are exact up to here.
const maxUnits = 1<<53 - 1

// keyspace says where things are in Redis, and who asks.
type keyspace struct {
	prefix   string // of every key and channel
	clientID string
	grace    time.Duration // of a server that may have lost the state
}

// keys returns the keys of a name in the order of semaphore.lua. Everything up to the first "}" is
// the hash tag, so all of them are in one slot, and no two names share a key: the ends differ.
func (k keyspace) keys(name string) [6]string {
	base := k.prefix + ":{" + name + "}:"
	return [6]string{base + "owner", base + "queue", base + "timeout", base + "counter", base + "weight", base + "meta"}
}

// nameOf returns the name that a key of that kind belongs to.
func (k keyspace) nameOf(key, kind string) (name string, ok bool) {
	name, found := strings.CutPrefix(key, k.prefix+":{")
	name, ends := strings.CutSuffix(name, "}:"+kind)
	return name, found && ends && checkName(name) == nil
}

// literal takes its meaning away from what has one in a pattern.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// everyName is a pattern for SCAN: of one key of each name. Other keys can look alike, too.
func (k keyspace) everyName() string { return literal.Replace(k.prefix) + ":{*}:meta" }

// wakePrefix plus a client id is the channel on which that client hears of its grants.
func (k keyspace) wakePrefix() string { return k.prefix + ":wake:" }

// watchChannel is one on which nobody speaks.
func (k keyspace) watchChannel() string { return k.prefix + ":watch" }

// labelKey holds what operators see beside the permits of a client.
func (k keyspace) labelKey(clientID string) string { return k.prefix + ":client:" + clientID }

// evictedKey holds the label of the client that evicted a permit or waiter.
func (k keyspace) evictedKey(id string) string { return k.prefix + ":evicted:" + id }

// ticketID is the permit id of the client's seq-th ticket.
func (k keyspace) ticketID(seq int64) string { return k.clientID + ":" + strconv.FormatInt(seq, 10) }

// clientOf returns the client id in a permit id.
func clientOf(id string) string {
	if i := strings.LastIndexByte(id, ':'); i >= 0 {
		return id[:i]
	}
	return id
}

// quota is what a handle declares: a limit, and of a rate how long a grant counts.
type limitSpec struct {
	limit  int64
	window time.Duration // in whole milliseconds; 0: until it is given back
}

func (q limitSpec) arg() any {
	if q.window == 0 {
		return q.limit
	}
	return fmt.Sprintf("%d/%d", q.limit, q.window.Milliseconds())
}

// declaration is a quota and when this client first used it: the server's time in microseconds or,
// where that is not known yet, minus the microseconds that have passed since; declareNothing from a
// call that only looks.
type declaration struct {
	spec  limitSpec
	since int64
	knows string // see usedBefore
}

const declareNothing = math.MinInt64

// What a caller knows. One that has had an answer about the name knows that it was lost where the server does not know
// it. Others know servers only: for longer than the grace period, or not.
const (
	usedBefore  = "*"
	knownServer = "%012x!"
	newServer   = "%012x?"
)

func (d declaration) sinceArg() any {
	if d.since == declareNothing {
		return ""
	}
	return d.since
}

// subject is what all calls about a name have in common.
type callPrefix struct {
	begin      []any         // the number of keys, the keys, and who asks
	grace      time.Duration // of a server that may have lost the state
	usedBefore any           // the grace, and that the name was used before: of most calls
}

func (k keyspace) about(name string) callPrefix {
	keys := k.keys(name)
	begin := []any{len(keys)}
	for _, key := range keys {
		begin = append(begin, key)
	}
	return callPrefix{append(begin, k.clientID, k.wakePrefix()), k.grace, graceArg(k.grace, usedBefore)}
}

// call is one script to be run: what follows EVALSHA and the hash.
type call struct {
	script *script
	args   []any
}

// newCall begins the arguments that every script has, with room for more.
func (s callPrefix) newCall(run *script, d declaration, lease time.Duration, room int) call {
	args := make([]any, 0, len(s.begin)+6+room)
	args = append(args, "evalsha", run.hash)
	args = append(args, s.begin...)
	return call{run, append(args, d.spec.arg(), d.sinceArg(), lease.Milliseconds(), s.graceArg(d.knows))}
}

func (s callPrefix) graceArg(knows string) any {
	switch knows {
	case "":
		return s.grace.Milliseconds()
	case usedBefore:
		return s.usedBefore
	}
	return graceArg(s.grace, knows)
}

func graceArg(grace time.Duration, knows string) string {
	return strconv.FormatInt(grace.Milliseconds(), 10) + " " + knows
}

// command returns the call for a pipeline; withText sends the script itself, for a server that does
// not have it cached.
func (c call) command(withText bool) redis.Cmder {
	args := c.args
	if withText {
		args = slices.Clone(args)
		args[0], args[1] = "eval", c.script.text
	}
	if c.script == pageScript {
		return values{redis.NewSliceCmd(background, args...)}
	}
	return numbers{redis.NewIntSliceCmd(background, args...)}
}

// terms are what the callers of one acquire have in common.
type acquireParams struct {
	ttl       time.Duration
	wait      bool
	maxQueue  int64
	headStart time.Duration
}

// acquire asks for tickets, after giving others back.
func (s callPrefix) acquire(d declaration, t acquireParams, tickets []*ticket, back ...*ticket) call {
	c := s.newCall(acquireScript, d, t.ttl, 5+2*len(tickets)+len(back))
	c.args = append(c.args, t.wait, t.maxQueue, t.headStart.Microseconds(), len(tickets), len(back))
	c.addIDs(tickets)
	if slices.ContainsFunc(tickets, func(t *ticket) bool { return t.weight != 1 }) {
		c.addWeights(tickets)
	}
	c.addIDs(back)
	return c
}

// overdue is that tombstone, or none, of tickets whose leases have ended: their client knows it a little before Redis.
func overdue(tombstone time.Duration) time.Duration { return -time.Millisecond - tombstone }

func (s callPrefix) release(d declaration, tombstone time.Duration, tickets []*ticket) call {
	c := s.newCall(releaseScript, d, tombstone, len(tickets))
	c.addIDs(tickets)
	return c
}

// refresh renews tickets. The answer need not tell the tokens of those of which they are known.
func (s callPrefix) refresh(d declaration, ttl time.Duration, known bool, tickets []*ticket) call {
	c := s.newCall(refreshScript, d, ttl, 1+len(tickets))
	c.args = append(c.args, known)
	c.addIDs(tickets)
	return c
}

// reduce lowers the weights of tickets to the units that each keeps.
func (s callPrefix) reduce(d declaration, tickets []*ticket, keeps []int64) call {
	c := s.newCall(reduceScript, d, 0, 2*len(tickets))
	c.addIDs(tickets)
	c.addNumbers(keeps)
	return c
}

// restore puts tickets back, holders first: with the numbers and the units that they had.
func (s callPrefix) restore(d declaration, lease time.Duration, tickets []*ticket, had claims) call {
	c := s.newCall(restoreScript, d, lease, 2+3*len(tickets))
	c.args = append(c.args, had.holders, had.epoch)
	c.addIDs(tickets)
	c.addNumbers(had.numbers)
	c.addNumbers(had.units)
	return c
}

func (c *call) addWeights(tickets []*ticket) {
	for _, t := range tickets {
		c.args = append(c.args, t.weight)
	}
}

func (c *call) addNumbers(list []int64) {
	for _, n := range list {
		c.args = append(c.args, n)
	}
}

func (c *call) addIDs(tickets []*ticket) {
	for _, t := range tickets {
		c.args = append(c.args, t.id)
	}
}

// asNobody begins a call of no view's: should it promote somebody, the news goes out by message to all
// alike.
func (k keyspace) anonymous(name string, run *script, q limitSpec, room int) call {
	k.clientID = ""
	return k.about(name).newCall(run, declaration{spec: q, since: declareNothing}, 0, room)
}

// status asks what a name looks like as of a server time in ms, 0 for now, when so many of the entries that are expired
// were counted before.
func (k keyspace) status(name string, q limitSpec, at, from int64) call {
	c := k.anonymous(name, statusScript, q, 2)
	c.args = append(c.args, at, from)
	return c
}

// unpin is what resize pins to take the pin away.
const unpin = -1

func (k keyspace) resize(name string, q limitSpec, pin, asked int64) call {
	c := k.anonymous(name, resizeScript, q, 2)
	c.args = append(c.args, pin, asked)
	return c
}

// promote has the waiters granted what there is.
func (k keyspace) promote(name string, q limitSpec) call {
	c := k.anonymous(name, refreshScript, q, 1)
	c.args = append(c.args, false)
	return c
}

func (k keyspace) evict(name string, q limitSpec, id string) call {
	c := k.anonymous(name, evictScript, q, 1)
	c.args = append(c.args, id)
	return c
}

// bookmark is an entry after which a page begins; the zero one is before the first.
type bookmark struct{ number, id string }

// page asks for entries of the owner or queue key.
func (s callPrefix) page(key string, after bookmark, count int) call {
	c := s.newCall(pageScript, declaration{since: declareNothing}, 0, 4)
	c.args = append(c.args, key, after.number, after.id, count)
	return c
}

// state is what a script says of an id. semaphore.lua has the same list.
type state int64

const (
	stateGone state = iota
	stateHeld
	stateWaiting
	stateRefused
	stateFull
	stateTooBig
	stateEarly
	stateEvicted

	states // how many there are
)

// result is the state of one id, with its token if it holds, its place if it waits, and the
// milliseconds until it is worth asking again if it is early, or was refused by a rate.
type result struct {
	state  state
	number int64
}

// wait is the number of who has to wait for so many milliseconds.
func (r result) wait() int64 {
	if r.state == stateEarly || r.state == stateRefused {
		return r.number
	}
	return 0
}

// grant says that the waiter at place holds token. Token 0: it has to look again.
type grant struct{ seq, place, token int64 }

// news is a grant that a message or an answer told of, with the epoch of the name at that time.
type grantNotice struct {
	grant
	epoch int64
	by    GrantedBy
}

// reply is what finish.lua returns, as one list of numbers.
type reply struct {
	since   int64         // when this client first used the limit that was sent
	next    time.Duration // until the nearest deadline; negative: nobody waits
	more    bool          // the script stopped at its bound
	epoch   int64         // of the name; another one than before: state may have been lost. 0: not told
	room    int64         // of a rate: units that nobody has
	server  int64         // which one answered; 0: it does not say
	results []result
	grants  []grant
}

var errReply = errors.New("unexpected reply from a script: is another program using its keys?")

// head is how many numbers a reply begins with.
const head = 6

// maxWait is how many milliseconds a reply tells to wait at most. No Duration holds much more.
const maxWait = 1 << 43

// decodeReply checks and converts the reply to a call about n ids.
func decodeReply(raw []int64, n int) (reply, error) {
	if len(raw) < head+2*n || (len(raw)-head-2*n)%3 != 0 || raw[1] > maxWait {
		return reply{}, errReply
	}
	r := reply{
		since:   raw[0],
		next:    time.Duration(raw[1]) * time.Millisecond,
		more:    raw[2] != 0,
		epoch:   raw[3],
		room:    raw[4],
		server:  raw[5],
		results: make([]result, n),
	}
	for i := range r.results {
		one := result{state(raw[head+2*i]), raw[head+2*i+1]}
		if one.state < 0 || one.state >= states || one.number < 0 || one.wait() > maxWait {
			return reply{}, errReply
		}
		r.results[i] = one
	}
	for g := raw[head+2*n:]; len(g) > 0; g = g[3:] {
		r.grants = append(r.grants, grant{g[0], g[1], g[2]})
	}
	return r, nil
}

// stock is what status.lua counts in one call.
type stock struct {
	limit, declared, pinned      int64
	holders, waiting, used       int64 // with what is expired
	expired                      int64 // entries
	counted, held, units, waited int64 // of these: how many the call has counted, and what they are
	oldest                       int64 // us since the first waiter arrived that is not expired; negative: none was found
	nearest                      int64 // ms until the next deadline; negative: there is none
	window                       int64 // ms
	exists                       int64
	granted, lapsed              int64
	missed                       int64 // of those held that the call has counted: how many lapsed, too
	asOf                         int64 // server ms at which an entry was expired, or not
	at                           int64 // server us, by which waiters and holders are numbered
	asks                         int64 // what a limit is asked for with that is set by hand now
	paced, pacing                int64 // grants lately while calls waited, and in how many us
}

// decodeStock converts the reply of status.lua.
func decodeStock(raw []int64) (s stock, err error) {
	fields := []*int64{
		&s.limit, &s.declared, &s.pinned, &s.holders, &s.waiting, &s.used,
		&s.expired, &s.counted, &s.held, &s.units, &s.waited,
		&s.oldest, &s.nearest, &s.window, &s.exists, &s.granted, &s.lapsed, &s.missed, &s.asOf, &s.at, &s.asks, &s.paced, &s.pacing,
	}
	if len(raw) != head+len(fields) {
		return stock{}, errReply
	}
	for i, field := range fields {
		*field = raw[head+i]
	}
	return s, nil
}

// with adds what another call has counted of the same stock. False: it is another by now.
func (s stock) with(more stock) (stock, bool) {
	same := more.holders == s.holders && more.waiting == s.waiting && more.used == s.used && more.expired == s.expired
	s.missed += more.missed
	s.counted, s.held, s.units, s.waited = s.counted+more.counted, s.held+more.held, s.units+more.units, s.waited+more.waited
	if s.oldest < 0 {
		s.oldest = more.oldest
	}
	return s, same
}

// status is what the stock comes to without what is expired.
func (s stock) status(name string) Status {
	return Status{
		Name: name, At: time.UnixMicro(s.at),
		Limit: s.limit, Declared: s.declared, Pinned: s.pinned == 1,
		Used: s.used - s.units, Holders: s.holders - s.held, Waiting: s.waiting - s.waited,
		OldestWait: time.Duration(max(0, s.oldest)) * time.Microsecond,
		NextExpiry: time.Duration(max(0, s.nearest)) * time.Millisecond,
		Window:     time.Duration(s.window) * time.Millisecond,
		Exists:     s.exists == 1, Granted: s.granted, Expired: s.lapsed + s.missed,
		Pace: s.pace(),
	}
}

// pace is in grants a second.
func (s stock) pace() float64 {
	if s.waiting == s.waited || s.pacing <= 0 {
		return 0
	}
	return max(0, float64(s.paced)*1e6/float64(s.pacing))
}

// page is what page.lua tells: some tickets, and after which entry the next page begins, if there is more.
type page struct {
	tickets []Ticket
	last    bookmark
	more    bool
}

// decodePage converts the reply of page.lua. A ticket of the owner key holds a token.
func decodePage(list []any, key string) (p page, err error) {
	if len(list)%4 != 1 || list[0] != int64(0) && list[0] != int64(1) {
		return page{}, errReply
	}
	p.more = list[0] == int64(1)
	for list = list[1:]; len(list) > 0; list = list[4:] {
		id, isID := list[0].(string)
		number, isNumber := list[1].(string)
		weight, isWeight := list[2].(int64)
		left, isLeft := list[3].(int64)
		if !isID || !isNumber || !isWeight || !isLeft {
			return page{}, errReply
		}
		p.last = bookmark{number, id}
		n, _ := strconv.ParseInt(number, 10, 64) // what is none of ours has no number
		n = max(0, min(n, maxUnits))
		t := Ticket{ID: id, Weight: weight, Since: time.UnixMicro(n)}
		if key == "owner" {
			t.Token = n
		}
		if left > 0 {
			t.ExpiresIn = time.Duration(left) * time.Millisecond
		}
		p.tickets = append(p.tickets, t)
	}
	return p, nil
}

// maxWake is how many bytes a wake message has at most: the grants of one call, of three numbers each, and a key.
const maxWake = 2*maxIDs*3*20 + 1024 + maxName

// parseWake takes a wake message apart: "seq:place:token,seq:place:token,... epoch ownerkey". One that is longer than any
// of ours is forged, and not looked at: it could be of any size.
func (k keyspace) parseWake(payload string) (name string, epoch int64, grants []grant, ok bool) {
	if len(payload) > maxWake+len(k.prefix) {
		return "", 0, nil, false
	}
	list, rest, _ := strings.Cut(payload, " ")
	number, key, _ := strings.Cut(rest, " ")
	name, ok = k.nameOf(key, "owner")
	epoch, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return "", 0, nil, false
	}
	for entry := range strings.SplitSeq(list, ",") {
		g, ok := parseGrant(entry)
		if !ok {
			return "", 0, nil, false
		}
		grants = append(grants, g)
	}
	return name, epoch, grants, true
}

func parseGrant(entry string) (grant, bool) {
	fields := strings.Split(entry, ":")
	if len(fields) != 3 {
		return grant{}, false
	}
	var n [3]int64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return grant{}, false
		}
	}
	return grant{n[0], n[1], n[2]}, true
}
