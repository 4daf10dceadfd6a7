package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// When a primary dies, the grants that its replica has not received are lost.
var lossExempt = []promise{limitOnServer, limitByContext, oneOrder, fifo, fairShares, ownNumbers, liveOnArrival, lossReported}

// clusterFaults concern the primary that serves a semaphore, or its slot: by turns pool, the one that tenants share, and the one whose
// permits have numbers. The slot of shared does not move, because meanwhile units are free there that nobody gets.
func clusterFaults() []fault {
	wait := fairsem.Options{TTL: 5 * time.Second, WaitReplicas: 1}
	return []fault{
		{name: "restart of a primary, nothing kept, Grace 1 s", kind: cluster, minLength: 20 * time.Second, maxPause: 4 * time.Second, losesState: true, options: fairsem.Options{TTL: 5 * time.Second}, strike: restartOwner},
		{name: "kill -9 of a primary, WaitReplicas 1", kind: cluster, minLength: 30 * time.Second, maxPause: 4 * time.Second, losesState: true, options: wait, strike: killOwner},
		{name: "kill -9 of a primary", kind: cluster, minLength: 30 * time.Second, maxPause: 4 * time.Second, losesState: true, options: fairsem.Options{TTL: 5 * time.Second}, exempt: lossExempt, strike: killOwner},
		{name: "CLUSTER FAILOVER", kind: cluster, losesState: true, minLength: 10 * time.Second, strike: clusterFailover},
		{name: "slot migration", kind: cluster, sparesOthers: true, minLength: 10 * time.Second, strike: moveSlot},
		{name: "slot moved there and back within a TTL", kind: cluster, sparesOthers: true, minLength: 10 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: moveSlotBack},
	}
}

// turn returns one of the names, each by turns.
func (env *environment) turn(names ...string) string { return names[len(env.strikes)%len(names)] }

// nextOwnerKey returns a key of the name whose primary is struck.
func (env *environment) nextOwnerKey() string {
	return keyOf(env.turn(poolName, sharedName, slotsName), protocol.Owner)
}

// failoverTimeout is how long the other nodes may take to notice a failure and to agree.
const failoverTimeout = 30 * time.Second

// await polls until check returns nil.
func await(check func() error) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil || time.Since(began) > failoverTimeout {
			return err
		}
	}
}

// restartOwner restarts the primary before its replica takes over.
func restartOwner(env *environment) (string, error) {
	key := env.nextOwnerKey()
	old, err := env.deployment.cluster.Owner(key)
	if err != nil {
		return "", err
	}
	if err := old.Restart(); err != nil {
		return "", err
	}
	return "restart of " + old.Addr(), await(func() error {
		_, err := env.deployment.cluster.Owner(key)
		return err
	})
}

// killOwner kills the primary, waits until its replica has taken over, and restarts it as a replica.
func killOwner(env *environment) (string, error) {
	key := env.nextOwnerKey()
	old, err := env.deployment.cluster.Owner(key)
	if err != nil {
		return "", err
	}
	if err := old.Kill(); err != nil {
		return "", err
	}
	err = await(func() error {
		now, err := env.deployment.cluster.Owner(key)
		if err == nil && now == old {
			err = errors.New("the killed primary still serves the slot")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	env.primaryReplaced()
	if err := old.Restart(); err != nil {
		return "", err
	}
	return "kill -9 of " + old.Addr(), await(func() error { return inSync(old) })
}

// inSync returns nil if the server is a replica that has all data of its primary.
func inSync(s *redistest.Server) error {
	role, err := roleOf(s)
	if err == nil && (role.name != "slave" || role.state != "connected") {
		err = fmt.Errorf("%s is %s, %s", s.Addr(), role.name, role.state)
	}
	return err
}

// role is the reply of ROLE.
type role struct{ name, primary, state string }

func roleOf(s *redistest.Server) (role, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	list, err := s.Client().Do(ctx, "ROLE").Slice()
	if err != nil || len(list) == 0 {
		return role{}, errors.Join(err, ctx.Err())
	}
	r := role{name: fmt.Sprint(list[0])}
	if r.name == "slave" && len(list) > 3 {
		r.primary, r.state = fmt.Sprintf("%v:%v", list[1], list[2]), fmt.Sprint(list[3])
	}
	return r, nil
}

// clusterFailover makes the replica take over while the primary works.
func clusterFailover(env *environment) (string, error) {
	old, err := env.deployment.cluster.Owner(env.nextOwnerKey())
	if err != nil {
		return "", err
	}
	for _, n := range env.deployment.cluster.Nodes {
		if r, err := roleOf(n); err == nil && r.primary == old.Addr() {
			return "failover to " + n.Addr(), takeOver(n, old)
		}
	}
	return "", fmt.Errorf("%s has no replica", old.Addr())
}

// manualFailover is how long a node tries a failover before it gives up, which it does not report.
const manualFailover = 6 * time.Second

func takeOver(next, old *redistest.Server) error {
	var asked time.Time
	return await(func() error {
		if r, err := roleOf(next); err == nil && r.name == "slave" && time.Since(asked) > manualFailover {
			asked = time.Now()
			_ = next.Client().ClusterFailover(context.Background()).Err() // retried if it fails
		}
		return inSync(old)
	})
}

// moveSlot moves the slot of a name to another primary, key by key, while all processes use it.
func moveSlot(env *environment) (string, error) {
	key := env.nextSlotKey()
	from, to, err := env.pickPrimaries(key)
	if err != nil {
		return "", err
	}
	return env.move(key, from, to, 50*time.Millisecond)
}

// moveSlotBack moves the slot there and back, faster than a lease that was renewed in time expires.
func moveSlotBack(env *environment) (string, error) {
	key := env.nextSlotKey()
	from, to, err := env.pickPrimaries(key)
	if err != nil {
		return "", err
	}
	var all []string
	for range 4 {
		what, err := env.move(key, from, to, 5*time.Millisecond)
		if err != nil {
			return "", err
		}
		// A node that does not know the newer epoch claims the slot with an old one, and then no node serves it.
		if err := await(env.oneEpoch); err != nil {
			return "", err
		}
		all = append(all, what)
		// An older claim may still be on its way, and a node refuses to give away a slot that it does not have.
		if err := await(func() error { return env.owns(to, key) }); err != nil {
			return "", err
		}
		from, to = to, from
	}
	return strings.Join(all, ", "), nil
}

// owns returns nil if a primary serves a key.
func (env *environment) owns(primary *redistest.Server, key string) error {
	owner, err := env.deployment.cluster.Owner(key)
	if err == nil && owner != primary {
		err = fmt.Errorf("%s serves %q, not %s", owner.Addr(), key, primary.Addr())
	}
	return err
}

// oneEpoch returns nil if all nodes know the same latest epoch.
func (env *environment) oneEpoch() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	epochs := make(map[string]bool)
	for _, n := range env.deployment.cluster.Nodes {
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

// nextSlotKey returns a key of the name whose slot is moved.
func (env *environment) nextSlotKey() string {
	return keyOf(env.turn(poolName, slotsName), protocol.Owner)
}

// pickPrimaries returns the primary that serves a key, and another one at random.
func (env *environment) pickPrimaries(key string) (from, to *redistest.Server, err error) {
	from, err = env.deployment.cluster.Owner(key)
	primaries := slices.DeleteFunc(slices.Clone(env.deployment.cluster.Primaries()), func(p *redistest.Server) bool { return p == from })
	return from, primaries[env.random.IntN(len(primaries))], err
}

// move moves the slot of a key from one primary to another, with pauses between its keys.
func (env *environment) move(key string, from, to *redistest.Server, pause time.Duration) (string, error) {
	ctx := context.Background()
	slot := from.Client().ClusterKeySlot(ctx, key).Val()
	fromID, toID := from.Client().Do(ctx, "CLUSTER", "MYID").Val(), to.Client().Do(ctx, "CLUSTER", "MYID").Val()
	err := errors.Join(
		to.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID).Err(),
		from.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID).Err(),
		moveKeys(ctx, env, from.Client(), to.Addr(), slot, pause),
	)
	for _, n := range append([]*redistest.Server{to, from}, env.deployment.cluster.Primaries()...) {
		err = errors.Join(err, n.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", toID).Err())
	}
	return fmt.Sprintf("slot %d from %s to %s", slot, from.Addr(), to.Addr()), err
}

// moveKeys moves one key at a time, so that processes find some keys of the slot on one primary and some on the other.
func moveKeys(ctx context.Context, env *environment, from *redis.Client, to string, slot int64, pause time.Duration) error {
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		host, port := split(to)
		if err := from.Do(ctx, "MIGRATE", host, port, keys[0], 0, 1000).Err(); err != nil {
			return err
		}
		env.wait(time.Millisecond, pause)
	}
}
