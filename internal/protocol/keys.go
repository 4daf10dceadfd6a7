package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxName is the most bytes that a name may have.
const MaxName = 512

// The kinds of keys that a name has: the last part of each.
const (
	Owner   = "owner"   // zset: permit id -> fencing token: the holders
	Queue   = "queue"   // zset: permit id -> position number: the waiters
	Timeout = "timeout" // zset: permit id -> deadline in ms, of both and of tombstones
	Counter = "counter" // string: the last number given out
	Weight  = "weight"  // hash: permit id -> weight, where it is not 1
	Meta    = "meta"    // hash: layout version, limits, expiry of the keys, epoch, counts

	// Where tenants share the name. See accounts.lua.
	Lanes   = "lanes"   // zset: the waiters, tenant by tenant
	Turns   = "turns"   // zset: which tenant is next
	Tenants = "tenants" // hash: the state of each tenant

	NumbersKey = "numbers" // zset: unit of a permit -> its number, where permits have numbers. See numbers.lua.
)

// Kinds are the kinds of keys in the order in which scripts get them.
var Kinds = [10]string{Owner, Queue, Timeout, Counter, Weight, Meta, Lanes, Turns, Tenants, NumbersKey}

// absent is the last part of a key that is never stored. In a cluster every script gets it, too: while a slot is being moved, Redis refuses a
// command of which it lacks some keys. It would let a script begin that lacks none, and break it off where it uses a key that it has emptied.
const absent = "absent"

// Layout is the version of the contents of the keys. A script uses the keys of no other.
const Layout = 2

// The fields of the key Meta, and those of the keys Weight and Tenants that are of no permit and no tenant.
const (
	MetaLayout     = "layout"
	MetaDeclared   = "declared"   // LimitSpec in effect, unless a limit is pinned
	MetaSince      = "since"      // server us at which it was first declared
	MetaPinned     = "pinned"     // limit set by hand
	MetaPinnedAt   = "pinned_at"  // server us of the last request for that
	MetaUntil      = "until"      // server ms at which the keys expire
	MetaEpoch      = "epoch"      // server us at which the current epoch began
	MetaFirst      = "first"      // the lowest token that may be of it
	MetaGraceUntil = "quiet"      // server ms at which its grace period ends
	MetaServer     = "server"     // identity of the server
	MetaPlain      = "plain"      // the limit in effect, while plain scripts may answer; with "+" behind it while there may be waiters
	MetaTenants    = "tenants"    // 1: tenants share the name
	MetaNumbered   = "numbered"   // 1: permits of the name have numbers
	MetaAhead      = "ahead"      // us by which the clock of the name is ahead of the server's
	MetaGranted    = "granted"    // permits granted
	MetaEarlier    = "earlier"    // of MetaGranted, those before the epoch
	MetaGrantedIn  = "granted_in" // the latest epoch before this one in which something was granted, and the last number then
	MetaAllIn      = "all_in"     // the token of the last permit that had all of several units
	MetaHighest    = "highest"    // the epoch, and the highest number granted in it
	MetaRestored   = "restored"   // the epoch, and of the holders restored in it the earliest confirmation, the latest grant, and the token of one with all of several units
	MetaExpired    = "lapsed"     // permits expired
	MetaMarkedAt   = "marked_at"  // two records of MetaGranted, each with its time, for the pace of the queue
	MetaMarked     = "marked"
	MetaBeforeAt   = "before_at"
	MetaBefore     = "before"

	WeightExtra = "extra" // units held beyond one per holder
	TenantsSum  = "all"   // of the key Tenants: generation, units held by all, newest token
)

// MetaFields are the fields of the key Meta besides MetaLayout, for tests.
var MetaFields = []string{
	MetaDeclared, MetaSince, MetaPinned, MetaUntil, MetaEpoch, MetaFirst, MetaGraceUntil, MetaServer, MetaGranted, MetaEarlier, MetaGrantedIn, MetaAllIn,
	MetaHighest, MetaRestored,
	MetaExpired, MetaAhead, MetaPinnedAt, MetaMarkedAt, MetaMarked, MetaBeforeAt, MetaBefore, MetaPlain, MetaTenants, MetaNumbered,
}

// CheckName returns why a name cannot be used, nil if it can.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name[0] == '}':
		return fmt.Errorf("the name %.40q starts with a closing brace, which would spread its keys over a cluster", name)
	case len(name) > MaxName:
		return fmt.Errorf("the name %.40q... has %d bytes, more than %d", name, len(name), MaxName)
	}
	return nil
}

// CheckPrefix returns why a prefix cannot be used, nil if it can: a brace before that of the name would be the hash tag.
func CheckPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("prefix %q contains a brace", prefix)
	}
	return nil
}

// Keyspace is where the keys and channels are in Redis, and which client makes the calls.
type Keyspace struct {
	Prefix   string // of every key and channel
	ClientID string
	Cluster  bool          // the keys of a name are in a slot, which may be moved to another server
	Grace    time.Duration // how long a server that may have lost state grants nothing new
}

// DefaultKeyspace is that of clients without a prefix of their own.
var DefaultKeyspace = Keyspace{Prefix: "fairsem"}

// Keys returns the keys of a name in the order of Kinds. Everything up to the first "}" is the hash tag, so
// all of them are in one slot. No two names share a key, because the suffixes differ.
func (k Keyspace) Keys(name string) (keys [len(Kinds)]string) {
	for i, kind := range Kinds {
		keys[i] = k.Key(name, kind)
	}
	return keys
}

// Key returns the key of one kind.
func (k Keyspace) Key(name, kind string) string { return k.Prefix + ":{" + name + "}:" + kind }

// NameOf returns the name to which a key of the given kind belongs.
func (k Keyspace) NameOf(key, kind string) (name string, ok bool) {
	name, found := strings.CutPrefix(key, k.Prefix+":{")
	name, ends := strings.CutSuffix(name, "}:"+kind)
	return name, found && ends && CheckName(name) == nil
}

// ParseKey returns the keyspace, the name and the kind of a key of any prefix. No prefix has a brace.
func ParseKey(key string) (k Keyspace, name, kind string, ok bool) {
	k.Prefix, _, _ = strings.Cut(key, ":{")
	kind = key[strings.LastIndexByte(key, ':')+1:]
	name, ok = k.NameOf(key, kind)
	if !ok || k.Prefix == "" || CheckPrefix(k.Prefix) != nil || !slices.Contains(Kinds[:], kind) {
		return Keyspace{}, "", "", false
	}
	return k, name, kind, true
}

// escapePattern escapes the characters that are special in a pattern.
var escapePattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// EveryName is a SCAN pattern that matches one key of each name. It can match other keys, too.
func (k Keyspace) EveryName() string { return escapePattern.Replace(k.Prefix) + ":{*}:" + Meta }

// EveryKey is a SCAN pattern that matches all keys of all names. It can match other keys, too.
func (k Keyspace) EveryKey() string { return escapePattern.Replace(k.Prefix) + ":{*}:*" }

// AnyKey is a SCAN pattern that matches the keys of one kind, of all names of all prefixes. It can match other keys, too.
func AnyKey(kind string) string { return "*:{*}:" + kind }

// WakePrefix plus a client id is the channel on which that client is notified of its grants.
func (k Keyspace) WakePrefix() string { return k.Prefix + ":wake:" }

// WatchChannel is a channel to which nothing is published.
func (k Keyspace) WatchChannel() string { return k.Prefix + ":watch" }

// LabelKey holds the label that operators see beside the permits of a client.
func (k Keyspace) LabelKey(clientID string) string { return k.Prefix + ":client:" + clientID }

// EvictedKey holds the label of the client that evicted a permit or waiter.
func (k Keyspace) EvictedKey(id string) string { return k.Prefix + ":evicted:" + id }

// TicketID is the permit id of the client's seq-th ticket, which is on the account of a tenant: client, seq and tenant, with ":"
// between them. Without a tenant it ends with the seq. Behind the seq is "#" if its units have numbers.
func (k Keyspace) TicketID(seq int64, tenant string, numbered bool) string {
	id := k.ClientID + ":" + strconv.FormatInt(seq, 10)
	if numbered {
		id += "#"
	}
	if tenant == "" {
		return id
	}
	return id + ":" + tenant
}

// ClientOf returns the client id in a permit id. No client id contains ":".
func ClientOf(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}

// TenantOf returns the tenant in a permit id.
func TenantOf(id string) string {
	_, rest, _ := strings.Cut(id, ":")
	_, tenant, _ := strings.Cut(rest, ":")
	return tenant
}
