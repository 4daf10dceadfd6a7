package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/history"
)

// run is one fault on fresh servers.
type run struct {
	fault  fault
	seed   uint64
	length time.Duration
	binary string // of the workers
	keep   string // the folder for the histories; "": they are removed
}

// duration returns how long the processes run.
func (r run) duration() time.Duration { return max(r.length, r.fault.minLength) }

// environment contains the servers and processes that a strike can use, and their observers.
type environment struct {
	context.Context // ends when no more strikes begin
	deployment      *deployment
	processes       *processSet
	monitor         *monitor
	store           *store
	random          *rand.Rand

	fault   fault
	strikes []strike
	healed  int64 // when the current strike healed, if that was before its end, or 0
}

// strike is one occurrence of a fault.
type strike struct {
	what   string
	began  int64
	healed int64 // when everything could work again
	ended  int64 // when the strike had also cleaned up
}

// evidence is everything that was recorded in a run.
type evidence struct {
	run       run
	ttl       time.Duration
	calls     []*call
	grants    map[string][]history.Grant // by semaphore, with the positions that the monitor saw
	processes []*process
	monitor   *monitor
	strikes   []strike
	leftovers []string                // keys that stay in Redis
	observed  []string                // violations that the observer saw
	queued    map[string]int64        // id -> when its process was notified that it is in the queue
	counters  [1 + slotsLimit]counter // of the store
	common    int64                   // accesses that a store would have refused that keeps one token for all of slots
	began     int64                   // when the load began
	ended     int64                   // when the load ended
}

// The load of a run: the number of workers, and of the goroutines of each kind in each worker.
const (
	workers       = 3
	shortHolders  = 6
	longHolders   = 1
	storeWriters  = 2 // of solo and of slots
	tenantCallers = 3 // of each tenant, so that all of them wait most of the time
)

// execute starts servers and workers, makes the fault strike, and returns the evidence.
func (r run) execute(ctx context.Context) (e *evidence, err error) {
	folder, err := os.MkdirTemp("", "fairsem-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	servers, err := startDeployment(r.fault.kind, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	s, err := startStore()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	t := &processSet{binary: r.binary, folder: folder, config: r.workerConfig(s), address: servers.address}
	mon := startMonitor(servers.monitor)
	env := &environment{fault: r.fault, deployment: servers, processes: t, monitor: mon, store: s, random: rand.New(rand.NewPCG(r.seed, 1))}
	began := history.Now()
	failed := env.strikeRepeatedly(ctx, r)
	ended := history.Now()
	failed = errors.Join(failed, t.stop())
	mon.end()
	if failed != nil {
		return nil, failed
	}
	e = &evidence{run: r, ttl: t.config.Options.TTL, monitor: mon, processes: t.all(), strikes: env.strikes, began: began, ended: ended}
	e.counters, e.common = s.result()
	if e.leftovers, err = servers.leftovers(e.ttl); err != nil {
		return nil, err
	}
	if e.calls, err = t.histories(); err != nil {
		return nil, err
	}
	e.join()
	return e, r.save(folder)
}

// workerConfig returns the common part of the configurations of all workers.
func (r run) workerConfig(s *store) workerConfig {
	o := workerConfig{
		Seed: r.seed, ShortHolders: shortHolders, LongHolders: longHolders, Writers: storeWriters, TenantCallers: tenantCallers,
		Store: s.addr(), Options: r.fault.options, NoMessages: r.fault.noMessages,
		LongOptions: r.fault.longOptions, LongWeights: r.fault.longWeights,
		// The faults of one seed are of both kinds.
		UsualTenants: (r.seed+uint64(len(r.fault.name)))%2 == 0,
	}
	if o.Options.TTL == 0 {
		o.Options.TTL = time.Second
	}
	return o
}

// calmTime is how long no fault strikes at the end of a run. It is longer if no call is granted during that time.
const calmTime = time.Second

// strikeRepeatedly starts the processes and makes the fault strike until the time is over.
func (env *environment) strikeRepeatedly(ctx context.Context, r run) error {
	length := r.duration()
	striking, end := context.WithTimeout(ctx, max(length-calmTime, length/2))
	defer end()
	env.Context = striking
	for _, role := range slices.Concat(slices.Repeat([]string{roleWorker}, workers), []string{roleObserver}, slices.Repeat([]string{roleOnCall}, env.fault.onCall)) {
		if err := env.processes.start(role); err != nil {
			return err
		}
	}
	for env.pause(200*time.Millisecond, 700*time.Millisecond); env.Err() == nil; env.pause(100*time.Millisecond, 900*time.Millisecond+r.fault.maxPause) {
		if err := env.strike(); err != nil {
			return err
		}
	}
	if r.fault.control {
		if err := env.strikeUntilWritesAreLost(ctx); err != nil {
			return err
		}
	}
	env.awaitGrants(ctx)
	return ctx.Err()
}

// strikeUntilWritesAreLost goes on until the unfenced store has lost a write of each kind, or that has taken too long. Whether the number of
// a writer that is stopped is granted to another in time is chance, and a short run has two strikes.
func (env *environment) strikeUntilWritesAreLost(ctx context.Context) error {
	longer, end := context.WithTimeout(ctx, 30*time.Second)
	defer end()
	env.Context = longer
	for counters, _ := env.store.result(); env.Err() == nil && !loseWrites(counters); counters, _ = env.store.result() {
		if err := env.strike(); err != nil {
			return err
		}
	}
	return nil
}

// loseWrites reports whether the unfenced copies have lost writes of solo and of slots.
func loseWrites(counters [1 + slotsLimit]counter) bool {
	return counters[0].unfenced.lost() > 0 && unfencedLost(counters[1:]) > 0
}

// awaitGrants waits until each contended semaphore has a new grant, of which its caller must have heard, or until that has taken too long.
func (env *environment) awaitGrants(ctx context.Context) {
	over := history.Now()
	for history.Now() < over+int64(env.fault.recovery(env.processes.config.Options)+time.Second) && ctx.Err() == nil {
		clock.Sleep(ctx, 20*time.Millisecond)
		if history.Now() > over+int64(calmTime) && env.monitor.grantedSince(over) {
			clock.Sleep(ctx, noticeTime(env.processes.config.Options.TTL))
			return
		}
	}
}

// strike makes the fault strike once and heal.
func (env *environment) strike() error {
	env.healed = 0
	began := history.Now()
	what, err := env.fault.strike(env)
	ended := history.Now()
	env.strikes = append(env.strikes, strike{what, began, cmp.Or(env.healed, ended), ended})
	if err != nil {
		return fmt.Errorf("%s: %w", env.fault.name, err)
	}
	return nil
}

// markHealed is called by strikes that still clean up when everything could already work again.
func (env *environment) markHealed() { env.healed = history.Now() }

// pause waits for a random time, but no longer than strikes may begin.
func (env *environment) pause(least, most time.Duration) {
	clock.Sleep(env, least+time.Duration(env.random.Int64N(int64(most-least))))
}

// wait waits for a random time, even if no more strikes begin: a strike that has begun must take effect.
func (env *environment) wait(least, most time.Duration) time.Duration {
	d := least + time.Duration(env.random.Int64N(int64(most-least)))
	time.Sleep(d)
	return d
}

// join combines the records of the workers and the monitor. The position of a grant becomes the time at which the position was
// confirmed, and the time of the request is that of the same clock. So the two can be compared.
func (e *evidence) join() {
	e.grants = make(map[string][]history.Grant)
	if e.queued == nil {
		e.queued = make(map[string]int64)
	}
	ids := make(map[string]string) // process and number of a call -> its id in the queue
	e.calls = slices.DeleteFunc(e.calls, func(c *call) bool {
		switch c.Name {
		case observedName:
			e.observed = append(e.observed, fmt.Sprintf("%s at %d: %s", c.Process, c.Asked, c.Violation))
		case queuedName:
			e.queued[c.ID] = c.Asked
			ids[fmt.Sprint(c.Process, " ", c.Of)] = c.ID
		}
		return c.Name == observedName || c.Name == queuedName
	})
	for _, c := range e.calls {
		g := c.Grant
		g.ID = cmp.Or(c.ID, ids[fmt.Sprint(c.Process, " ", c.Number)])
		c.queued = g.ID
		g.AskedWall = g.Asked
		g.Position, g.Left = e.confirmed(g.ID), e.waited(c, g.ID)
		g.Done = e.done(c, g.ID)
		e.grants[c.Name] = append(e.grants[c.Name], g)
	}
}

// done returns after which time a call certainly holds nothing on the server, or 0 if that is unknown. A server that may lose its state
// may lose a release, and have the permit again: then it counts until the monitor no longer sees it.
func (e *evidence) done(c *call, id string) int64 {
	gone, seen := e.monitor.gone[id]
	if e.run.fault.losesState && e.monitor.holding[id] > 0 {
		if !seen {
			return 0
		}
		return max(c.Done, gone)
	}
	return cmp.Or(c.Done, gone, e.freed(c), e.forgotten(c, id))
}

// forgotten returns when the server must have forgotten a call that failed, or 0. A strike may have kept what the call sent, and
// have delivered it later.
func (e *evidence) forgotten(c *call, id string) int64 {
	if c.Failure == "" {
		return 0
	}
	last := max(c.Returned, e.monitor.waiting[id], e.monitor.holding[id])
	for _, s := range e.strikes {
		if s.began < last {
			last = max(last, s.healed)
		}
	}
	return last + int64(deadTime(e.ttl))
}

// freed returns when the units of a killed process must be free, or 0. If they are not, deadReleased is broken.
func (e *evidence) freed(c *call) int64 {
	proc := e.process(c.Process)
	if proc == nil || proc.killedAt() == 0 || c.Name == asideName {
		return 0
	}
	return proc.killedAt() + int64(deadTime(e.ttl))
}

// confirmed returns the time from which a position in the queue counts, or 0 if it never does. That is when the monitor first saw
// it, so the check does not depend on the library. If the server may lose its state, it is when the process was notified.
func (e *evidence) confirmed(id string) int64 {
	if e.run.fault.losesState {
		return e.queued[id]
	}
	return e.monitor.queued[id]
}

// waited returns until when a call certainly waited, or 0 if that is unknown. A copy of its acquire that the network delivers when the
// tombstone of its release has expired is in the queue, too, but not the call.
func (e *evidence) waited(c *call, id string) int64 {
	if left := e.monitor.waiting[id]; c.Token == 0 || left < c.Returned {
		return left
	}
	return 0
}

// save copies the histories to the folder of -keep.
func (r run) save(folder string) error {
	if r.keep == "" {
		return nil
	}
	return os.CopyFS(fmt.Sprintf("%s/%s-%d", r.keep, r.fault.slug(), r.seed), os.DirFS(folder))
}

// contended are the semaphores that are granted all the time while everything works.
var contended = []string{poolName, soloName, slotsName, sharedName}

// process returns the process of that name.
func (e *evidence) process(name string) *process {
	for _, proc := range e.processes {
		if proc.name == name {
			return proc
		}
	}
	return nil
}

// clientProcesses returns the process of each client id that was granted a permit.
func (e *evidence) clientProcesses() map[string]string {
	all := make(map[string]string)
	for _, c := range e.calls {
		if c.ID != "" {
			all[clientOf(c.ID)] = c.Process
		}
	}
	return all
}

// clientOf returns the client id with which a permit id begins.
func clientOf(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}
