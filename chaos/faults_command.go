package main

import (
	"fmt"
	"time"
)

// commandFaults are what an operator can do to a server that keeps its data.
func commandFaults() []fault {
	return []fault{
		{name: "CLIENT KILL of all connections", kind: single, spares: true, strike: command("CLIENT", "KILL", "TYPE", "normal")},
		{name: "CLIENT KILL of subscriptions", kind: single, spares: true, strike: command("CLIENT", "KILL", "TYPE", "pubsub")},
		{name: "CLIENT PAUSE", kind: single, strike: pauseClients},
		{name: "DEBUG SLEEP", kind: single, strike: sleepServer},
		{name: "SCRIPT FLUSH", kind: single, spares: true, strike: command("SCRIPT", "FLUSH")},
		{name: "out of memory, noeviction", kind: single, smoke: true, strike: outOfMemory},
		{name: "a right taken away for a while", kind: single, strike: takeRight("zadd", "zrem", "set", "hset", "hget", "publish", "evalsha", "zrange", "zmscore")},
		{name: "the right to PEXPIREAT taken away for a while", kind: single, not: []promise{tidy}, strike: takeRight("pexpireat")},
	}
}

func command(words ...any) func(*arena) (string, error) {
	return func(a *arena) (string, error) { return fmt.Sprint(words...), a.rig.ask(words...) }
}

// pauseClients has the server answer nobody, or nobody who writes.
func pauseClients(a *arena) (string, error) {
	mode := []string{"ALL", "WRITE"}[a.random.IntN(2)]
	ms := 50 + a.random.IntN(1500)
	err := a.rig.ask("CLIENT", "PAUSE", ms, mode)
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return fmt.Sprintf("CLIENT PAUSE %d %s", ms, mode), err
}

func sleepServer(a *arena) (string, error) {
	seconds := 0.05 + 1.5*a.random.Float64()
	return fmt.Sprintf("DEBUG SLEEP %.2f", seconds), a.rig.ask("DEBUG", "SLEEP", seconds)
}

// outOfMemory lasts longer than a lease now and then: what renews has to go on.
func outOfMemory(a *arena) (string, error) {
	if err := a.rig.ask("CONFIG", "SET", "maxmemory", "1"); err != nil {
		return "", err
	}
	d := a.last(100*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("full for %v", d), a.rig.ask("CONFIG", "SET", "maxmemory", "0")
}

// takeRight makes scripts fail half-way.
func takeRight(rights ...string) func(*arena) (string, error) {
	return func(a *arena) (string, error) {
		right := rights[a.random.IntN(len(rights))]
		if err := a.rig.ask("ACL", "SETUSER", workerUser, "-"+right); err != nil {
			return "", err
		}
		d := a.last(50*time.Millisecond, 1500*time.Millisecond)
		return fmt.Sprintf("no %s for %v", right, d), a.rig.ask("ACL", "SETUSER", workerUser, "+"+right)
	}
}
