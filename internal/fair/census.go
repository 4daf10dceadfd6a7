package fair

import (
	"context"
	"iter"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Census is the holders and the waiters of a name, by the id of the Client: see [protocol.ClientOf].
type Census struct {
	Name        string
	Client      string    // of the pool
	Tenant      string    // of the pool
	Calls       int64     // of the pool: of the units that its Client waits for, those for at most so many are for it
	At          time.Time // of the answer
	Limit, Used int64
	TTL         time.Duration // at least two thirds of it; 0: no call waits, or none can be granted
	All         map[string]Process
}

const maxListed = 5000 // more holders, waiters or tenants are not counted

// Take asks Redis, for a pool that has the permit with that id. If no call waits, it lists none, and none where the name is
// paused: no call gets released units then.
//
// A released unit helps no waiter whose tenant is at its own limit, unless that tenant released it. So where that of the pool is at its
// limit, this is the census of that tenant alone; elsewhere such waiters do not count.
func (p *Pool) Take(ctx context.Context, name *fairsem.Inspector, id string) (Census, error) {
	ended := p.ended.Load()
	now, err := take(ctx, name, protocol.TenantOf(id))
	now.Client, now.Calls = protocol.ClientOf(id), p.begun.Load()-ended // that waited at any time meanwhile
	return now, err
}

func take(ctx context.Context, name *fairsem.Inspector, tenant string) (now Census, err error) {
	s, err := name.Status(ctx)
	now = Census{Name: name.Name(), Tenant: tenant, At: time.Now(), Limit: s.Limit, Used: s.Used, All: make(map[string]Process)}
	if err != nil || s.Waiting == 0 || s.Limit == 0 {
		return now, err
	}
	tenants := make(map[string]fairsem.Tenant)
	err = each(name.Tenants(ctx), func(t fairsem.Tenant) { tenants[t.Name] = t })
	if err != nil {
		return now, err
	}
	ours := tenants[tenant]
	alone := ours.Limit > 0 && ours.Used >= ours.Limit
	if alone {
		now.Limit, now.Used = ours.Limit, ours.Used
	}
	err = each(name.Waiters(ctx), func(t fairsem.Ticket) {
		if of := tenants[t.Tenant]; t.Tenant == tenant || !alone && (of.Limit == 0 || of.Used+t.Weight <= of.Limit) {
			now.add(t, Process{Waiting: t.Weight})
		}
	})
	if err != nil {
		return now, err
	}
	err = each(name.Holders(ctx), func(t fairsem.Ticket) {
		if t.Tenant == tenant || !alone {
			now.add(t, Process{Held: t.Weight})
			now.TTL = max(now.TTL, t.ExpiresIn)
		}
	})
	return now, err
}

func (c Census) add(t fairsem.Ticket, more Process) {
	one := c.All[protocol.ClientOf(t.ID)]
	c.All[protocol.ClientOf(t.ID)] = Process{one.Held + more.Held, one.Waiting + more.Waiting}
}

// each calls f with each listed item, and returns the error that ended the list: missing items of others would make this process's part
// too large.
func each[T any](list iter.Seq2[T, error], f func(T)) error {
	listed := 0
	for one, err := range list {
		if err != nil {
			return err
		}
		if listed++; listed > maxListed {
			break
		}
		f(one)
	}
	return nil
}

// OthersWait reports whether a call waits that is not of the pool: in another process, or for another pool of this one.
func (c Census) OthersWait() bool {
	for id, p := range c.All {
		if p.Waiting > 0 && (id != c.Client || p.Waiting > c.Calls) {
			return true
		}
	}
	return false
}

// firstPause is that before a check that knows no TTL.
const firstPause = time.Second

const (
	minPause = 20 * time.Millisecond
	maxPause = 30 * time.Second
)

// Pause is how long a pool waits for its next check while others wait.
func (c Census) Pause() time.Duration { return min(max(c.TTL/3, minPause), maxPause) }
