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

// This is the only file that knows Lua: the key names, the arguments of each script and its reply. See
// scripts/semaphore.lua for what the keys hold. A change to a script needs no change beyond this file.

//go:embed scripts/*.lua
var sources embed.FS

// script is the script of one verb, with the hash by which Redis caches it.
type script struct {
	verb, text string
	hash       any // a string, converted to any once instead of at each call
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

// newScript joins the file of a verb with those that it shares with others. The files are embedded, so a missing one
// panics at the start of every test.
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

// A script is sent exactly once: go-redis must not resend it after a lost reply, as the client could not know
// the outcome of that operation.
type (
	numbers struct{ *redis.IntSliceCmd } // replies with a list of numbers
	values  struct{ *redis.SliceCmd }    // replies with a list of anything
)

func (numbers) NoRetry() bool { return true }
func (values) NoRetry() bool  { return true }

// maxIDs is the most ids that one call carries. Together with BOUND in semaphore.lua it bounds how long a call blocks the
// server. See "The longest calls" in docs/performance.md for measurements.
const maxIDs = 150

// maxUnits bounds limits and weights: Lua counts in doubles, which are exact up to here.
const maxUnits = 1<<53 - 1

// keyspace is where the keys and channels are in Redis, and which client makes the calls.
type keyspace struct {
	prefix   string // of every key and channel
	clientID string
	grace    time.Duration // how long a server that may have lost state grants nothing new
}

// keys returns the keys of a name in the order of semaphore.lua. Everything up to the first "}" is the hash tag, so
// all of them are in one slot. No two names share a key, because the suffixes differ.
func (k keyspace) keys(name string) [6]string {
	base := k.prefix + ":{" + name + "}:"
	return [6]string{base + "owner", base + "queue", base + "timeout", base + "counter", base + "weight", base + "meta"}
}

// nameOf returns the name to which a key of the given kind belongs.
func (k keyspace) nameOf(key, kind string) (name string, ok bool) {
	name, found := strings.CutPrefix(key, k.prefix+":{")
	name, ends := strings.CutSuffix(name, "}:"+kind)
	return name, found && ends && checkName(name) == nil
}

// escapePattern escapes the characters that are special in a pattern.
var escapePattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// everyName is a SCAN pattern that matches one key of each name. It can match other keys, too.
func (k keyspace) everyName() string { return escapePattern.Replace(k.prefix) + ":{*}:meta" }

// wakePrefix plus a client id is the channel on which that client is notified of its grants.
func (k keyspace) wakePrefix() string { return k.prefix + ":wake:" }

// watchChannel is a channel to which nothing is published.
func (k keyspace) watchChannel() string { return k.prefix + ":watch" }

// labelKey holds the label that operators see beside the permits of a client.
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

// limitSpec is what a handle declares: a limit, and for a rate how long a grant counts.
type limitSpec struct {
	limit  int64
	window time.Duration // in whole milliseconds; 0: until it is released
}

func (q limitSpec) arg() any {
	if q.window == 0 {
		return q.limit
	}
	return fmt.Sprintf("%d/%d", q.limit, q.window.Milliseconds())
}

// declaration is a limitSpec and when this client first used it: the server's time in microseconds or, if that is not
// known yet, minus the microseconds that have passed since. It is declareNothing in a call that only queries.
type declaration struct {
	spec  limitSpec
	since int64
	knows string // see usedBefore
}

const declareNothing = math.MinInt64

// What a caller knows. If it has had a reply about the name, it knows that the name was lost when the server does not
// know it. Otherwise it knows servers only: for longer than the grace period, or not.
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

// callPrefix is what all calls for a name have in common.
type callPrefix struct {
	begin      []any         // the number of keys, the keys, and the caller
	grace      time.Duration // see keyspace
	usedBefore any           // the grace argument of most calls: the name was used before
}

func (k keyspace) about(name string) callPrefix {
	keys := k.keys(name)
	begin := []any{len(keys)}
	for _, key := range keys {
		begin = append(begin, key)
	}
	return callPrefix{append(begin, k.clientID, k.wakePrefix()), k.grace, graceArg(k.grace, usedBefore)}
}

// call is one script to run, with the arguments of its command: EVALSHA, the hash, and what follows.
type call struct {
	script *script
	args   []any
}

// newCall returns a call with the arguments that every script has, and capacity for room more.
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

// command returns the call as a command for a pipeline. With withText it sends the script itself, for a server that has
// not cached it.
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

// acquireParams are the parameters that all requests of one acquire have in common.
type acquireParams struct {
	ttl       time.Duration
	wait      bool
	maxQueue  int64
	headStart time.Duration
}

// acquire acquires tickets, after releasing others.
func (s callPrefix) acquire(d declaration, p acquireParams, tickets []*ticket, released ...*ticket) call {
	c := s.newCall(acquireScript, d, p.ttl, 5+2*len(tickets)+len(released))
	c.args = append(c.args, p.wait, p.maxQueue, p.headStart.Microseconds(), len(tickets), len(released))
	c.addIDs(tickets)
	if slices.ContainsFunc(tickets, func(t *ticket) bool { return t.weight != 1 }) {
		c.addWeights(tickets)
	}
	c.addIDs(released)
	return c
}

// overdue marks a tombstone, or 0 for none, as one of tickets whose leases have ended. Their client knows that slightly
// before Redis.
func overdue(tombstone time.Duration) time.Duration { return -time.Millisecond - tombstone }

func (s callPrefix) release(d declaration, tombstone time.Duration, tickets []*ticket) call {
	c := s.newCall(releaseScript, d, tombstone, len(tickets))
	c.addIDs(tickets)
	return c
}

// refresh renews tickets. If known is set, the reply may omit their tokens.
func (s callPrefix) refresh(d declaration, ttl time.Duration, known bool, tickets []*ticket) call {
	c := s.newCall(refreshScript, d, ttl, 1+len(tickets))
	c.args = append(c.args, known)
	c.addIDs(tickets)
	return c
}

// reduce lowers the weight of each ticket to the units that it keeps.
func (s callPrefix) reduce(d declaration, tickets []*ticket, keeps []int64) call {
	c := s.newCall(reduceScript, d, 0, 2*len(tickets))
	c.addIDs(tickets)
	c.addNumbers(keeps)
	return c
}

// restore stores tickets again, holders first, with the numbers and units that they had.
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

// anonymous begins a call without a client id. If it promotes waiters, all of them are notified by message.
func (k keyspace) anonymous(name string, run *script, q limitSpec, room int) call {
	k.clientID = ""
	return k.about(name).newCall(run, declaration{spec: q, since: declareNothing}, 0, room)
}

// status queries a name as of a server time in ms, 0 for now. from is how many of the expired entries earlier calls have
// counted.
func (k keyspace) status(name string, q limitSpec, at, from int64) call {
	c := k.anonymous(name, statusScript, q, 2)
	c.args = append(c.args, at, from)
	return c
}

// unpin is the limit that makes resize remove the pin.
const unpin = -1

func (k keyspace) resize(name string, q limitSpec, pin, asked int64) call {
	c := k.anonymous(name, resizeScript, q, 2)
	c.args = append(c.args, pin, asked)
	return c
}

// promote grants the available units to waiters.
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

// bookmark is the entry after which a page begins. The zero value is before the first entry.
type bookmark struct{ number, id string }

// page queries entries of the owner or queue key.
func (s callPrefix) page(key string, after bookmark, count int) call {
	c := s.newCall(pageScript, declaration{since: declareNothing}, 0, 4)
	c.args = append(c.args, key, after.number, after.id, count)
	return c
}

// state is the state of an id in a reply. semaphore.lua has the same list.
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

	states // the number of states
)

// result is the state of one id. number is the token of a holder, the position of a waiter, or, if the request was early
// or was refused by a rate, the milliseconds after which to retry.
type result struct {
	state  state
	number int64
}

// wait returns the milliseconds after which to retry, or 0.
func (r result) wait() int64 {
	if r.state == stateEarly || r.state == stateRefused {
		return r.number
	}
	return 0
}

// grant says that the waiter at position place was granted token. Token 0: it must poll.
type grant struct{ seq, place, token int64 }

// grantNotice is a grant from a message or a reply, with the epoch of the name at that time.
type grantNotice struct {
	grant
	epoch int64
	by    GrantedBy
}

// reply is what finish.lua returns, as one list of numbers.
type reply struct {
	since   int64         // when this client first used the limit that was sent
	next    time.Duration // until the nearest deadline; negative: not reported
	more    bool          // the script stopped at its bound
	epoch   int64         // of the name; if it differs from the one before, state may have been lost. 0: not reported
	room    int64         // of a rate: available units
	server  int64         // which one replied; 0: unknown
	results []result
	grants  []grant
}

var errReply = errors.New("unexpected reply from a script: is another program using its keys?")

// head is the count of numbers with which every reply begins.
const head = 6

// maxWait is the most milliseconds that a reply may ask to wait. A Duration holds little more.
const maxWait = 1 << 43

// decodeReply checks and converts the reply to a call with n ids.
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

// stock is the reply of one call of status.lua.
type stock struct {
	limit, declared, pinned      int64
	holders, waiting, used       int64 // including expired ones
	expired                      int64 // entries
	counted, held, units, waited int64 // of these, what this call has counted: entries, holders, their units, waiters
	oldest                       int64 // us since the first waiter arrived that is not expired; negative: none was found
	nearest                      int64 // ms until the next deadline; negative: none
	window                       int64 // ms
	exists                       int64
	granted, lapsed              int64
	missed                       int64 // of held: permits that expired but are not in lapsed yet
	asOf                         int64 // server ms as of which entries count as expired
	at                           int64 // server us, by which waiters and holders are numbered
	asks                         int64 // the time to send with a limit that is pinned now
	paced, pacing                int64 // recent grants while there were waiters, and the us that they took
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

// with adds what another call has counted. False: the state has changed between the calls.
func (s stock) with(more stock) (stock, bool) {
	same := more.holders == s.holders && more.waiting == s.waiting && more.used == s.used && more.expired == s.expired
	s.missed += more.missed
	s.counted, s.held, s.units, s.waited = s.counted+more.counted, s.held+more.held, s.units+more.units, s.waited+more.waited
	if s.oldest < 0 {
		s.oldest = more.oldest
	}
	return s, same
}

// status converts the stock, without the expired entries.
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

// pace returns the recent grants per second.
func (s stock) pace() float64 {
	if s.waiting == s.waited || s.pacing < time.Second.Microseconds() { // a grant or two of a young queue would say nothing
		return 0
	}
	return max(0, float64(s.paced)*1e6/float64(s.pacing))
}

// page is the reply of page.lua: some tickets, and the entry after which the next page begins, if there are more.
type page struct {
	tickets []Ticket
	last    bookmark
	more    bool
}

// decodePage checks and converts the reply of page.lua. Only a ticket of the owner key has a token.
func decodePage(list []any, key string) (p page, err error) {
	if len(list)%4 != 1 || list[0] != int64(0) && list[0] != int64(1) {
		return page{}, errReply
	}
	p.more = list[0] == int64(1)
	for list = list[1:]; len(list) > 0; list = list[4:] {
		id, isID := list[0].(string)
		number, isNumber := list[1].(string)
		weight, isWeight := list[2].(int64)
		remaining, isRemaining := list[3].(int64)
		if !isID || !isNumber || !isWeight || !isRemaining {
			return page{}, errReply
		}
		p.last = bookmark{number, id}
		n, _ := strconv.ParseInt(number, 10, 64) // an entry of another program has no number
		n = max(0, min(n, maxUnits))
		t := Ticket{ID: id, Weight: weight, Since: time.UnixMicro(n)}
		if key == "owner" {
			t.Token = n
		}
		if remaining > 0 {
			t.ExpiresIn = time.Duration(remaining) * time.Millisecond
		}
		p.tickets = append(p.tickets, t)
	}
	return p, nil
}

// maxWake is the most bytes in a wake message: the grants of one call, of three numbers each, and a key.
const maxWake = 2*maxIDs*3*20 + 1024 + maxName

// parseWake parses a wake message: "seq:position:token,seq:position:token,... epoch ownerkey". A message that is longer
// than any of ours is forged, and is not parsed: it could have any size.
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
