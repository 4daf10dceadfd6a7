package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// sentinelFaults are what happens to the primary. With as many acknowledgements as there are replicas it
// does not matter which of them takes over.
func sentinelFaults() []fault {
	wait := fairsem.Options{TTL: 2 * time.Second, WaitReplicas: 2}
	plain := fairsem.Options{TTL: 2 * time.Second}
	const long = 20 * time.Second
	return []fault{
		{name: "planned failover, WaitReplicas 2", kind: sentinel, least: long, options: wait, strike: planned},
		{name: "planned failover", kind: sentinel, least: long, options: plain, not: forgets, strike: planned},
		{name: "kill -9 of the primary, WaitReplicas 2", kind: sentinel, least: long, options: wait, strike: killPrimary},
		{name: "kill -9 of the primary", kind: sentinel, least: long, options: plain, not: forgets, strike: killPrimary},
		{name: "failover to a replica that was cut off, WaitReplicas 2", kind: sentinel, least: long, options: wait, strike: promoteStale},
		{name: "failover to a replica that was cut off", kind: sentinel, least: long, options: plain, not: forgets, strike: promoteStale},
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
	if err := old.Restart(); err != nil {
		return err
	}
	return a.settle()
}

// settle waits until the primary has its two replicas.
func (a *arena) settle() error {
	return await(func() error {
		others, err := a.rig.sentinel.Replicas()
		if err != nil {
			return err
		}
		var errs []error
		for _, n := range others {
			errs = append(errs, inStep(n))
		}
		return errors.Join(errs...)
	})
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
	d := a.last(200*time.Millisecond, 1500*time.Millisecond)
	return fmt.Sprintf("%s died after %v alone", old.Addr(), d), a.succeed(old)
}

// split takes "host:port" apart.
func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr) // redistest made it
	return host, port
}
