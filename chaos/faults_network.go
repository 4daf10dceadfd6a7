package main

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem/internal/redistest"
)

// networkFaults are what happens between one worker and its server, while the others have no trouble.
func networkFaults() []fault {
	return []fault{
		{name: "reply lost, connection ends", kind: single, smoke: true, strike: loseReply(false)},
		{name: "reply lost, connection stays", kind: single, strike: loseReply(true)},
		{name: "replies late", kind: single, smoke: true, strike: delayReplies},
		{name: "replies late, then none", kind: single, strike: delayThenHold},
		{name: "requests held, then delivered", kind: single, strike: hold((*redistest.Proxy).HoldRequests, false)},
		{name: "requests held, then lost", kind: single, strike: hold((*redistest.Proxy).HoldRequests, true)},
		{name: "replies held, then delivered", kind: single, strike: hold((*redistest.Proxy).HoldReplies, false)},
		{name: "replies held, then lost", kind: single, strike: hold((*redistest.Proxy).HoldReplies, true)},
		{name: "nothing gets through", kind: single, smoke: true, strike: hold((*redistest.Proxy).Hold, false)},
		{name: "connections cut", kind: single, strike: cut},
	}
}

// someProxy is the way of one worker.
func (a *arena) someProxy() (int, *redistest.Proxy) {
	n := 1 + a.random.IntN(processes)
	return n, a.rig.proxies[n]
}

// loseReply loses the reply to one of the next four scripts.
func loseReply(hole bool) func(*arena) (string, error) {
	return func(a *arena) (string, error) {
		n, proxy := a.someProxy()
		nth := 1 + a.random.IntN(4)
		proxy.LoseReply(nth, hole)
		a.last(50*time.Millisecond, 300*time.Millisecond)
		proxy.LoseReply(0, false)
		return fmt.Sprintf("way %d loses reply %d", n, nth), nil
	}
}

func delayReplies(a *arena) (string, error) {
	n, proxy := a.someProxy()
	late := time.Duration(a.random.Int64N(int64(1200 * time.Millisecond)))
	proxy.Delay(late)
	a.last(500*time.Millisecond, 2*time.Second)
	proxy.Delay(0)
	return fmt.Sprintf("way %d is late by %v", n, late), nil
}

// delayThenHold lets the last answers before a silence come late.
func delayThenHold(a *arena) (string, error) {
	n, proxy := a.someProxy()
	late := 100*time.Millisecond + time.Duration(a.random.Int64N(int64(200*time.Millisecond)))
	proxy.Delay(late)
	a.last(500*time.Millisecond, time.Second)
	proxy.Hold()
	d := a.last(time.Second, 2*time.Second)
	proxy.Delay(0)
	proxy.Resume()
	return fmt.Sprintf("way %d is late by %v, then silent for %v", n, late, d), nil
}

// hold keeps something back for more or less than a TTL.
func hold(what func(*redistest.Proxy), lose bool) func(*arena) (string, error) {
	return func(a *arena) (string, error) {
		n, proxy := a.someProxy()
		what(proxy)
		d := a.last(50*time.Millisecond, 2*time.Second)
		if lose {
			proxy.Cut()
		}
		proxy.Resume()
		return fmt.Sprintf("way %d held for %v", n, d), nil
	}
}

func cut(a *arena) (string, error) {
	n, proxy := a.someProxy()
	proxy.Cut()
	return fmt.Sprintf("way %d cut", n), nil
}
