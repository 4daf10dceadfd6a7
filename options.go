package fairsem

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	defaultPrefix = "fairsem"
	defaultTTL    = 10 * time.Second
	minTTL        = 100 * time.Millisecond
	maxTTL        = 24 * time.Hour
	defaultGrace  = time.Second
	maxLabel      = 256                  // bytes
	maxHeadStart  = 366 * 24 * time.Hour // keeps position numbers positive
)

// Options configure a Client. The zero value is the documented default.
type Options struct {
	// Prefix begins every key and channel; "fairsem" if empty. It must not contain "{" or "}". Clients with different prefixes
	// are independent of each other.
	Prefix string

	// TTL is the length of a lease: 10 s if zero, else 100 ms to 24 h. The units of a process that was killed are free
	// again after at most one TTL. A process that cannot reach Redis loses its permits after nine tenths of it.
	TTL time.Duration

	// Label is what operators see beside a permit, at most 256 bytes; "<hostname>:<pid>" if empty.
	Label string

	// Logger receives a record for every Event; see [Event] for messages and levels. What a call cannot return is at Warn or
	// Info, the rest at Debug. Its handler is called like an [Observer] and before it; only Enabled is called by every
	// caller. If nil, nothing is logged.
	Logger *slog.Logger `json:"-"`

	// Observer receives every [Event] itself. If nil, events cost nothing.
	Observer Observer `json:"-"`

	// WaitReplicas is how many replicas must acknowledge a grant or a renewal before it counts. Permits then survive
	// the failover to such a replica. While fewer replicas answer, nothing is granted. It costs a round trip between
	// Redis servers. In a cluster it counts the replicas of the primary.
	WaitReplicas int

	// Grace is how long a server that may have lost state, by a restart or a failover, grants nothing new, so that clients
	// can restore what they have. If zero it is 1 s, or the TTL where that is shorter; at most the TTL.
	//
	// One second is enough for a holder that sees its connection to that server break. It takes 5 s where a replica takes over
	// in a cluster, because go-redis may search for the new primary for that long. A holder that does not see the break, because it
	// is stopped or disconnected, or because the server hangs instead of dying, notices at its next renewal, within half a
	// TTL, or when its lease ends. With a grace period of a whole TTL no units are granted beside it.
	//
	// A server that was just started counts as one that lost state, so the first calls after its start wait for up to a second more
	// than Grace, in a cluster three. That holds for TryAcquire, too, and such calls count for MaxQueue. It also holds, for
	// a name that it does not have, for a server that took over from another, until this client has known it for that long.
	// All processes should have the same Grace.
	Grace time.Duration
}

func (o Options) check(rdb redis.UniversalClient) error {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return errors.New("the Redis client is nil")
	}
	if _, ring := rdb.(*redis.Ring); ring {
		return errors.New("a redis.Ring moves names to other servers when one fails, and limits with them")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return fmt.Errorf("prefix %q contains a brace", o.Prefix)
	}
	if len(o.Label) > maxLabel {
		return fmt.Errorf("label of %d bytes is longer than %d", len(o.Label), maxLabel)
	}
	if o.TTL != 0 {
		if err := checkTTL(o.TTL); err != nil {
			return err
		}
	}
	if o.WaitReplicas < 0 {
		return fmt.Errorf("WaitReplicas %d is below 0", o.WaitReplicas)
	}
	if ttl := cmp.Or(o.TTL, defaultTTL); o.Grace < 0 || o.Grace > ttl {
		return fmt.Errorf("grace %v is not between 0 and the TTL, %v", o.Grace, ttl)
	}
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return fmt.Errorf("TTL %v is not between %v and %v", ttl, minTTL, maxTTL)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	if o.Grace == 0 {
		o.Grace = min(defaultGrace, o.TTL)
	}
	if o.Label == "" {
		host, _ := os.Hostname() // a machine without a name is ":pid"
		pid := ":" + strconv.Itoa(os.Getpid())
		o.Label = host[:min(len(host), maxLabel-len(pid))] + pid
	}
	return o
}
