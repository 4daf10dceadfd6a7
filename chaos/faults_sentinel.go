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

// sentinelFaults are what happens to the primary. With as many acknowledgements as there are replicas it
// does not matter which of them takes over.
// A TTL is longer than a failover takes, or nobody would still rely on what got lost.
func sentinelFaults() []fault {
	wait := fairsem.Options{TTL: 5 * time.Second, WaitReplicas: 2}
	plain := fairsem.Options{TTL: 5 * time.Second}
	const long = 30 * time.Second
	return []fault{
		{name: "planned failover, WaitReplicas 2", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: wait, strike: planned},
		{name: "planned failover", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: plain, not: forgets, strike: planned},
		{name: "kill -9 of the primary, WaitReplicas 2", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: wait, strike: killPrimary},
		{name: "kill -9 of the primary", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: plain, not: forgets, strike: killPrimary},
		{name: "failover to a replica that was cut off, WaitReplicas 2", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: wait, strike: promoteStale},
		{name: "failover to a replica that was cut off", kind: sentinel, least: long, rest: 4 * time.Second, forgets: true, options: plain, not: forgets, strike: promoteStale},
	}
}

// planned has a replica take over while the primary is well.
func planned(a *arena) (string, error) {
	old, err := a.rig.sentinel.Primary()
	if err != nil {
		return "", err
	}
	// Soon after another one the sentinels refuse.
	if err := await(a.rig.sentinel.Failover); err != nil {
		return "", err
	}
	a.successor()
	return "failover from " + old.Addr(), a.settle()
}

// killPrimary has a replica take over, and the dead one come back as a replica.
func killPrimary(a *arena) (string, error) {
	old, err := a.rig.sentinel.Primary()
	if err != nil {
		return "", err
	}
	return "kill -9 of " + old.Addr(), a.succeed(old)
}

// succeed kills the primary and waits until all is well again.
func (a *arena) succeed(old *redistest.Server) error {
	if err := old.Kill(); err != nil {
		return err
	}
	if err := a.rig.sentinel.AwaitFailover(old); err != nil {
		return err
	}
	a.successor()
	if err := old.Restart(); err != nil {
		return err
	}
	return a.settle()
}

// successor notes that there is a primary again. Whoever waits for replicas has to wait for all of them.
func (a *arena) successor() {
	if a.fault.options.WaitReplicas == 0 {
		a.works()
	}
}

// settle waits until the primary has its two replicas. The sentinels would see to it too, in ten seconds
// or thirty; so there are more strikes in a run.
func (a *arena) settle() error {
	return await(func() error {
		primary, err := a.rig.sentinel.Primary()
		if err != nil {
			return err
		}
		var errs []error
		for _, n := range a.rig.sentinel.Nodes {
			if n != primary {
				errs = append(errs, follows(n, primary))
			}
		}
		for _, watcher := range a.rig.sentinel.Sentinels {
			errs = append(errs, content(watcher))
		}
		return errors.Join(errs...)
	})
}

// content returns nil when a sentinel finds nothing wrong with anybody: before that it promotes nobody.
func content(watcher *redistest.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: watcher.Addr()})
	defer func() { _ = sentinel.Close() }() // it has answered, or it has not
	primary, err := sentinel.Master(ctx, redistest.PrimaryName).Result()
	if err != nil {
		return err
	}
	others, err := sentinel.Replicas(ctx, redistest.PrimaryName).Result()
	healthy := primary["flags"] == "master"
	for _, replica := range others {
		healthy = healthy && replica["flags"] == "slave" && replica["master-link-status"] == "ok"
	}
	if err == nil && (!healthy || len(others) != 2) {
		err = fmt.Errorf("%s is not content yet", watcher.Addr())
	}
	return err
}

// follows returns nil when the server is a replica of the primary and in step. It makes it one.
func follows(n, primary *redistest.Server) error {
	r, err := roleOf(n)
	if err == nil && r.master != primary.Addr() {
		host, port := split(primary.Addr())
		err = n.Client().Do(context.Background(), "REPLICAOF", host, port).Err()
	}
	return errors.Join(err, inStep(n))
}

// promoteStale has the replicas hear nothing of their primary for a while, which then dies: what it did
// last is gone.
func promoteStale(a *arena) (string, error) {
	old, err := a.rig.sentinel.Primary()
	if err != nil {
		return "", err
	}
	others, err := a.rig.sentinel.Replicas()
	if err != nil {
		return "", err
	}
	for _, n := range others {
		// Nobody listens on port 1. The sentinels put that right, though not at once.
		if err := n.Client().Do(context.Background(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			return "", err
		}
	}
	d := a.last(500*time.Millisecond, 2500*time.Millisecond)
	return fmt.Sprintf("%s died after %v alone", old.Addr(), d), a.succeed(old)
}

// split takes "host:port" apart.
func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr) // redistest made it
	return host, port
}
