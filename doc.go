// Package fairsem shares a limit between processes and machines, fairly, on Redis: at most so many
// units of something are in use at once, and whoever asks first gets in first. It is what
// golang.org/x/sync/semaphore is inside one process, for a cluster; [Weighted] has its methods.
//
//	client, err := fairsem.New(redisClient, fairsem.Options{})
//	api, err := client.Semaphore("payments-api", 20) // at most 20 at once, everywhere together
//	...
//	permit, err := api.Acquire(ctx, 1) // first come, first served
//	if err != nil {
//		return err
//	}
//	defer permit.Release(ctx)
//	call(permit.Context()) // ends when the permit may no longer be relied on
//
// [Client.Mutex] and [Client.RWMutex] are locks made of a semaphore: what is said of permits here holds
// for locks.
//
// # What is not promised
//
// A permit is a lease. The context of a permit ends before Redis can let the next one in, but a
// process that is paused (stopped, swapped out, its machine suspended) does not see its context end,
// and what it does when it goes on, or what it sent before, may meet the work of the next holder.
// Where that matters, have the store that is written to refuse a token lower than one it has seen:
// see [Permit.Token]. When a suspended machine wakes up, [Permit.Context] says when it reports the loss.
//
// A virtual machine that its host pauses may notice nothing of it. One that is cloned from a live snapshot
// shares the client id with its twin, and both rely on the same permits: make Clients after cloning.
//
// A server may forget what it granted: one restarted without persistence all of it, a primary that
// fails over the last of it. The processes that are connected put it back, before the server grants
// anything new: see Loss of state. A holder that is stopped or cut off meanwhile cannot, and more
// units than the limit may then be in use until its lease ends, unless [Options.Grace] is as long as
// the TTL. What is deleted from a running server is put back only as far as it still fits. Servers that
// accept writes in two places at once are not supported, and neither is an eviction policy that may
// drop the keys: use noeviction.
//
// Leases are counted on the clock of the Redis server. A step forward by more than a tenth of a TTL ends
// leases that their holders still rely on, unless they renew them first: a holder that renews in time
// survives a step of two thirds of its TTL, less what a renewal takes. Tokens come from that clock too:
// after all state was lost they increase only if it is not behind the one that the last tokens came from.
//
// # What is promised
//
// Safety. At most the limit is held at every moment, on the server and, by the contexts of the
// permits, in all processes together. Only its owner can release or renew a permit. An operation that
// is delivered several times counts once. If one call's place in line was confirmed before another
// call began, it is served first, whatever the weights. Tokens increase with every grant on a name.
// A permit is good for at least a tenth of its TTL when Acquire returns it. Its loss is told before
// the server lets the next one in, but for [Inspector.Evict], of which it is told at once. No two names interfere. A script that fails lets
// nobody in, and what it left half-done lapses. Without an answer from Redis nothing is granted.
//
// Liveness. The units of a process that was killed are granted again within a TTL and half a second,
// however many dead waiters stand at the head of the line. Waiters are woken by a message, and with
// all messages lost by their next refresh, a third of a TTL later at most. Acquire returns within
// 50 ms of the end of its context, whatever the network does. A flushed script cache is not noticed.
// Nothing but a pin stays in Redis for long when a name is idle. Close returns within 10 s and the time that the
// observer takes; no goroutine stays after it unless its error says that go-redis has not returned.
//
// # What is in Redis
//
// Six keys a name, all with the hash tag {name}, so that a cluster keeps them in one slot:
//
//	fairsem:{name}:owner    zset    permit id -> token: who holds
//	fairsem:{name}:queue    zset    permit id -> place in line: who waits
//	fairsem:{name}:timeout  zset    permit id -> deadline in ms: all of these
//	fairsem:{name}:counter  string  the last number given out
//	fairsem:{name}:weight   hash    permit id -> weight, where it is not 1
//	fairsem:{name}:meta     hash    layout version, limits, when the keys expire, epoch, counts
//
// and one for each process, fairsem:client:<client id>, its label, and for 20 s after an eviction
// fairsem:evicted:<permit id>, the label of who did it. The six are changed by scripts only.
// Each that changes something first removes expired entries, then grants from the head of the queue for as long as
// the head fits; that is the fairness rule, the function promote in scripts/line.lua. Where nobody waits and
// there is room, scripts skip both, for then they change nothing that matters to anybody.
//
// # Time
//
// Only the server's clock counts for deadlines and for numbers. A number is the server's time in
// microseconds, or one more than the last number if that is larger: a place in line says since when
// somebody waits, a token says since when somebody holds, and both still increase after all state was
// lost. After a step back of more than a second numbers go on with time from the last one: by how much they
// are ahead of the clock is stored with the name. The client measures its own trust in a lease on its monotonic clock, from before it sent the
// question that Redis answered, so neither a slow answer nor a clock that is wrong makes it trust too
// long. It counts the time in which the machine was suspended, when the monotonic clock stands still: on
// Linux that is read from CLOCK_BOOTTIME, and elsewhere every jump of the wall clock forward counts as a
// suspension, which can end a permit early.
//
// # The way of a permit
//
// Each call of Acquire makes an id that is used once. The id asks; Redis puts it among the holders or
// in line. While it waits or holds, its process renews it every third of a TTL, all ids of a name in
// one call. A release that makes room promotes the head of the line and publishes the news to the
// process concerned, on a channel of its own; the news names the place in line, which only Redis and
// that process know. An id whose fate is unknown, because an answer was lost, is asked for again with
// the same id: scripts are idempotent. When such an id is given up, a tombstone keeps its place for a
// TTL, so that a copy of the question that is still on its way finds it gone. Of a part that is given
// back Redis is told what the id keeps, which is only ever less.
//
// # Limits in time
//
// A [Limiter] is the same engine with one rule more: a grant is never given back, and lapses a window after
// it was made, by its deadline, like a lease that nobody renews. So whoever waits need not be woken by
// anybody: with each answer it hears when its turn comes, and looks then. Deadlines are whole milliseconds
// and round up, so a window is never too short, and up to a millisecond too long.
//
// # Limits by hand
//
// [Inspector.SetLimit] writes a limit beside the declared one, which stands above it until [Inspector.ResetLimit].
// The time of the request is stored with it, so that no late copy replaces a later limit.
// [Inspector.Evict] removes an id but for its deadline: its process, which a message tells to ask at once,
// finds that it did not lapse.
//
// # Loss of state
//
// Each name records which server stores it, by the replication id of INFO, which changes with every start and
// every promotion: a failover and the failover back are three servers. Every script that can grant something
// compares it, whoever calls; looking at a name changes nothing. On a server that the name does not know the name
// gets a new epoch, and for [Options.Grace] nothing new is granted: calls wait in line, also with TryAcquire,
// until it is over. So it is where the server does not know a name that the caller has used before, or has taken
// the place of one that the caller knew. To other callers such a name is a new one, unless the server was started
// within the grace period; a file that takes it longer to load than that counts as time since the start.
//
// A client that saw a connection break asks at once about everything it has. It keeps a connection open only to
// see it break. For as long as that does not stand, unless a right is missing, it asks three times in each grace
// period. Every answer tells the epoch, and what is missing in a new one the client restores, with its token or place. In the
// grace period holders come back even above the limit: what an old file has too much lapses, and until then
// nobody is let in. Within one epoch nothing is restored: what is missing there has lapsed, or was taken out. With
// [Options.WaitReplicas] a grant or a renewal counts only when so many replicas have it.
package fairsem
