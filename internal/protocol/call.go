package protocol

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// LimitSpec is what a handle declares: a limit, and for a rate how long a grant counts.
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

// Declaration is a LimitSpec and when this client first used it: the server's time in microseconds or, if that is not
// known yet, minus the microseconds that have passed since. Since is DeclareNothing in a call that only queries.
type Declaration struct {
	Spec  LimitSpec
	Since int64
	Knows string // see UsedBefore
}

// DeclareNothing is the Since of a call that declares no limit.
const DeclareNothing = math.MinInt64

// What a caller knows. If it has had a reply about the name, it knows that the name was lost when the server does not
// know it. Otherwise it knows servers only: for longer than the grace period, or not.
const (
	UsedBefore  = "*"
	KnownServer = "%012x!"
	NewServer   = "%012x?"
)

func (d Declaration) sinceArg() any {
	if d.Since == DeclareNothing {
		return ""
	}
	return d.Since
}

// CallPrefix is what all calls for a name have in common.
type CallPrefix struct {
	begin      []any         // the number of keys, the keys, and the caller
	grace      time.Duration // see Keyspace
	usedBefore any           // the grace argument of most calls: the name was used before
}

// About returns what all calls for a name have in common.
func (k Keyspace) About(name string) CallPrefix {
	keys := k.Keys(name)
	begin := []any{len(keys)}
	for _, key := range keys {
		begin = append(begin, key)
	}
	return CallPrefix{append(begin, k.ClientID, k.WakePrefix()), k.Grace, graceArg(k.Grace, UsedBefore)}
}

// Call is one script to run, with the arguments of its command: EVALSHA, the hash, and what follows.
type Call struct {
	Script *Script
	Args   []any
}

// sharedArguments are those that newCall gives every script.
var sharedArguments = []string{"caller", "wake", "spec", "since", "lease", "grace"}

// newCall returns a call with the arguments that every script has, and capacity for room more.
func (s CallPrefix) newCall(run *Script, d Declaration, lease time.Duration, room int) Call {
	args := make([]any, 0, len(s.begin)+6+room)
	args = append(args, "evalsha", run.Hash)
	args = append(args, s.begin...)
	return Call{run, append(args, d.Spec.arg(), d.sinceArg(), lease.Milliseconds(), s.graceArg(d.Knows))}
}

func (s CallPrefix) graceArg(knows string) any {
	switch knows {
	case "":
		return s.grace.Milliseconds()
	case UsedBefore:
		return s.usedBefore
	}
	return graceArg(s.grace, knows)
}

func graceArg(grace time.Duration, knows string) string {
	return strconv.FormatInt(grace.Milliseconds(), 10) + " " + knows
}

// Command returns the call as a command for a pipeline. With withText it sends the script itself, for a server that has
// not cached it.
func (c Call) Command(withText bool) redis.Cmder {
	args := c.Args
	if withText {
		args = slices.Clone(args)
		args[0], args[1] = "eval", c.Script.Text
	}
	if c.Script == PageScript {
		return Values{redis.NewSliceCmd(context.Background(), args...)}
	}
	return Numbers{redis.NewIntSliceCmd(context.Background(), args...)}
}
