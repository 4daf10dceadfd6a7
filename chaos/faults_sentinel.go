package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// sentinelFaults concern the primary. If a grant needs the acknowledgements of all replicas, it does not matter which of them takes
// over. The TTL is longer than a failover takes; otherwise no holder would still rely on a lost permit.
func sentinelFaults() []fault {
	wait := fairsem.Options{TTL: 5 * time.Second, WaitReplicas: 2}
	plain := fairsem.Options{TTL: 5 * time.Second}
	const long = 30 * time.Second
	return []fault{
		{name: "planned failover, WaitReplicas 2", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: wait, strike: planned},
		{name: "planned failover", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: plain, exempt: lossExempt, strike: planned},
		{name: "kill -9 of the primary, WaitReplicas 2", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: wait, strike: killPrimary},
		{name: "kill -9 of the primary", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: plain, exempt: lossExempt, strike: killPrimary},
		{name: "failover to a replica that was cut off, WaitReplicas 2", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: wait, strike: promoteStale},
		{name: "failover to a replica that was cut off", kind: sentinel, minLength: long, maxPause: 4 * time.Second, losesState: true, options: plain, exempt: lossExempt, strike: promoteStale},
	}
}

// planned makes a replica take over while the primary works.
func planned(env *environment) (string, error) {
	old, err := env.deployment.sentinel.Primary()
	if err != nil {
		return "", err
	}
	// The sentinels refuse a failover soon after another one.
	if err := await(env.deployment.sentinel.Failover); err != nil {
		return "", err
	}
	env.primaryReplaced()
	return "failover from " + old.Addr(), env.awaitReplicas()
}

// killPrimary kills the primary, waits until a replica has taken over, and restarts it as a replica.
func killPrimary(env *environment) (string, error) {
	old, err := env.deployment.sentinel.Primary()
	if err != nil {
		return "", err
	}
	return "kill -9 of " + old.Addr(), env.killAndReplace(old)
}

// killAndReplace kills the primary and waits until all servers work again.
func (env *environment) killAndReplace(old *redistest.Server) error {
	if err := old.Kill(); err != nil {
		return err
	}
	if err := env.deployment.sentinel.AwaitFailover(old); err != nil {
		return err
	}
	env.primaryReplaced()
	if err := old.Restart(); err != nil {
		return err
	}
	return env.awaitReplicas()
}

// primaryReplaced records that there is a new primary. With WaitReplicas, grants need all replicas, so the strike has not healed.
func (env *environment) primaryReplaced() {
	if env.fault.options.WaitReplicas == 0 {
		env.markHealed()
	}
}

// awaitReplicas waits until the primary has its two replicas. It reconfigures them itself, because the sentinels would take 10
// to 30 seconds, and a run would have fewer strikes.
func (env *environment) awaitReplicas() error {
	return await(func() error {
		primary, err := env.deployment.sentinel.Primary()
		if err != nil {
			return err
		}
		var errs []error
		for _, n := range env.deployment.sentinel.Nodes {
			if n != primary {
				errs = append(errs, follows(n, primary))
			}
		}
		for _, sentinel := range env.deployment.sentinel.Sentinels {
			errs = append(errs, sentinelReady(sentinel))
		}
		return errors.Join(errs...)
	})
}

// sentinelReady returns nil if a sentinel reports all servers as healthy. Before that it promotes no replica.
func sentinelReady(sentinel *redistest.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr()})
	defer func() { _ = client.Close() }() // it is no longer needed
	primary, err := client.Master(ctx, redistest.PrimaryName).Result()
	if err != nil {
		return err
	}
	others, err := client.Replicas(ctx, redistest.PrimaryName).Result()
	healthy := primary["flags"] == "master"
	for _, replica := range others {
		healthy = healthy && replica["flags"] == "slave" && replica["master-link-status"] == "ok"
	}
	if err == nil && (!healthy || len(others) != 2) {
		err = fmt.Errorf("%s does not report all servers as healthy yet", sentinel.Addr())
	}
	return err
}

// follows makes the server a replica of the primary. It returns nil once the replica is in sync.
func follows(n, primary *redistest.Server) error {
	r, err := roleOf(n)
	if err == nil && r.primary != primary.Addr() {
		host, port := split(primary.Addr())
		err = n.Client().Do(context.Background(), "REPLICAOF", host, port).Err()
	}
	return errors.Join(err, inSync(n))
}

// promoteStale disconnects the replicas from the primary for a while and then kills it. Its last writes are lost.
func promoteStale(env *environment) (string, error) {
	old, err := env.deployment.sentinel.Primary()
	if err != nil {
		return "", err
	}
	others, err := env.deployment.sentinel.Replicas()
	if err != nil {
		return "", err
	}
	for _, n := range others {
		// No process listens on port 1. The sentinels correct this later.
		if err := n.Client().Do(context.Background(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			return "", err
		}
	}
	d := env.wait(500*time.Millisecond, 2500*time.Millisecond)
	return fmt.Sprintf("%s was killed after %v without its replicas", old.Addr(), d), env.killAndReplace(old)
}

// split splits "host:port".
func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr) // addresses of redistest are valid
	return host, port
}
