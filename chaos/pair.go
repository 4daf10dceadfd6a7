package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/redistest"
)

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// launchPair starts two servers in one second, as a compose file does. Their addresses follow the primary. No sentinel
// takes its time, so a process can be there as soon as the replica takes over.
func (r *rig) launchPair() error {
	err := await(func() (err error) {
		if r.nodes, err = startTwins(); err == nil && !sameAge(r.nodes) {
			err = errors.Join(errors.New("not in one second"), stopAll(r.nodes))
			r.nodes = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := r.bridge(r.nodes[0].Addr()); err != nil {
		return err
	}
	r.monitor = impatient(r.proxies[0].Addr())
	return await(func() error { return errors.Join(follows(r.nodes[1], r.nodes[0]), acknowledged(r.nodes[0])) })
}

func startTwins() ([]*redistest.Server, error) {
	servers, errs := make([]*redistest.Server, 2), make([]error, 2)
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() { servers[i], errs[i] = redistest.Start(userArgs...) }) // ends when it answers
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, stopAll(servers))
	}
	return servers, nil
}

func stopAll(servers []*redistest.Server) error {
	var errs []error
	for _, s := range servers {
		if s != nil {
			errs = append(errs, s.Stop())
		}
	}
	return errors.Join(errs...)
}

// sameAge reports whether the servers have the same LASTSAVE, which is the time of the start if nothing was saved.
func sameAge(servers []*redistest.Server) bool {
	var ages []int64
	for _, s := range servers {
		ages = append(ages, s.Client().LastSave(context.Background()).Val())
	}
	return len(slices.Compact(ages)) == 1
}

// alike has both servers save in the same second, because one of them may have been restarted.
func (a *arena) alike() error {
	return await(func() error {
		if sameAge(a.rig.nodes) {
			return nil
		}
		for _, s := range a.rig.nodes {
			if err := s.Client().Save(context.Background()).Err(); err != nil {
				return err
			}
		}
		return errors.New("not in one second")
	})
}

// headStart is how much sooner than the others a process reaches a new server. It leaves them most of the grace.
const headStart = 200 * time.Millisecond

// route redirects the proxies of all processes, except some, to a server.
func (a *arena) route(addr string, but ...*member) {
	for i, way := range a.rig.proxies {
		if !slices.ContainsFunc(but, func(m *member) bool { return a.wayOf(m) == a.rig.proxies[i] }) {
			way.Redirect(addr)
		}
	}
}

// routeFirst redirects all of them, and has one process ask for the seat before the others can.
func (a *arena) routeFirst(addr string, first *member) error {
	a.wayOf(first).Redirect(addr)
	err := first.ask(time.Second, 500*time.Millisecond)
	time.Sleep(headStart)
	a.route(addr, first)
	return err
}

// wayOf is the proxy of a process.
func (a *arena) wayOf(m *member) *redistest.Proxy {
	return a.rig.proxies[1+slices.Index(a.team.all(), m)]
}

// isolate cuts a replica off from its primary.
func isolate(replica *redistest.Server) error {
	return instruct(replica, "REPLICAOF", "127.0.0.1", "1")
}

// promote makes a replica a primary.
func promote(replica *redistest.Server) error { return instruct(replica, "REPLICAOF", "NO", "ONE") }

func instruct(s *redistest.Server, words ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.Client().Do(ctx, words...).Err()
}
