// Package fairsem provides a distributed, weighted, strictly first-in-first-out semaphore backed by Redis. It limits how many
// units of something are in use at once, in all processes and on all machines together. It is for a cluster what
// golang.org/x/sync/semaphore is for one process; [Weighted] has the methods of that package.
//
//	client, err := fairsem.New(redisClient, fairsem.Options{})
//	api, err := client.Semaphore("payments-api", 20) // at most 20 at once, in the whole cluster
//	...
//	permit, err := api.Acquire(ctx, 1) // first come, first served
//	if err != nil {
//		return err
//	}
//	defer permit.Release(ctx)
//	call(permit.Context()) // ends when the permit may no longer be relied on
//
// [Client.Mutex] and [Client.RWMutex] are locks built on a semaphore. [Client.Limiter] limits how often something happens
// instead of how many at once. What follows about permits holds for locks, too. [Client.Inspect] shows what is held under a
// name and changes it.
//
// # What is not promised
//
// A permit is a lease. Its context ends before Redis can grant its units to another caller. But a process that is paused
// (stopped, swapped out, its machine suspended) does not see its context end. What it does when it continues, or sent
// before, may collide with the work of the next holder. Where that matters, let the store that is written to refuse
// any fencing token lower than one it has seen: see [Permit.Token]. [Permit.Context] says when the loss is reported after a
// machine was suspended.
//
// A virtual machine that its host pauses may notice nothing. One that is cloned from a live snapshot shares its client id
// with its twin, and both rely on the same permits. Create Clients after cloning.
//
// A server may forget what it granted: all of it after a restart without persistence, the most recent part after a failover.
// The processes that are connected restore it before the server grants anything new: see Loss of state. A holder
// that is stopped or disconnected at that time cannot. Until its lease ends, more units than the limit may then be in use,
// unless [Options.Grace] is as long as the TTL. What is deleted from a running server is restored only as far as it still
// fits. Servers that accept writes in two places at once are not supported. Neither is an eviction policy that may
// delete the keys: use noeviction.
//
// Leases are measured by the clock of the Redis server. A step forward by more than a tenth of a TTL ends leases on which
// holders still rely, unless they renew them first. A holder that renews in time survives a step of two thirds of its TTL, less
// the time a renewal takes. Fencing tokens come from that clock, too: after a loss of all state they increase only if
// the clock is not behind the one that gave the last tokens.
//
// # What is promised
//
// Safety. The units in use never exceed the limit, neither on the server nor, by the contexts of the permits, in all processes
// together. Only the owner of a permit can release or renew it. An operation that is delivered several times counts once. If
// the position of one call in the queue was confirmed before another call began, the first is granted first, whatever
// their weights. Fencing tokens increase with every grant on a name. When Acquire returns a permit, it is valid for at least
// another tenth of its TTL. A holder is notified of a loss before its units can be granted to anyone else. [Inspector.Evict] is the
// exception: the units are free immediately, and the holder is notified right after. No two names interfere. A script that
// fails half-way grants nothing, and what it left behind expires. Without an answer from Redis nothing is granted.
//
// Liveness. The units of a process that was killed are granted again within a TTL and half a second, however many dead
// waiters are at the head of the queue. Waiters are notified by a message; if all messages are lost, by their
// next renewal, at most a third of a TTL later. Acquire returns within 50 ms of the end of its context, whatever the
// network does. A flushed script cache goes unnoticed. Once a name is idle, only a limit set by hand stays in Redis. Close
// returns within 10 s and the time that the observer takes. No goroutine is left after it, unless its error says
// that go-redis has not returned.
//
// # What is in Redis
//
// Each name has six keys, all with the hash tag {name}, so that a cluster keeps them in one slot:
//
//	fairsem:{name}:owner    zset    permit id -> fencing token: the holders
//	fairsem:{name}:queue    zset    permit id -> position number: the waiters
//	fairsem:{name}:timeout  zset    permit id -> deadline in ms: of both, and of tombstones
//	fairsem:{name}:counter  string  the last number given out
//	fairsem:{name}:weight   hash    permit id -> weight, where it is not 1
//	fairsem:{name}:meta     hash    layout version, limits, expiry of the keys, epoch, counts
//
// Each process has one key, fairsem:client:<client id>, with its label. For 20 s after an eviction there is
// fairsem:evicted:<permit id>, with the label of the process that asked for it.
//
// Only scripts change the six keys. Every script that changes something first removes expired entries, then grants from the head of
// the queue for as long as the head fits. That is the fairness rule; it is the function promote in scripts/queue.lua. A fast path
// skips both where no call waits and there is room, because they would change nothing that matters.
//
// # Time
//
// Only the server's clock counts for deadlines and numbers. A number is the server's time in microseconds, or one more than
// the last number if that is larger. So a position says since when a call waits and a token since when a permit is
// held, and both still increase after a loss of all state. If the clock is stepped back by more than a second, numbers go on from the
// last one; how far they are ahead of the clock is stored with the name.
//
// The client measures how long it may trust a lease on its own monotonic clock, from before it sent the question that Redis
// answered. Neither a slow answer nor a wrong clock makes it trust a lease for too long. It counts the time for which the
// machine was suspended, while the monotonic clock stands still. On Linux it reads CLOCK_BOOTTIME for that. Elsewhere every
// jump of the wall clock forward counts as a suspension, which can end a permit early.
//
// # The life of a permit
//
// Each call of Acquire creates an id that is used once. It asks under that id, and Redis adds the id to the holders or to the queue.
// While the id waits or holds, its process renews it every third of a TTL, all ids of a name in one call. A release
// that frees units grants them to the head of the queue and publishes a message on the channel of the process concerned.
// The message contains the position number, which is known to that process and to those who may read the queue. When an answer is lost, the outcome
// is unknown, and the process asks again under the same id: scripts are idempotent. When it gives such an id up, a
// tombstone stays for a TTL, so that a late copy of the question is refused. When part of a permit is released, Redis
// learns how many units the id keeps, which can only decrease.
//
// # Rate limits
//
// A [Limiter] is the same engine with one more rule: a grant is never released. It expires one window after it was made,
// like a lease that is not renewed. So no message is needed to wake a waiter: every answer says when its turn comes, and it
// asks again then. Deadlines are whole milliseconds and are rounded up, so a window is never too short, and up to a
// millisecond too long.
//
// # Limits by hand
//
// [Inspector.SetLimit] stores a limit beside the declared one and above it, until [Inspector.ResetLimit]. The time of the
// request is stored with it, so that no late copy of an earlier request replaces a later limit. [Inspector.Evict] removes an id
// but leaves its deadline as a tombstone. Its process, which a message makes ask at once, sees from it that the lease
// did not expire.
//
// # Loss of state
//
// Each name records the identity of the server that stores it, the replication id of INFO. That changes with every start and
// every promotion, so a failover and the failover back are three servers. Every script that can grant something compares it,
// whichever process calls; showing a name changes nothing. When the identity changes, a new epoch starts, and for
// [Options.Grace] nothing new is granted: calls wait in the queue, TryAcquire waits, too. The same happens where the server does not
// have a name that the caller has used before, or where it replaced a server that the caller knew. For other callers
// such a name is new, unless the server was started within the grace period; the time for which a server loads a file
// counts as time since its start.
//
// A client that sees a connection break checks everything it has at once. It keeps one connection open only to see it break.
// While it cannot, it checks three times in each grace period, unless a right is missing. Every answer contains the epoch.
// In a new epoch the client restores what is missing, with its token or position. During the grace period
// holders are restored even above the limit: surplus entries of an old file expire, and until then nothing is granted. Within
// one epoch nothing is restored: what is missing has expired or was removed. With [Options.WaitReplicas] a grant or a
// renewal counts only once that many replicas have it.
package fairsem
