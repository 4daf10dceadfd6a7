package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// identityFaults replace the server that granted by one that lacks the last grants, at the worst moment for the
// holder of the seat, which sends nothing between its renewals. No fault keeps the holder from restoring its permit
// in time. An old state also has permits that were released since, so the server may have more than the limit.
func identityFaults() []fault {
	five := fairsem.Options{TTL: 5 * time.Second}
	old := []promise{onServer}
	return []fault{
		{name: "restart with an old file, the holder's lease over, the waiter's not", kind: single, onCall: 2, least: 15 * time.Second, forgets: true, not: old, options: fairsem.Options{TTL: 4 * time.Second}, strike: restartOld},
		{name: "failover to a replica cut off long ago, the holder's lease over, the waiter's not", kind: pair, onCall: 2, least: 15 * time.Second, forgets: true, not: old, options: fairsem.Options{TTL: 4 * time.Second}, strike: failOverOld},
		{name: "a second crash while the subscription pauses", kind: single, onCall: 2, least: 20 * time.Second, forgets: true, options: fairsem.Options{TTL: 9 * time.Second}, strike: crashTwice},
		{name: "failover to a lagging twin, an idle process asks first", kind: pair, smoke: true, onCall: 2, least: 12 * time.Second, forgets: true, not: old, options: five, strike: failOver},
		{name: "failover and back, an idle process asks first", kind: pair, onCall: 2, least: 12 * time.Second, forgets: true, not: old, options: five, strike: failBack},
		{name: "failover, WaitReplicas 1, NoRefresh and weights", kind: pair, least: 12 * time.Second, rest: 2 * time.Second, forgets: true, options: fairsem.Options{TTL: 3 * time.Second, WaitReplicas: 1},
			keeping: fairsem.CallOptions{NoRefresh: true}, heavy: true, strike: failOverAll},
	}
}

// seatScript returns how many live leases hold the seat and wait for it, and when the last lease of a holder expires.
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

// awaitSeat waits until the seat has so many holders and waiters. It returns when the holder's lease expires.
func (a *arena) awaitSeat(holders, waiters int64) (ends time.Time, err error) {
	err = await(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		list, err := a.rig.monitor.EvalRO(ctx, seatScript, []string{keyOf(seatName, protocol.Owner), keyOf(seatName, protocol.Queue), keyOf(seatName, protocol.Timeout)}).Slice()
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

// cast returns the two processes on call, in a random order.
func (a *arena) cast() (holder, other *member) {
	all := a.team.onCall()
	n := a.random.IntN(2)
	return all[n], all[1-n]
}

// take has a process acquire the free seat and hold it for so long.
func (a *arena) take(m *member, hold time.Duration) error {
	if err := a.free(); err != nil {
		return err
	}
	if err := m.ask(failoverLimit, hold); err != nil {
		return err
	}
	_, err := a.awaitSeat(1, 0)
	return err
}

// free waits until the seat is free, so that strikes do not overlap.
func (a *arena) free() error {
	_, err := a.awaitSeat(0, 0)
	return err
}

// freeze takes a copy of the state from which the holder's lease will expire before the waiter's, though both will
// have renewed by then. It returns when the holder's does.
func (a *arena) freeze(save func() error) (ends time.Time, err error) {
	holder, waiter := a.cast()
	ttl := a.team.order.Options.TTL
	if err := a.take(holder, ttl+ttl/2); err != nil {
		return ends, err
	}
	time.Sleep(ttl / 4) // the holder renews after a third
	if err := waiter.ask(failoverLimit, ttl/4); err != nil {
		return ends, err
	}
	if ends, err = a.awaitSeat(1, 1); err != nil {
		return ends, err
	}
	return ends, save()
}

// thaw has the copy served from the moment at which the holder's lease in it is over. The observer is there first.
func (a *arena) thaw(ends time.Time, from *redistest.Server, serve func() error, to *redistest.Server) error {
	time.Sleep(time.Until(ends) - 100*time.Millisecond)
	a.route(nowhere)
	if err := from.Kill(); err != nil {
		return err
	}
	time.Sleep(time.Until(ends) + 20*time.Millisecond)
	if err := serve(); err != nil {
		return err
	}
	a.route(to.Addr(), a.team.onCall()...)
	time.Sleep(headStart)
	a.route(to.Addr())
	a.works()
	return nil
}

// restartOld restarts the server with an old file.
func restartOld(a *arena) (string, error) {
	s := a.rig.server
	ends, err := a.freeze(func() error { return a.rig.ask("SAVE") })
	if err != nil {
		return "", err
	}
	old := time.Now()
	if err := a.thaw(ends, s, s.Restart, s); err != nil {
		return "", err
	}
	return fmt.Sprintf("restart with a file of %v ago", time.Since(old)), a.free()
}

// failOverOld promotes a replica that was cut off long ago.
func failOverOld(a *arena) (string, error) {
	old, next := a.rig.nodes[0], a.rig.nodes[1]
	ends, err := a.freeze(func() error {
		return errors.Join(old.Client().Wait(context.Background(), 1, time.Second).Err(), isolate(next))
	})
	if err != nil {
		return "", err
	}
	alone := time.Now()
	if err := a.thaw(ends, old, func() error { return promote(next) }, next); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was cut off for %v", next.Addr(), time.Since(alone)), errors.Join(a.rejoin(), a.free())
}

// crashTwice keeps the server away until the holder's subscription is in a pause of seconds, and crashes it again as
// soon as the holder has restored its permit.
func crashTwice(a *arena) (string, error) {
	holder, other := a.cast()
	if err := a.take(holder, 8*time.Second); err != nil {
		return "", err
	}
	a.last(200*time.Millisecond, 300*time.Millisecond) // until the subscription stands
	if err := a.rig.server.Kill(); err != nil {
		return "", err
	}
	away := a.last(4200*time.Millisecond, 4800*time.Millisecond)
	if err := a.rig.server.Restart(); err != nil {
		return "", err
	}
	if _, err := a.awaitSeat(1, 0); err != nil { // restored
		return "", err
	}
	if err := other.ask(failoverLimit, 1500*time.Millisecond); err != nil {
		return "", err
	}
	if _, err := a.awaitSeat(1, 1); err != nil {
		return "", err
	}
	a.last(300*time.Millisecond, 400*time.Millisecond) // until all that was asked was answered
	if err := a.rig.server.Restart(); err != nil {     // it kills first
		return "", err
	}
	a.works()
	return fmt.Sprintf("away for %v, and again", away), a.free()
}

// prepare lets both processes on call use the seat once and cuts the replica off. Then one of them acquires the seat,
// of which the replica does not hear.
func (a *arena) prepare(hold time.Duration) (idle *member, err error) {
	holder, idle := a.cast()
	primary, replica := a.rig.nodes[0], a.rig.nodes[1]
	if err := a.take(idle, 50*time.Millisecond); err != nil {
		return nil, err
	}
	if err := errors.Join(a.free(), primary.Client().Wait(context.Background(), 1, time.Second).Err(), isolate(replica)); err != nil {
		return nil, err
	}
	err = a.take(holder, hold)
	return idle, err
}

// failOver kills the primary and promotes its replica, which has the same LASTSAVE and lacks the holder. The first
// process to ask has sent nothing for longer than the grace.
func failOver(a *arena) (string, error) {
	if err := a.alike(); err != nil {
		return "", err
	}
	idle, err := a.prepare(3 * time.Second)
	if err != nil {
		return "", err
	}
	old, next := a.rig.nodes[0], a.rig.nodes[1]
	if err := old.Kill(); err != nil {
		return "", err
	}
	away := a.last(1200*time.Millisecond, 1500*time.Millisecond)
	if err := errors.Join(promote(next), a.routeFirst(next.Addr(), idle)); err != nil {
		return "", err
	}
	a.works()
	return fmt.Sprintf("%s died, %s took over %v later", old.Addr(), next.Addr(), away), errors.Join(a.rejoin(), a.free())
}

// rejoin restarts the dead primary as the replica of its successor. Before that acknowledges, nothing is confirmed to who
// waits for replicas, and so nothing that is seen on the primary counts: the strike is not over.
func (a *arena) rejoin() error {
	a.rig.nodes[0], a.rig.nodes[1] = a.rig.nodes[1], a.rig.nodes[0]
	if err := a.rig.nodes[1].Restart(); err != nil {
		return err
	}
	return await(func() error {
		return errors.Join(follows(a.rig.nodes[1], a.rig.nodes[0]), acknowledged(a.rig.nodes[0]))
	})
}

func acknowledged(primary *redistest.Server) error {
	replicas, err := primary.Client().Wait(context.Background(), 1, 100*time.Millisecond).Result()
	if err == nil && replicas == 0 {
		err = errors.New("no replica acknowledges")
	}
	return err
}

// failBack promotes the lagging replica, makes the primary its replica, and promotes the primary again, before any
// process asks. The primary is the same process as before and lacks the holder.
func failBack(a *arena) (string, error) {
	idle, err := a.prepare(4 * time.Second)
	if err != nil {
		return "", err
	}
	primary, replica := a.rig.nodes[0], a.rig.nodes[1]
	began := time.Now()
	a.route(nowhere)
	err = errors.Join(promote(replica), await(func() error { return follows(primary, replica) }),
		promote(primary), a.routeFirst(primary.Addr(), idle))
	if err != nil {
		return "", err
	}
	away := time.Since(began)
	a.works()
	return fmt.Sprintf("%s was a replica for %v", primary.Addr(), away),
		errors.Join(await(func() error { return follows(replica, primary) }), a.free())
}

// failOverAll kills the primary under load. Sometimes the replica was cut off for a while before.
func failOverAll(a *arena) (string, error) {
	old, next := a.rig.nodes[0], a.rig.nodes[1]
	var alone time.Duration
	if a.random.IntN(2) == 0 {
		if err := isolate(next); err != nil {
			return "", err
		}
		alone = a.last(0, time.Second)
	}
	if err := errors.Join(old.Kill(), promote(next)); err != nil {
		return "", err
	}
	a.route(next.Addr())
	return fmt.Sprintf("%s died after %v alone, %s took over", old.Addr(), alone, next.Addr()), a.rejoin()
}
