package main

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem/internal/redistest"
)

// networkFaults disturb the connections of one worker. They do not affect the others.
func networkFaults() []fault {
	return []fault{
		{name: "reply lost, connection ends", kind: single, smoke: true, strike: loseReply(false)},
		{name: "reply lost, connection stays", kind: single, strike: loseReply(true)},
		{name: "replies late", kind: single, strike: delayReplies},
		{name: "replies late, then none", kind: single, strike: delayThenHold},
		{name: "requests held, then delivered", kind: single, strike: hold((*redistest.Proxy).HoldRequests, false)},
		{name: "requests held, then lost", kind: single, strike: hold((*redistest.Proxy).HoldRequests, true)},
		{name: "requests held on open connections, then delivered", kind: single, strike: holdOpen},
		{name: "replies held, then delivered", kind: single, strike: hold((*redistest.Proxy).HoldReplies, false)},
		{name: "replies held, then lost", kind: single, strike: hold((*redistest.Proxy).HoldReplies, true)},
		{name: "nothing gets through", kind: single, smoke: true, strike: hold((*redistest.Proxy).Hold, false)},
		{name: "connections cut", kind: single, strike: cut},
	}
}

// randomProxy returns the proxy of one worker.
func (env *environment) randomProxy() (int, *redistest.Proxy) {
	n := 1 + env.random.IntN(workers)
	return n, env.deployment.proxies[n]
}

// loseReply loses the reply to one of the next four scripts.
func loseReply(hole bool) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		n, proxy := env.randomProxy()
		nth := 1 + env.random.IntN(4)
		proxy.LoseReply(nth, hole)
		env.wait(50*time.Millisecond, 300*time.Millisecond)
		proxy.LoseReply(0, false)
		return fmt.Sprintf("proxy %d loses reply %d", n, nth), nil
	}
}

func delayReplies(env *environment) (string, error) {
	n, proxy := env.randomProxy()
	late := time.Duration(env.random.Int64N(int64(1200 * time.Millisecond)))
	proxy.Delay(late)
	env.wait(500*time.Millisecond, 2*time.Second)
	proxy.Delay(0)
	return fmt.Sprintf("proxy %d is late by %v", n, late), nil
}

// delayThenHold delays the last answers before no more arrive.
func delayThenHold(env *environment) (string, error) {
	n, proxy := env.randomProxy()
	late := 100*time.Millisecond + time.Duration(env.random.Int64N(int64(200*time.Millisecond)))
	proxy.Delay(late)
	env.wait(500*time.Millisecond, time.Second)
	proxy.Hold()
	d := env.wait(time.Second, 2*time.Second)
	proxy.Delay(0)
	proxy.Resume()
	return fmt.Sprintf("proxy %d is late by %v, then silent for %v", n, late, d), nil
}

// hold holds data for more or less than a TTL. With lose, it then discards the data.
func hold(what func(*redistest.Proxy), lose bool) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		n, proxy := env.randomProxy()
		what(proxy)
		d := env.wait(50*time.Millisecond, 2*time.Second)
		if lose {
			proxy.Cut()
		}
		proxy.Resume()
		return fmt.Sprintf("proxy %d held for %v", n, d), nil
	}
}

// holdOpen holds what was sent on the connections of a worker for less than a TTL: the tombstone of its id still refuses a copy then. After it
// nobody would know of what the copy is granted.
func holdOpen(env *environment) (string, error) {
	n, proxy := env.randomProxy()
	proxy.HoldOpen()
	d := env.wait(50*time.Millisecond, 900*time.Millisecond)
	proxy.Resume()
	return fmt.Sprintf("proxy %d held for %v what was sent", n, d), nil
}

func cut(env *environment) (string, error) {
	n, proxy := env.randomProxy()
	proxy.Cut()
	return fmt.Sprintf("proxy %d cut", n), nil
}
