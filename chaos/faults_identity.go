package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// identityFaults replace the server by one that lacks the latest grants, at the worst moment for the holder of the seat, which
// sends nothing between its renewals. No fault prevents the holder from restoring its permit in time. An old state also contains
// permits that were released since, so the units on the server may exceed the limit.
func identityFaults() []fault {
	five := fairsem.Options{TTL: 5 * time.Second}
	old := []promise{limitOnServer, fairShares}
	return []fault{
		{name: "restart with an old file, the holder's lease over, the waiter's not", kind: single, onCall: 2, minLength: 15 * time.Second, losesState: true, exempt: old, options: fairsem.Options{TTL: 4 * time.Second}, strike: restartOld},
		{name: "failover to a replica cut off long ago, the holder's lease over, the waiter's not", kind: pair, onCall: 2, minLength: 15 * time.Second, losesState: true, exempt: old, options: fairsem.Options{TTL: 4 * time.Second}, strike: failOverOld},
		{name: "a second crash while the subscription pauses", kind: single, onCall: 2, minLength: 20 * time.Second, losesState: true, options: fairsem.Options{TTL: 9 * time.Second}, strike: crashTwice},
		{name: "failover to a lagging twin, an idle process asks first", kind: pair, smoke: true, onCall: 2, minLength: 12 * time.Second, losesState: true, exempt: old, options: five, strike: failOver},
		{name: "failover and back, an idle process asks first", kind: pair, onCall: 2, minLength: 12 * time.Second, losesState: true, exempt: old, options: five, strike: failBack},
		{name: "failover, WaitReplicas 1, NoRefresh and weights", kind: pair, minLength: 12 * time.Second, maxPause: 2 * time.Second, losesState: true, options: fairsem.Options{TTL: 3 * time.Second, WaitReplicas: 1},
			longOptions: fairsem.CallOptions{NoRefresh: true}, longWeights: true, strike: failOverAll},
	}
}

// seatScript returns the number of holders and of waiters of the seat whose leases have not expired, and when the last lease of a
// holder expires.
const seatScript = `
local clock, ends = redis.call("TIME"), 0
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function live(key)
  local n = 0
  for _, id in ipairs(redis.call("ZRANGE", key, 0, -1)) do
    local due = tonumber(redis.call("ZSCORE", KEYS[3], id)) or 0
    if due > now then n = n + 1 end
    if key == KEYS[1] then ends = math.max(ends, due) end
  end
  return n
end
return { live(KEYS[1]), live(KEYS[2]), string.format("%.0f", ends) }`

// awaitSeat waits until the seat has these numbers of holders and waiters. It returns the time at which the holder's lease expires.
func (env *environment) awaitSeat(holders, waiters int64) (ends time.Time, err error) {
	err = await(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		list, err := evalRO(ctx, env.deployment.monitor, seatScript, []string{keyOf(seatName, protocol.Owner), keyOf(seatName, protocol.Queue), keyOf(seatName, protocol.Timeout)}).Slice()
		if err != nil {
			return err
		}
		if list[0] != holders || list[1] != waiters {
			return fmt.Errorf("the seat has %v holders and %v waiters, not %d and %d", list[0], list[1], holders, waiters)
		}
		var ms int64
		_, err = fmt.Sscan(fmt.Sprint(list[2]), &ms)
		ends = time.UnixMilli(ms)
		return err
	})
	return ends, err
}

// pickTwo returns the two processes on call in random order.
func (env *environment) pickTwo() (holder, other *process) {
	all := env.processes.onCall()
	n := env.random.IntN(2)
	return all[n], all[1-n]
}

// holdSeat makes a process acquire the free seat and hold it for a time. A short hold may be over before anybody can see it, so the
// count of grants tells that it has begun.
func (env *environment) holdSeat(proc *process, hold time.Duration) error {
	if err := env.awaitFreeSeat(); err != nil {
		return err
	}
	before, err := env.grantsOfSeat()
	if err != nil {
		return err
	}
	if err := proc.acquireSeat(failoverTimeout, hold); err != nil {
		return err
	}
	return await(func() error {
		granted, err := env.grantsOfSeat()
		if err == nil && granted == before {
			err = errors.New("the seat was not granted")
		}
		return err
	})
}

// grantsOfSeat returns how often the seat was granted.
func (env *environment) grantsOfSeat() (int64, error) {
	granted, err := env.deployment.monitor.HGet(context.Background(), keyOf(seatName, protocol.Meta), protocol.MetaGranted).Int64()
	if failure.IsMissing(err) {
		return 0, nil
	}
	return granted, err
}

// awaitFreeSeat waits until the seat is free, so that strikes do not overlap.
func (env *environment) awaitFreeSeat() error {
	_, err := env.awaitSeat(0, 0)
	return err
}

// saveOldState saves a state in which the holder's lease expires before the waiter's. Both will have renewed by then. It
// returns the time at which the holder's lease expires.
func (env *environment) saveOldState(save func() error) (ends time.Time, err error) {
	holder, waiter := env.pickTwo()
	ttl := env.processes.config.Options.TTL
	if err := env.holdSeat(holder, ttl+ttl/2); err != nil {
		return ends, err
	}
	time.Sleep(ttl / 4) // the holder renews after a third
	if err := waiter.acquireSeat(failoverTimeout, ttl/4); err != nil {
		return ends, err
	}
	if ends, err = env.awaitSeat(1, 1); err != nil {
		return ends, err
	}
	return ends, save()
}

// serveOldState makes a server serve the old state once the holder's lease in it has expired. The observer reaches it first.
func (env *environment) serveOldState(ends time.Time, from *redistest.Server, serve func() error, to *redistest.Server) error {
	time.Sleep(time.Until(ends) - 100*time.Millisecond)
	env.redirect(closedAddr)
	if err := from.Kill(); err != nil {
		return err
	}
	time.Sleep(time.Until(ends) + 20*time.Millisecond)
	if err := serve(); err != nil {
		return err
	}
	env.redirect(to.Addr(), env.processes.onCall()...)
	time.Sleep(headStart)
	env.redirect(to.Addr())
	env.markHealed()
	return nil
}

// restartOld restarts the server with an old file.
func restartOld(env *environment) (string, error) {
	s := env.deployment.server
	ends, err := env.saveOldState(func() error { return env.deployment.do("SAVE") })
	if err != nil {
		return "", err
	}
	old := time.Now()
	if err := env.serveOldState(ends, s, s.Restart, s); err != nil {
		return "", err
	}
	return fmt.Sprintf("restart with a file of %v ago", time.Since(old)), env.awaitFreeSeat()
}

// failOverOld promotes a replica that was disconnected long ago.
func failOverOld(env *environment) (string, error) {
	old, next := env.deployment.nodes[0], env.deployment.nodes[1]
	ends, err := env.saveOldState(func() error {
		return errors.Join(old.Client().Wait(context.Background(), 1, time.Second).Err(), isolate(next))
	})
	if err != nil {
		return "", err
	}
	alone := time.Now()
	if err := env.serveOldState(ends, old, func() error { return promote(next) }, next); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was cut off for %v", next.Addr(), time.Since(alone)), errors.Join(env.rejoin(), env.awaitFreeSeat())
}

// crashTwice keeps the server down until the holder's subscription pauses between its attempts for as long as it ever does. It
// kills the server again as soon as the holder has restored its permit.
func crashTwice(env *environment) (string, error) {
	holder, other := env.pickTwo()
	if err := env.holdSeat(holder, 8*time.Second); err != nil {
		return "", err
	}
	env.wait(200*time.Millisecond, 300*time.Millisecond) // until the subscription is established
	if err := env.deployment.server.Kill(); err != nil {
		return "", err
	}
	away := env.wait(4200*time.Millisecond, 4800*time.Millisecond)
	if err := env.deployment.server.Restart(); err != nil {
		return "", err
	}
	if _, err := env.awaitSeat(1, 0); err != nil { // restored
		return "", err
	}
	if err := other.acquireSeat(failoverTimeout, 1500*time.Millisecond); err != nil {
		return "", err
	}
	if _, err := env.awaitSeat(1, 1); err != nil {
		return "", err
	}
	env.wait(300*time.Millisecond, 400*time.Millisecond)    // until all requests have been answered
	if err := env.deployment.server.Restart(); err != nil { // Restart kills the server first
		return "", err
	}
	env.markHealed()
	return fmt.Sprintf("down for %v, and killed again", away), env.awaitFreeSeat()
}

// grantUnreplicated makes one process on call use the seat once, and disconnects the replica. Then the other process acquires the
// seat, so the replica lacks that grant.
func (env *environment) grantUnreplicated(hold time.Duration) (idle *process, err error) {
	holder, idle := env.pickTwo()
	primary, replica := env.deployment.nodes[0], env.deployment.nodes[1]
	if err := env.holdSeat(idle, 50*time.Millisecond); err != nil {
		return nil, err
	}
	if err := errors.Join(env.awaitFreeSeat(), primary.Client().Wait(context.Background(), 1, time.Second).Err(), isolate(replica)); err != nil {
		return nil, err
	}
	err = env.holdSeat(holder, hold)
	return idle, err
}

// failOver kills the primary and promotes its replica, which has the same LASTSAVE and lacks the holder. The first process to call
// has sent nothing for longer than the grace period.
func failOver(env *environment) (string, error) {
	if err := env.saveInOneSecond(); err != nil {
		return "", err
	}
	idle, err := env.grantUnreplicated(3 * time.Second)
	if err != nil {
		return "", err
	}
	old, next := env.deployment.nodes[0], env.deployment.nodes[1]
	if err := old.Kill(); err != nil {
		return "", err
	}
	away := env.wait(1200*time.Millisecond, 1500*time.Millisecond)
	if err := errors.Join(promote(next), env.redirectFirst(next.Addr(), idle)); err != nil {
		return "", err
	}
	env.markHealed()
	return fmt.Sprintf("%s was killed, %s took over %v later", old.Addr(), next.Addr(), away), errors.Join(env.rejoin(), env.awaitFreeSeat())
}

// rejoin restarts the killed primary as the replica of the new one. The strike has not ended before the replica acknowledges: until
// then, nothing on the primary is confirmed to callers that wait for replicas.
func (env *environment) rejoin() error {
	env.deployment.nodes[0], env.deployment.nodes[1] = env.deployment.nodes[1], env.deployment.nodes[0]
	if err := env.deployment.nodes[1].Restart(); err != nil {
		return err
	}
	return await(func() error {
		return errors.Join(follows(env.deployment.nodes[1], env.deployment.nodes[0]), acknowledged(env.deployment.nodes[0]))
	})
}

func acknowledged(primary *redistest.Server) error {
	replicas, err := primary.Client().Wait(context.Background(), 1, 100*time.Millisecond).Result()
	if err == nil && replicas == 0 {
		err = errors.New("no replica acknowledges")
	}
	return err
}

// failBack promotes the lagging replica, makes the primary its replica, and promotes the primary again, before any process calls.
// The primary is then the same process as before and lacks the holder.
func failBack(env *environment) (string, error) {
	idle, err := env.grantUnreplicated(4 * time.Second)
	if err != nil {
		return "", err
	}
	primary, replica := env.deployment.nodes[0], env.deployment.nodes[1]
	began := time.Now()
	env.redirect(closedAddr)
	err = errors.Join(promote(replica), await(func() error { return follows(primary, replica) }),
		promote(primary), env.redirectFirst(primary.Addr(), idle))
	if err != nil {
		return "", err
	}
	away := time.Since(began)
	env.markHealed()
	return fmt.Sprintf("%s was a replica for %v", primary.Addr(), away),
		errors.Join(await(func() error { return follows(replica, primary) }), env.awaitFreeSeat())
}

// failOverAll kills the primary under load. Sometimes it disconnects the replica for a while before.
func failOverAll(env *environment) (string, error) {
	old, next := env.deployment.nodes[0], env.deployment.nodes[1]
	var alone time.Duration
	if env.random.IntN(2) == 0 {
		if err := isolate(next); err != nil {
			return "", err
		}
		alone = env.wait(0, time.Second)
	}
	if err := errors.Join(old.Kill(), promote(next)); err != nil {
		return "", err
	}
	env.redirect(next.Addr())
	return fmt.Sprintf("%s was killed after %v without its replica, %s took over", old.Addr(), alone, next.Addr()), env.rejoin()
}
