package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/redistest"
)

// closedAddr is an address on which no process listens.
const closedAddr = "127.0.0.1:1"

// startPair starts two servers in the same second, as a compose file does. The proxies follow the primary. There is no sentinel
// that takes time, so a process can reach the replica as soon as it is promoted.
func (d *deployment) startPair() error {
	err := await(func() (err error) {
		if d.nodes, err = redistest.StartAll(2, userArgs...); err == nil && !sameLastSave(d.nodes) {
			err = errors.Join(errors.New("not in the same second"), redistest.StopAll(d.nodes))
			d.nodes = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := d.startProxies(d.nodes[0].Addr()); err != nil {
		return err
	}
	d.monitor = noRetryClient(d.proxies[0].Addr())
	return await(func() error { return errors.Join(follows(d.nodes[1], d.nodes[0]), acknowledged(d.nodes[0])) })
}

// sameLastSave reports whether the servers have the same LASTSAVE, which is the time of the start if nothing was saved.
func sameLastSave(servers []*redistest.Server) bool {
	var ages []int64
	for _, s := range servers {
		ages = append(ages, s.Client().LastSave(context.Background()).Val())
	}
	return len(slices.Compact(ages)) == 1
}

// saveInOneSecond makes both servers save in the same second, because one of them may have been restarted.
func (env *environment) saveInOneSecond() error {
	return await(func() error {
		if sameLastSave(env.deployment.nodes) {
			return nil
		}
		for _, s := range env.deployment.nodes {
			if err := s.Client().Save(context.Background()).Err(); err != nil {
				return err
			}
		}
		return errors.New("not in the same second")
	})
}

// headStart is how much earlier than the others a process reaches a new server. It leaves them most of the grace period.
const headStart = 200 * time.Millisecond

// redirect redirects the proxies of all processes except some to a server.
func (env *environment) redirect(addr string, except ...*process) {
	for i, proxy := range env.deployment.proxies {
		if !slices.ContainsFunc(except, func(proc *process) bool { return env.proxyOf(proc) == env.deployment.proxies[i] }) {
			proxy.Redirect(addr)
		}
	}
}

// redirectFirst redirects all proxies to a server. It redirects one process earlier, and makes that process acquire the seat.
func (env *environment) redirectFirst(addr string, first *process) error {
	env.proxyOf(first).Redirect(addr)
	err := first.acquireSeat(time.Second, 500*time.Millisecond)
	time.Sleep(headStart)
	env.redirect(addr, first)
	return err
}

// proxyOf returns the proxy of a process.
func (env *environment) proxyOf(proc *process) *redistest.Proxy {
	return env.deployment.proxies[1+slices.Index(env.processes.all(), proc)]
}

// isolate disconnects a replica from its primary.
func isolate(replica *redistest.Server) error {
	return do(replica, "REPLICAOF", "127.0.0.1", "1")
}

// promote makes a replica a primary.
func promote(replica *redistest.Server) error { return do(replica, "REPLICAOF", "NO", "ONE") }

func do(s *redistest.Server, words ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Client().Do(ctx, words...).Err()
}
