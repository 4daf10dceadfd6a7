package main

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// serverFaults stop or restart one server.
func serverFaults() []fault {
	return []fault{
		{name: "SIGSTOP of Redis", kind: single, smoke: true, strike: stopServer},
		{name: "restart, nothing kept, Grace 1 s", kind: single, smoke: true, losesState: true, maxPause: 2 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
		{name: "restart, nothing kept, Grace = TTL, a holder stopped", kind: single, losesState: true,
			options: fairsem.Options{TTL: 1500 * time.Millisecond, Grace: 1500 * time.Millisecond}, strike: restartPastStopped},
		{name: "restart", kind: durable, maxPause: 2 * time.Second, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
		{name: "restart", kind: lagging, losesState: true, maxPause: 2 * time.Second, exempt: []promise{limitOnServer, fairShares}, options: fairsem.Options{TTL: 3 * time.Second}, strike: restartServer},
	}
}

func stopServer(env *environment) (string, error) {
	if err := env.deployment.server.Pause(); err != nil {
		return "", err
	}
	d := env.wait(50*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("stop Redis for %v", d), env.deployment.server.Resume()
}

// restartServer kills the server and restarts it after a while. Its users are on the command line.
func restartServer(env *environment) (string, error) {
	if err := env.deployment.server.Kill(); err != nil {
		return "", err
	}
	d := env.wait(0, 500*time.Millisecond)
	if err := env.deployment.server.Restart(); err != nil {
		return "", err
	}
	return fmt.Sprintf("Redis down for %v", d), nil
}

// restartPastStopped restarts Redis while a worker is paused. The worker continues after the grace period.
func restartPastStopped(env *environment) (string, error) {
	proc := env.processes.randomWorker(env.random)
	if err := proc.pause(); err != nil {
		return "", err
	}
	what, err := restartServer(env)
	if err != nil {
		return "", err
	}
	d := env.wait(200*time.Millisecond, 3*time.Second)
	return fmt.Sprintf("%s, %s stopped until %v later", what, proc.name, d), proc.resume()
}
