package main

import (
	"fmt"
	"time"
)

// workerFaults are what happens to processes.
func workerFaults() []fault {
	return []fault{
		{name: "nothing", kind: single, spares: true, smoke: true, strike: nothing},
		{name: "kill -9 of workers", kind: single, smoke: true, strike: killWorker},
		{name: "SIGSTOP of workers", kind: single, smoke: true, strike: stopWorker},
		{name: "SIGSTOP of all workers", kind: single, strike: stopAllWorkers},
		{name: "SIGSTOP with a write on its way", kind: single, smoke: true, control: true, strike: stopWriter},
		{name: "kill -9 of workers", kind: cluster, strike: killWorker},
		{name: "SIGSTOP of workers", kind: cluster, strike: stopWorker},
	}
}

func nothing(*arena) (string, error) { return "nothing", nil }

// killWorker replaces a worker by a new one; sometimes it stood still before.
func killWorker(a *arena) (string, error) {
	m := a.team.anyone(a.random)
	if a.random.IntN(3) == 0 {
		if err := m.stop(); err != nil {
			return "", err
		}
		a.last(0, 1500*time.Millisecond)
	}
	m.kill()
	return "kill " + m.name, a.team.hire()
}

// stopWorker stops one for longer than its leases last, or for less.
func stopWorker(a *arena) (string, error) {
	m := a.team.anyone(a.random)
	if err := m.stop(); err != nil {
		return "", err
	}
	d := a.last(50*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("stop %s for %v", m.name, d), m.wake()
}

// stopAllWorkers stops them one after the other, and wakes them at once.
func stopAllWorkers(a *arena) (string, error) {
	living := a.team.living()
	for _, m := range living {
		if err := m.stop(); err != nil {
			return "", err
		}
	}
	d := a.last(50*time.Millisecond, 2*time.Second)
	for _, m := range living {
		if err := m.wake(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("stop all for %v", d), nil
}

// stopWriter stops the process that has looked at its permit, found it good, and sent a write.
func stopWriter(a *arena) (string, error) {
	select {
	case name := <-a.store.writing:
		m := a.team.named(name)
		if err := m.stop(); err != nil {
			return "", err
		}
		d := a.last(1500*time.Millisecond, 2*time.Second)
		return fmt.Sprintf("stop writer %s for %v", name, d), m.wake()
	case <-a.Done():
		return "no writer", nil
	}
}
