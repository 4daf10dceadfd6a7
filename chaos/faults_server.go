package main

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// serverFaults are what happens to one server.
func serverFaults() []fault {
	return []fault{
		{name: "SIGSTOP of Redis", kind: single, smoke: true, strike: stopServer},
		{name: "restart, nothing kept, Grace 1 s", kind: single, smoke: true, forgets: true, rest: 2 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
		{name: "restart, nothing kept, Grace = TTL, a holder stopped", kind: single, forgets: true,
			options: fairsem.Options{TTL: 1500 * time.Millisecond, Grace: 1500 * time.Millisecond}, strike: restartPastStopped},
		{name: "restart", kind: durable, rest: 2 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
		{name: "restart", kind: lagging, forgets: true, rest: 2 * time.Second, not: []promise{onServer}, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
	}
}

func stopServer(a *arena) (string, error) {
	if err := a.rig.server.Pause(); err != nil {
		return "", err
	}
	d := a.last(50*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("stop Redis for %v", d), a.rig.server.Resume()
}

// restartServer kills it and has it come back after a while. Its users it had from the command line.
func restartServer(a *arena) (string, error) {
	if err := a.rig.server.Kill(); err != nil {
		return "", err
	}
	d := a.last(0, 500*time.Millisecond)
	if err := a.rig.server.Restart(); err != nil {
		return "", err
	}
	return fmt.Sprintf("Redis away for %v", d), nil
}

// restartPastStopped restarts Redis while a worker stands still, which wakes when all is over.
func restartPastStopped(a *arena) (string, error) {
	m := a.team.anyone(a.random)
	if err := m.stop(); err != nil {
		return "", err
	}
	what, err := restartServer(a)
	if err != nil {
		return "", err
	}
	d := a.last(200*time.Millisecond, 3*time.Second)
	return fmt.Sprintf("%s, %s stopped until %v later", what, m.name, d), m.wake()
}
