// Package fairsem provides a distributed, weighted, strictly first-in-first-out semaphore backed by Redis. It limits how many
// units of something are in use at once, in all processes and on all machines together. It does for many processes what
// golang.org/x/sync/semaphore does for one; [Weighted] has the methods of that package.
//
//	client, err := fairsem.New(redisClient, fairsem.Options{})
//	api, err := client.Semaphore("payments-api", 20) // at most 20 at once, in all processes together
//	...
//	permit, err := api.Acquire(ctx, 1) // first come, first served
//	if err != nil {
//		return err
//	}
//	defer permit.Release(ctx)
//	call(permit.Context()) // ends when the permit may no longer be relied on
//
// Calls may name a tenant, such as a customer: [CallOptions]. Then the limit is shared fairly between those that want it: the next
// grant goes to the tenant that holds the fewest units per unit of its Share, and among its calls to the first. docs/tenants.md
// has the rule.
//
// [Client.Mutex] and [Client.RWMutex] are locks built on a semaphore. [Client.Limiter] limits how often something happens
// instead of how many at once. [AcquireAll] acquires units of several names in one order, so that callers never
// wait for each other in a circle. The statements about permits below hold for locks, too. [Client.Inspect] shows the holders and
// waiters of a name, and changes its state.
//
// # What is not promised
//
// A permit is a lease. Its context ends before Redis can grant its units to another caller. But a process that is paused
// (stopped, swapped out, its machine suspended) does not see its context end. The calls that it makes when it continues, or has sent
// before, may collide with the work of the next holder. Where that matters, let the store that is written to refuse
// any fencing token lower than one it has seen: see [Permit.Token]. [Permit.Context] says when the loss is reported after a
// machine was suspended.
//
// With a limit above 1, a store cannot tell from a token alone whether the caller still holds its permit: several callers hold
// one, and the one with the lower token may be the one that remains. With [CallOptions].Numbered each unit has a number, and each
// number has one holder at a time. So a store that keeps the highest token of each number refuses late holders whatever the limit
// is: see [Permit.Numbers], and docs/fencing.md for it in SQL.
//
// A virtual machine that its host pauses may notice nothing. One that is cloned from a live snapshot shares its client id
// with its twin, and both rely on the same permits. Create Clients after cloning.
//
// A server may forget its grants: all of them after a restart without persistence, the most recent part after a failover. The
// processes that are connected restore them before the server grants anything new. A holder that is stopped or disconnected at
// that time cannot. Until its lease ends, more units than the limit may then be in use, unless [Options.Grace] is as long as
// the TTL. When the holder is back, its permit is lost if it no longer fits, if its own units, all of the limit or numbered
// ones, may have been granted since, or if another permit has had all units since. The same goes for the data of a name that
// is deleted from a running server. Where only some of its keys are, its permits may be lost, and their units granted before
// their holders notice. So an eviction policy that may delete the keys is not supported: use noeviction. Neither are servers
// that accept writes in two places at once.
//
// Leases are measured by the clock of the Redis server. A step forward by up to a tenth of a TTL ends no lease on which a
// holder relies; the windows of a [Limiter] are shorter by as much. A longer one ends leases on which holders still rely,
// unless they renew them first; a holder that renews in time survives one of two thirds of its TTL, less the time a renewal
// takes. Fencing tokens and positions come from that clock, too: if it is behind the clock that gave the last one, after a loss
// of all state or on a name that Redis has forgotten because it was idle, new tokens may be lower, and new calls may come
// before those that waited.
//
// # What is promised
//
// Safety. No grant exceeds the limit, by the count of the server, and by that of the permits whose contexts are live, in all
// processes together. A limit that is lowered revokes no permit: nothing is granted until enough units are released. Only the
// owner of a permit can release or renew it. An operation that is delivered several times counts once.
//
// If the position of one call in the queue was confirmed before another call of the same tenant began, the first is granted
// first, whatever their weights. The exceptions:
//
//   - the later call has a [CallOptions].HeadStart, which lets it overtake calls that came less than that long before it;
//   - the first gives up, or is evicted;
//   - its process or Redis is paused, or the two cannot reach each other, for two thirds of a TTL, so that its position expires;
//   - Redis loses state, and its position is restored only after the grace period;
//   - the limit of the name or of its tenant is set below its weight while it waits.
//
// While a tenant waits that holds less per unit of its share, and whose request could be granted, no other tenant is granted
// anything.
//
// Fencing tokens increase with every grant on a name. No two holders have the same number, and the tokens of each number
// increase. When Acquire returns a permit, it is valid for at least another tenth of its TTL. A holder is notified of a loss
// before its units can be granted to anyone else. [Inspector.Evict] is the exception: the units and their numbers are free
// immediately, and the holder is notified right after. No two names interfere. A script that fails half-way grants nothing, and
// its partial writes expire. Without an answer from Redis nothing is granted.
//
// Liveness. The units of a process that was killed are granted again within a TTL and half a second, however many dead waiters
// are at the head of the queue. Waiters are notified by a message; if all messages are lost, by their next renewal, at most a
// third of a TTL later. Acquire returns within 50 ms of the end of its context, whatever the network does. A flushed script
// cache goes unnoticed. Once a name is idle, only a limit set by hand stays in Redis. Close takes at most 10 s, and the time of
// the observer. No goroutine is left after it, unless its error says that go-redis, or a function given to OnLost, has not
// returned.
//
// # How it works
//
// The state is in up to ten keys for each name, all in one slot of a cluster, and only atomic scripts change them. Each removes
// expired entries first if there are any, and then grants from the head of the queue for as long as the head fits. A client
// renews its leases every third of a TTL, and counts each lease from just before it sent the request that Redis answered, on a
// monotonic clock that includes suspensions of the machine. The keys, time, identities and the restoring of lost state are in
// docs/protocol.md.
package fairsem
