package protocol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// LimitSpec is the declaration of a handle: a limit, and for a rate how long a grant counts.
type LimitSpec struct {
	Limit  int64
	Window time.Duration // in whole milliseconds; 0: until it is released
}

func (q LimitSpec) arg() any {
	if q.Window == 0 {
		return q.Limit
	}
	return fmt.Sprintf("%d/%d", q.Limit, q.Window.Milliseconds())
}

// Declaration is a LimitSpec, when this client first used it, and the knowledge of the client.
type Declaration struct {
	Spec    LimitSpec
	Since   int64        // the server's time of the first use, in microseconds; 0: it is not known yet
	First   time.Time    // if Since is 0, when that was by the clock of this process; zero: it is this call
	Nothing bool         // the call declares no limit
	Knows   string       // see UsedBefore
	Tenants []TenantSpec // of an acquire or a restore: whose permits it is about, where they declare anything
}

// TenantSpec is the declaration of a call for a tenant.
type TenantSpec struct {
	Name         string
	Share, Limit int64
	After        time.Duration // from the first use of the limit to that of the share and limit of the tenant; may be negative
}

// MaxTenant is the most bytes that the name of a tenant may have.
const MaxTenant = 128

// MaxShare bounds the share of a tenant.
const MaxShare = 1_000_000

// addTenants adds how many tenants a call declares, whether its units have numbers, and then the tenants.
func (c *Call) addTenants(declared []TenantSpec, numbered bool) {
	c.Args = append(c.Args, len(declared), numbered)
	c.addSpecs(declared)
}

func (c *Call) addSpecs(declared []TenantSpec) {
	for _, t := range declared {
		c.Args = append(c.Args, t.Name, t.Share, t.Limit, t.After.Microseconds())
	}
}

// The knowledge of a caller. If it has had a reply about the name, it knows that the name was lost when the server does not
// know it. Otherwise it knows servers only: for longer than the grace period, or not.
const (
	UsedBefore  = "*"
	KnownServer = "%012x!"
	NewServer   = "%012x?"
)

func (d Declaration) sinceArg() any {
	switch {
	case d.Nothing:
		return ""
	case d.Since == 0 && d.First.IsZero():
		return "ago 0"
	case d.Since == 0:
		return ago(d.First)
	}
	return d.Since
}

// ago is an argument that says how long ago a moment is.
type ago time.Time

// MarshalBinary returns that as of now. go-redis calls it whenever it writes the command, so what comes before does not count: dialling, and
// a round trip in which the server asked for the text of the script.
func (a ago) MarshalBinary() ([]byte, error) { return []byte(a.String()), nil }

func (a ago) String() string {
	return "ago " + strconv.FormatInt(time.Since(time.Time(a)).Microseconds(), 10)
}

func (d Declaration) knowsArg() any {
	if d.Knows == UsedBefore { // as in most calls
		return usedBefore
	}
	return d.Knows
}

var usedBefore any = UsedBefore // converted once instead of at each call

// CallPrefix is the common part of all calls for a name.
type CallPrefix struct {
	begin []any // the number of keys, the keys, and the caller
	grace any   // an int64, in ms; see Keyspace

	plain [][]any // the beginning of a call of each of PlainScripts: EVALSHA, the hash, the keys, and for some the caller
}

// About returns the common part of all calls for a name.
func (k Keyspace) About(name string) CallPrefix {
	keys, guard := k.Keys(name), k.guard(name)
	about := CallPrefix{begin: append(keyArgs(keys[:], guard), k.ClientID, k.WakePrefix()), grace: k.Grace.Milliseconds()}
	for _, s := range PlainScripts {
		plain := append([]any{"evalsha", s.source().hash}, keyArgs(s.keysAmong(keys), guard)...)
		if slices.Contains(s.Arguments, "caller") {
			plain = append(plain, k.ClientID, k.WakePrefix())
		}
		about.plain = append(about.plain, plain)
	}
	return about
}

// guard is the key that each call gets behind the others: none, except in a cluster.
func (k Keyspace) guard(name string) []string {
	if !k.Cluster {
		return nil
	}
	return []string{k.Key(name, absent)}
}

// keyArgs are the number of keys that a script gets, and the keys.
func keyArgs(keys, guard []string) []any {
	args := []any{len(keys) + len(guard)}
	for _, key := range slices.Concat(keys, guard) {
		args = append(args, key)
	}
	return args
}

// Call is one script to run, with the arguments of its command: EVALSHA, the hash, and the rest.
type Call struct {
	Script *Script
	Args   []any
}

// MustSurvive reports whether a failover must not undo c: it acquires, renews or restores. A release need not survive: at worst the units
// stay in use until the lease ends.
func (c Call) MustSurvive() bool {
	switch c.Script {
	case AcquireScript, RefreshScript, RestoreScript, PlainAcquireScript, PlainNumbersAcquireScript, PlainTenantsAcquireScript, PlainRefreshScript:
		return true
	case PlainQueueScript, PlainTenantsScript:
		return c.Script.Argument(c.Args, "count") != 0 // else it is a release
	}
	return false
}

// sharedArguments are the arguments that newCall gives every script.
var sharedArguments = []string{"caller", "wake", "spec", "since", "lease", "grace", "knows"}

// newCall returns a call with the arguments that every script has, and capacity for room more.
func (s CallPrefix) newCall(run *Script, d Declaration, lease time.Duration, room int) Call {
	args := make([]any, 0, len(s.begin)+7+room)
	args = append(args, "evalsha", run.source().hash)
	args = append(args, s.begin...)
	return Call{run, append(args, d.Spec.arg(), d.sinceArg(), lease.Milliseconds(), s.grace, d.knowsArg())}
}

// Argument returns the argument of that name in the arguments of a command that runs the script.
func (s *Script) Argument(args []any, name string) any {
	return args[firstKey+args[keyCount].(int)+slices.Index(s.Arguments, name)]
}

// Caller returns the client id in a command that runs a script, empty if it is no such command.
func Caller(command []string) string {
	if len(command) <= keyCount {
		return ""
	}
	n, err := strconv.Atoi(command[keyCount])
	if err != nil || n < len(Kinds) || n > len(Kinds)+1 || len(command) <= firstKey+n { // a plain script gets fewer keys, even with absent
		return ""
	}
	return command[firstKey+n]
}

// In a command that runs a script, behind EVALSHA and the hash, or EVAL and the text.
const (
	keyCount = 2
	firstKey = 3
)

// Command returns the call as a command for a pipeline. With withText it sends the script itself, for a server that has
// not cached it.
func (c Call) Command(withText bool) redis.Cmder {
	args := c.Args
	if withText {
		args = slices.Clone(args)
		args[0], args[1] = "eval", c.Script.Text()
	}
	if c.Script == PageScript || c.Script == TenantsScript {
		return Values{redis.NewSliceCmd(context.Background(), args...)}
	}
	return Numbers{redis.NewIntSliceCmd(context.Background(), args...)}
}
