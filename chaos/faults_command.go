package main

import (
	"fmt"
	"time"
)

// commandFaults are the commands of an operator that leave a server its data.
func commandFaults() []fault {
	return []fault{
		{name: "CLIENT KILL of all connections", kind: single, sparesOthers: true, strike: command("CLIENT", "KILL", "TYPE", "normal")},
		{name: "CLIENT KILL of subscriptions", kind: single, sparesOthers: true, strike: command("CLIENT", "KILL", "TYPE", "pubsub")},
		{name: "CLIENT PAUSE", kind: single, strike: pauseClients},
		{name: "DEBUG SLEEP", kind: single, strike: sleepServer},
		{name: "SCRIPT FLUSH", kind: single, sparesOthers: true, strike: command("SCRIPT", "FLUSH")},
		{name: "out of memory, noeviction", kind: single, smoke: true, strike: outOfMemory},
		{name: "a right taken away for a while", kind: single, strike: revokeRight("zadd", "zrem", "set", "hset", "hget", "publish", "evalsha", "zrange", "zmscore")},
		{name: "the right to PEXPIREAT taken away for a while", kind: single, exempt: []promise{keysExpire}, strike: revokeRight("pexpireat")},
	}
}

func command(words ...any) func(*environment) (string, error) {
	return func(env *environment) (string, error) { return fmt.Sprint(words...), env.deployment.do(words...) }
}

// pauseClients makes the server delay the answers to all commands, or to all writes.
func pauseClients(env *environment) (string, error) {
	mode := []string{"ALL", "WRITE"}[env.random.IntN(2)]
	ms := 50 + env.random.IntN(1500)
	err := env.deployment.do("CLIENT", "PAUSE", ms, mode)
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return fmt.Sprintf("CLIENT PAUSE %d %s", ms, mode), err
}

func sleepServer(env *environment) (string, error) {
	seconds := 0.05 + 1.5*env.random.Float64()
	return fmt.Sprintf("DEBUG SLEEP %.2f", seconds), env.deployment.do("DEBUG", "SLEEP", seconds)
}

// outOfMemory sometimes lasts longer than a lease: renewals must still work.
func outOfMemory(env *environment) (string, error) {
	if err := env.deployment.do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		return "", err
	}
	d := env.wait(100*time.Millisecond, 2*time.Second)
	return fmt.Sprintf("out of memory for %v", d), env.deployment.do("CONFIG", "SET", "maxmemory", "0")
}

// revokeRight makes scripts fail half-way.
func revokeRight(rights ...string) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		right := rights[env.random.IntN(len(rights))]
		if err := env.deployment.do("ACL", "SETUSER", workerUser, "-"+right); err != nil {
			return "", err
		}
		d := env.wait(50*time.Millisecond, 1500*time.Millisecond)
		return fmt.Sprintf("no %s for %v", right, d), env.deployment.do("ACL", "SETUSER", workerUser, "+"+right)
	}
}
