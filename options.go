package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
)

const (
	defaultTTL   = 10 * time.Second
	minTTL       = 100 * time.Millisecond
	maxTTL       = 24 * time.Hour
	defaultGrace = time.Second
	maxLabel     = 256                  // bytes
	maxHeadStart = 366 * 24 * time.Hour // keeps position numbers positive
)

// Options configure a Client. The zero value is the documented default.
type Options struct {
	// Prefix begins every key and channel; "fairsem" if empty. It must not contain "{" or "}". Clients with different prefixes
	// are independent of each other.
	Prefix string

	// TTL is the length of a lease: 10 s if zero, else 100 ms to 24 h. The units of a process that was killed are granted again
	// within a TTL and half a second. Without a renewal a permit is lost after nine tenths of it.
	TTL time.Duration

	// Label is the text that operators see beside a permit, at most 256 bytes; "<hostname>:<pid>" if empty.
	Label string

	// Logger receives a record for every Event; see [Event] for messages and levels. Events that no call can return are at Warn or
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
	// can restore their permits and positions. If zero it is 1 s, or the TTL where that is shorter; at most the TTL.
	//
	// One second is enough for a holder that sees its connection to that server break. It takes 5 s where a replica takes over in
	// a cluster, because go-redis may search for the new primary for that long. A holder that does not see the break, because it
	// is stopped or disconnected, or because the server hangs instead of dying, notices at its next renewal, within half a TTL,
	// or when its lease ends. With a grace period of a whole TTL, nothing is granted while such a holder still relies on its
	// permit, unless it has a longer CallOptions.TTL.
	//
	// With more than 5000 names that are in use at once on a server, choose a second more for each 5000: restoring them takes that long.
	//
	// A server that was just started counts as one that lost state, so the first calls after its start wait for up to a second
	// more than Grace, in a cluster three. This includes TryAcquire, and such calls count towards MaxQueue. After a failover
	// the same wait applies to names that the new server does not have, until this client has known it for that long. All
	// processes should have the same Grace, the command included, which has --grace: the first write after a loss determines
	// it.
	Grace time.Duration
}

func (o Options) check(rdb redis.UniversalClient) error {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return errors.New("the Redis client is nil")
	}
	switch rdb.(type) {
	case *redis.Ring:
		return errors.New("a redis.Ring moves names, and their limits with them, to other servers when one fails")
	case *redis.AutoPipeliner:
		return errors.New("a redis.AutoPipeliner hides whether it wraps a cluster client: pass that client instead; fairsem makes its own pipelines")
	}
	if err := protocol.CheckPrefix(o.Prefix); err != nil {
		return err
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
		o.Prefix = protocol.DefaultKeyspace.Prefix
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

// CallOptions change how a call behaves. The zero value changes nothing. With a number or a duration below 0, calls return [ErrInvalid].
type CallOptions struct {
	// HeadStart adds the call to the queue as if it had come this much earlier, by 366 days at most. It is a priority that
	// starves no other call: a call that has waited longer than that is granted first all the same. It has no effect on a call
	// that does not wait.
	HeadStart time.Duration

	// MaxQueue, if above 0, bounds the queue: if that many calls wait already, Acquire returns ErrQueueFull. Where tenants share
	// the name, only waiters of the same tenant count. After a loss of state, positions are restored even beyond MaxQueue, and if
	// Redis starts from an old file, calls in it that no longer wait count for up to a TTL.
	MaxQueue int64

	// MaxWait, if above 0, is how long a call waits before it returns ErrNotAcquired. The context of the call can then be that
	// of the work that follows, as in Do. If Redis has not answered by then, the error is ErrUnavailable, too.
	MaxWait time.Duration

	// TTL replaces Options.TTL, unless it is zero.
	TTL time.Duration

	// NoRefresh turns off renewals: the permit ends after nine tenths of its TTL. Redis grants the units again after a TTL. It
	// is not queried either, except when a connection breaks or cannot be made, or when another server answers.
	NoRefresh bool

	// Tenant is the customer, queue or user that the units are charged to. Tenants share the limit fairly, however many calls of
	// each wait: of the tenants that wait, the one that holds the fewest units per Share is granted next, and among its calls the
	// first. A tenant can have all units that no other tenant wants, and nothing is taken from a holder. The empty Tenant is one
	// like any other. At most 128 bytes, any bytes.
	Tenant string

	// Share is the weight of the Tenant beside others: a tenant with a share of 2 gets twice the units of one with a share of 1
	// while both have waiting calls. 1 if 0; at most 1,000,000.
	Share int64

	// TenantLimit, if above 0, is the most units that the Tenant may hold at once. While it holds them its calls wait, and hold up no
	// other tenant.
	//
	// Share and TenantLimit belong to the tenant of that name. As with limits, what a process declared last stands, and each call of the
	// tenant declares both: one without a TenantLimit removes it.
	TenantLimit int64

	// Numbered gives each unit of the permit a number, the lowest that is free: see [Permit.Number]. Calls with and without it can
	// share a name; the units of the others have no numbers. For a Limiter, and for more than 1,000 units, which includes the writer
	// of an RWMutex, the error is ErrInvalid. The units of a Weighted have numbers that only an Inspector shows.
	Numbered bool
}

// latest is when the wait of a call that began at asked is over; zero: never.
func (o CallOptions) latest(asked time.Time) time.Time {
	if o.MaxWait == 0 {
		return time.Time{}
	}
	return asked.Add(o.MaxWait)
}

// cutShort is latest, or the deadline of ctx if that comes first.
func (o CallOptions) cutShort(ctx context.Context, asked time.Time) time.Time {
	latest := o.latest(asked)
	if deadline, ok := ctx.Deadline(); ok && (latest.IsZero() || deadline.Before(latest)) {
		return deadline
	}
	return latest
}

func (o CallOptions) check() error {
	if o.HeadStart < 0 || o.HeadStart > maxHeadStart {
		return fmt.Errorf("%w: HeadStart %v is not between 0 and %v", ErrInvalid, o.HeadStart, maxHeadStart)
	}
	if o.MaxQueue < 0 || o.MaxQueue > protocol.MaxUnits {
		return fmt.Errorf("%w: MaxQueue %d is not between 0 and %d", ErrInvalid, o.MaxQueue, int64(protocol.MaxUnits))
	}
	if o.MaxWait < 0 {
		return fmt.Errorf("%w: MaxWait %v is below 0", ErrInvalid, o.MaxWait)
	}
	if o.TTL != 0 {
		if err := checkTTL(o.TTL); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return o.checkTenant()
}

func (o CallOptions) checkTenant() error {
	switch {
	case len(o.Tenant) > protocol.MaxTenant:
		return fmt.Errorf("%w: Tenant %.40q... has %d bytes, more than %d", ErrInvalid, o.Tenant, len(o.Tenant), protocol.MaxTenant)
	case o.Share < 0 || o.Share > protocol.MaxShare:
		return fmt.Errorf("%w: Share %d is not between 0 and %d", ErrInvalid, o.Share, protocol.MaxShare)
	case o.TenantLimit < 0 || o.TenantLimit > protocol.MaxUnits:
		return fmt.Errorf("%w: TenantLimit %d is not between 0 and %d", ErrInvalid, o.TenantLimit, int64(protocol.MaxUnits))
	}
	return nil
}

// account returns the tenant that a call is charged to, and its declaration for that tenant.
func (o CallOptions) account() account {
	if o.Tenant == "" && o.Share == 0 && o.TenantLimit == 0 {
		return account{}
	}
	return account{tenant: o.Tenant, share: max(1, o.Share), limit: o.TenantLimit}
}
