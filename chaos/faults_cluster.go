package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// A master that dies takes what its replica has not heard of with it.
var forgets = []promise{onServer, held, linear, inOrder, alive, told}

// clusterFaults are what happens to the master that has the semaphores, or to their slot.
func clusterFaults() []fault {
	wait := fairsem.Options{TTL: 5 * time.Second, WaitReplicas: 1}
	return []fault{
		{name: "restart of the master, nothing kept, Grace 1 s", kind: cluster, least: 20 * time.Second, rest: 4 * time.Second, forgets: true, options: fairsem.Options{TTL: 5 * time.Second}, strike: restartMaster},
		{name: "kill -9 of the master, WaitReplicas 1", kind: cluster, least: 30 * time.Second, rest: 4 * time.Second, forgets: true, options: wait, strike: killMaster},
		{name: "kill -9 of the master", kind: cluster, least: 30 * time.Second, rest: 4 * time.Second, forgets: true, options: fairsem.Options{TTL: 5 * time.Second}, not: forgets, strike: killMaster},
		{name: "CLUSTER FAILOVER", kind: cluster, forgets: true, least: 10 * time.Second, strike: clusterFailover},
		{name: "slot migration", kind: cluster, spares: true, least: 10 * time.Second, strike: moveSlot},
		{name: "slot moved there and back within a TTL", kind: cluster, spares: true, least: 10 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: moveSlotBack},
	}
}

// failoverLimit is how long other nodes may take to notice and to agree.
const failoverLimit = 30 * time.Second

// await polls until check returns nil.
func await(check func() error) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil || time.Since(began) > failoverLimit {
			return err
		}
	}
}

// restartMaster has it come back before its replica takes over.
func restartMaster(a *arena) (string, error) {
	key := keyOf(poolName, protocol.Owner)
	old, err := a.rig.cluster.Owner(key)
	if err != nil {
		return "", err
	}
	if err := old.Restart(); err != nil {
		return "", err
	}
	return "restart of " + old.Addr(), await(func() error {
		_, err := a.rig.cluster.Owner(key)
		return err
	})
}

// killMaster has a replica take over, and the dead one come back as a replica.
func killMaster(a *arena) (string, error) {
	key := keyOf(poolName, protocol.Owner)
	old, err := a.rig.cluster.Owner(key)
	if err != nil {
		return "", err
	}
	if err := old.Kill(); err != nil {
		return "", err
	}
	err = await(func() error {
		now, err := a.rig.cluster.Owner(key)
		if err == nil && now == old {
			err = errors.New("it still serves")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	a.successor()
	if err := old.Restart(); err != nil {
		return "", err
	}
	return "kill -9 of " + old.Addr(), await(func() error { return inStep(old) })
}

// inStep returns nil when the server is a replica that has all its master has.
func inStep(s *redistest.Server) error {
	role, err := roleOf(s)
	if err == nil && (role.name != "slave" || role.state != "connected") {
		err = fmt.Errorf("%s is %s, %s", s.Addr(), role.name, role.state)
	}
	return err
}

// role is what a server says of itself.
type role struct{ name, master, state string }

func roleOf(s *redistest.Server) (role, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := s.Client().Do(ctx, "ROLE").Slice()
	if err != nil || len(list) == 0 {
		return role{}, errors.Join(err, ctx.Err())
	}
	r := role{name: fmt.Sprint(list[0])}
	if r.name == "slave" && len(list) > 3 {
		r.master, r.state = fmt.Sprintf("%v:%v", list[1], list[2]), fmt.Sprint(list[3])
	}
	return r, nil
}

// clusterFailover has the replica of the master take over while that is well.
func clusterFailover(a *arena) (string, error) {
	old, err := a.rig.cluster.Owner(keyOf(poolName, protocol.Owner))
	if err != nil {
		return "", err
	}
	for _, n := range a.rig.cluster.Nodes {
		if r, err := roleOf(n); err == nil && r.master == old.Addr() {
			return "failover to " + n.Addr(), takeOver(n, old)
		}
	}
	return "", fmt.Errorf("%s has no replica", old.Addr())
}

// manualFailover is how long a node tries before it gives up, which it tells nobody.
const manualFailover = 6 * time.Second

func takeOver(next, old *redistest.Server) error {
	var asked time.Time
	return await(func() error {
		if r, err := roleOf(next); err == nil && r.name == "slave" && time.Since(asked) > manualFailover {
			asked = time.Now()
			_ = next.Client().ClusterFailover(context.Background()).Err() // asked again, should it fail
		}
		return inStep(old)
	})
}

// moveSlot moves the slot of the pool to another master, key by key, while all use it.
func moveSlot(a *arena) (string, error) {
	from, to, err := a.neighbours()
	if err != nil || from == to {
		return "it stays", err
	}
	return a.move(from, to, 50*time.Millisecond)
}

// moveSlotBack moves it to and fro, in less time than a lease has left that was renewed in time.
func moveSlotBack(a *arena) (string, error) {
	from, to, err := a.neighbours()
	if err != nil || from == to {
		return "it stays", err
	}
	var all []string
	for range 4 {
		what, err := a.move(from, to, 5*time.Millisecond)
		if err != nil {
			return "", err
		}
		// A node that knows no newer epoch claims the slot with an old one, and nobody has it.
		if err := await(a.oneEpoch); err != nil {
			return "", err
		}
		all = append(all, what)
		from, to = to, from
	}
	return strings.Join(all, ", "), nil
}

// oneEpoch returns nil when all nodes know the same latest epoch.
func (a *arena) oneEpoch() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	epochs := make(map[string]bool)
	for _, n := range a.rig.cluster.Nodes {
		info, err := n.Client().ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(info, "cluster_current_epoch:")
		epoch, _, _ := strings.Cut(rest, "\r\n")
		epochs[epoch] = true
	}
	if len(epochs) != 1 {
		return fmt.Errorf("the nodes know the epochs %v", epochs)
	}
	return nil
}

// neighbours are the master that has the pool, and any.
func (a *arena) neighbours() (from, to *redistest.Server, err error) {
	from, err = a.rig.cluster.Owner(keyOf(poolName, protocol.Owner))
	masters := a.rig.cluster.Masters()
	return from, masters[a.random.IntN(len(masters))], err
}

// move takes the slot of the pool from one master to another, with pauses between its keys.
func (a *arena) move(from, to *redistest.Server, pause time.Duration) (string, error) {
	ctx := context.Background()
	slot := from.Client().ClusterKeySlot(ctx, keyOf(poolName, protocol.Owner)).Val()
	fromID, toID := from.Client().Do(ctx, "CLUSTER", "MYID").Val(), to.Client().Do(ctx, "CLUSTER", "MYID").Val()
	err := errors.Join(
		to.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID).Err(),
		from.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID).Err(),
		moveKeys(ctx, a, from.Client(), to.Addr(), slot, pause),
	)
	for _, n := range append([]*redistest.Server{to, from}, a.rig.cluster.Masters()...) {
		err = errors.Join(err, n.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", toID).Err())
	}
	return fmt.Sprintf("slot %d from %s to %s", slot, from.Addr(), to.Addr()), err
}

// moveKeys moves one key at a time, so that others meet the slot with some keys here and some there.
func moveKeys(ctx context.Context, a *arena, from *redis.Client, to string, slot int64, pause time.Duration) error {
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		host, port := split(to)
		if err := from.Do(ctx, "MIGRATE", host, port, keys[0], 0, 1000).Err(); err != nil {
			return err
		}
		a.last(time.Millisecond, pause)
	}
}
