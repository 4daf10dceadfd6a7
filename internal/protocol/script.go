package protocol

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/scripts"
)

// Script is the script of one verb. Its text is put together when a process first uses it: one that is soon done uses few or none.
type Script struct {
	Verb      string
	Arguments []string // the arguments in ARGV before the ids, by their names in the Lua
	keys      []int    // which of Kinds it gets
	plain     Plain    // what the name is after a call of a plain script that does not say; NotPlain: it is a full script
	source    func() source
}

// A source identifies a script in a command: its text, or the hash by which Redis caches it.
type source struct {
	hash      any // a string, converted to any once instead of at each call
	hex, text []byte
}

func newSource(text []byte) source {
	sum := sha1.Sum(text)
	hash := hex.EncodeToString(sum[:])
	return source{hash, []byte(hash), text}
}

// Hash is that by which Redis caches the script.
func (s *Script) Hash() string { return s.source().hash.(string) }

// KeysOf are the keys of a name that the script gets, but for that which every call gets in a cluster.
func (s *Script) KeysOf(k Keyspace, name string) []string { return s.keysAmong(k.Keys(name)) }

// keysAmong returns those of all keys that the script gets. Those of several scripts share the text.
func (s *Script) keysAmong(all [len(Kinds)]string) []string {
	own := make([]string, len(s.keys))
	for i, kind := range s.keys {
		own[i] = all[kind]
	}
	return own
}

// Text is the script itself.
func (s *Script) Text() string { return string(s.source().text) }

// Source returns the argument that identifies the script in a command: its hash or, for a server that has not cached it, its text. It must
// not be changed.
func (s *Script) Source(withText bool) []byte {
	if withText {
		return s.source().text
	}
	return s.source().hex
}

// Scripts are all that know every case.
var Scripts = []*Script{
	AcquireScript, ReleaseScript, RefreshScript, ReduceScript, RestoreScript, ResizeScript, EvictScript, StatusScript, PageScript,
	TenantsScript,
}

// PlainScripts are the short forms of some of them.
var PlainScripts = []*Script{PlainAcquireScript, PlainReleaseScript, PlainQueueScript, PlainTenantsScript, PlainTenantsAcquireScript, PlainTenantsReleaseScript, PlainNumbersAcquireScript, PlainNumbersReleaseScript, PlainRefreshScript}

// everyKind are the indexes of Kinds.
var everyKind = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

// newScript returns the script of a verb that has these arguments of its own.
func newScript(verb string, own ...string) *Script {
	return plainScript(verb, NotPlain, everyKind, slices.Concat(sharedArguments, own)...)
}

// plainScript returns a script that gets some of the keys, and has these arguments only.
func plainScript(verb string, plain Plain, keys []int, arguments ...string) *Script {
	return &Script{verb, arguments, keys, plain, sync.OnceValue(func() source { return newSource(scripts.Text(verb)) })}
}

// A script is sent exactly once: go-redis must not resend it after a lost reply, as the client could not know
// the outcome of that operation.
type (
	// Numbers is a script call that replies with a list of numbers.
	Numbers struct{ *redis.IntSliceCmd }
	// Values is one that replies with a list of anything.
	Values struct{ *redis.SliceCmd }
)

// NoRetry has go-redis send the command once.
func (Numbers) NoRetry() bool { return true }

// NoRetry has go-redis send the command once.
func (Values) NoRetry() bool { return true }

// MaxIDs is the most ids that one call carries. Together with BOUND in semaphore.lua it bounds how long a call blocks the
// server. See "The longest calls" in docs/performance.md for measurements.
const MaxIDs = 150

// MaxRenewals is the most ids that one call of PlainRefreshScript carries: it removes and grants nothing.
const MaxRenewals = 1000

// MaxIDsOfTenants is the most ids that one call carries if it names tenants: each may be another's.
const MaxIDsOfTenants = MaxIDs / 3

// MaxUnits bounds limits and weights: Lua counts in doubles, which are exact up to here.
const MaxUnits = 1<<53 - 1
