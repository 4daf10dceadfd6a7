package main

import (
	"fmt"
	"time"
)

// workerFaults kill or stop processes.
func workerFaults() []fault {
	return []fault{
		{name: "nothing", kind: single, sparesOthers: true, strike: nothing},
		{name: "kill -9 of workers", kind: single, smoke: true, strike: killWorker},
		{name: "SIGSTOP of workers", kind: single, strike: stopWorker},
		{name: "SIGSTOP of all workers", kind: single, strike: stopAllWorkers},
		{name: "SIGSTOP with a write on its way", kind: single, smoke: true, control: true, strike: stopWriter},
		{name: "kill -9 of workers", kind: cluster, strike: killWorker},
		{name: "SIGSTOP of workers", kind: cluster, strike: stopWorker},
	}
}

func nothing(*environment) (string, error) { return "nothing", nil }

// killWorker replaces a worker by a new one. Sometimes it stops the worker first.
func killWorker(env *environment) (string, error) {
	proc := env.processes.randomWorker(env.random)
	if env.random.IntN(3) == 0 {
		if err := proc.pause(); err != nil {
			return "", err
		}
		env.wait(0, 1500*time.Millisecond)
	}
	proc.kill()
	return "kill " + proc.name, env.processes.startWorker()
}

// stopWorker stops a worker for more or less time than its leases last.
func stopWorker(env *environment) (string, error) {
	proc := env.processes.randomWorker(env.random)
	if err := proc.pause(); err != nil {
		return "", err
	}
	d := env.wait(50*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("stop %s for %v", proc.name, d), proc.resume()
}

// stopAllWorkers stops all workers one after the other, and then continues them all.
func stopAllWorkers(env *environment) (string, error) {
	workers := env.processes.alive()
	for _, proc := range workers {
		if err := proc.pause(); err != nil {
			return "", err
		}
	}
	d := env.wait(50*time.Millisecond, 2*time.Second)
	for _, proc := range workers {
		if err := proc.resume(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("stop all for %v", d), nil
}

// stopWriter stops a process that has checked its permit and has a write in flight: by turns of solo and of slots.
func stopWriter(env *environment) (string, error) {
	select {
	case name := <-env.store.writing[len(env.strikes)%2]:
		proc := env.processes.aliveNamed(name)
		if err := proc.pause(); err != nil {
			return "", err
		}
		d := env.wait(1500*time.Millisecond, 2*time.Second)
		return fmt.Sprintf("stop writer %s for %v", name, d), proc.resume()
	case <-env.Done():
		return "no writer", nil
	}
}
