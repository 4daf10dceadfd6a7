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

	"github.com/fairsem/fairsem/internal/history"
)

// run is one fault on fresh servers.
type run struct {
	fault  fault
	seed   uint64
	length time.Duration
	binary string // of the workers
	keep   string // folder for the histories; "": they go
}

// arena is what a nemesis has to play with.
type arena struct {
	context.Context // ends when the time is up
	rig             *rig
	team            *team
	monitor         *monitor
	store           *store
	random          *rand.Rand

	fault   fault
	strikes []strike
	mended  int64 // by the strike under way, before its end; 0: it was not
}

// strike is one thing that went wrong.
type strike struct {
	what   string
	began  int64
	healed int64 // from when on all could be well
	ended  int64 // when all was tidied up, too
}

// evidence is all that is known of a run afterwards.
type evidence struct {
	run     run
	ttl     time.Duration
	calls   []*call
	grants  map[string][]history.Grant // by semaphore, with the places that the monitor saw
	members []*member
	monitor *monitor
	strikes []strike
	litter  []string         // what stays in Redis
	looks   []string         // what the observer saw that should not be
	queued  map[string]int64 // id -> when its process was told that it stands in line
	fenced  register
	naive   register // the unfenced twin
	began   int64    // when the load did
	ended   int64    // when it did
}

// The load of a run.
const (
	processes = 3
	callers   = 6
	keepers   = 1
	writers   = 2
)

// play starts servers and workers, lets the nemesis loose, and returns what was seen.
func (r run) play(ctx context.Context) (e *evidence, err error) {
	folder, err := os.MkdirTemp("", "fairsem-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	servers, err := startRig(r.fault.kind, folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.stop()) }()
	s, err := startStore()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	t := &team{binary: r.binary, folder: folder, order: r.order(s), address: servers.address}
	watch := startMonitor(servers.monitor)
	a := &arena{fault: r.fault, rig: servers, team: t, monitor: watch, store: s, random: rand.New(rand.NewPCG(r.seed, 1))}
	began := history.Now()
	broken := a.fight(ctx, r)
	ended := history.Now()
	broken = errors.Join(broken, t.dismiss())
	watch.end()
	if broken != nil {
		return nil, broken
	}
	e = &evidence{run: r, ttl: t.order.Options.TTL, monitor: watch, members: t.all(), strikes: a.strikes, began: began, ended: ended}
	e.fenced, e.naive = s.result()
	if e.litter, err = servers.litter(e.ttl); err != nil {
		return nil, err
	}
	if e.calls, err = t.histories(); err != nil {
		return nil, err
	}
	e.join()
	return e, r.save(folder)
}

// order is what the workers of the run are told.
func (r run) order(s *store) order {
	o := order{
		Seed: r.seed, Callers: callers, Keepers: keepers, Writers: writers,
		Store: s.addr(), Options: r.fault.options, Deaf: r.fault.deaf,
		Keeping: r.fault.keeping, Heavy: r.fault.heavy,
	}
	if o.Options.TTL == 0 {
		o.Options.TTL = time.Second
	}
	return o
}

// calm is how much of a run is without faults at its end. It is longer where nobody gets in meanwhile.
const calm = time.Second

// fight hires the team and strikes until the time is up.
func (a *arena) fight(ctx context.Context, r run) error {
	length := max(r.length, r.fault.least)
	storm, end := context.WithTimeout(ctx, max(length-calm, length/2))
	defer end()
	a.Context = storm
	for _, role := range slices.Concat(slices.Repeat([]string{atWork}, processes), []string{looks}, slices.Repeat([]string{onCall}, a.fault.onCall)) {
		if err := a.team.hireFor(role); err != nil {
			return err
		}
	}
	for a.pause(200*time.Millisecond, 700*time.Millisecond); a.Err() == nil; a.pause(100*time.Millisecond, 900*time.Millisecond+r.fault.rest) {
		if err := a.strike(); err != nil {
			return fmt.Errorf("%s: %w", r.fault.name, err)
		}
	}
	a.recover(ctx)
	return ctx.Err()
}

// recover waits until everybody who should get in does, or until it is clear that nobody will.
func (a *arena) recover(ctx context.Context) {
	over := history.Now()
	for history.Now() < over+int64(a.fault.recovery(a.team.order.Options)+time.Second) && ctx.Err() == nil {
		rest(ctx, 20*time.Millisecond)
		if history.Now() > over+int64(calm) && a.monitor.grantedSince(over) {
			return
		}
	}
}

// strike has the fault strike once, and heal.
func (a *arena) strike() error {
	a.mended = 0
	began := history.Now()
	what, err := a.fault.strike(a)
	ended := history.Now()
	a.strikes = append(a.strikes, strike{what, began, cmp.Or(a.mended, ended), ended})
	return err
}

// works is for strikes that go on tidying up when all could be well already.
func (a *arena) works() { a.mended = history.Now() }

// pause lets some time pass, though not beyond the end of the storm.
func (a *arena) pause(least, most time.Duration) {
	rest(a, least+time.Duration(a.random.Int64N(int64(most-least))))
}

// last is pause to the end, whatever becomes of the storm: what was begun has to be seen.
func (a *arena) last(least, most time.Duration) time.Duration {
	d := least + time.Duration(a.random.Int64N(int64(most-least)))
	time.Sleep(d)
	return d
}

// join puts together what the workers and the monitor saw. The place in line of a grant becomes the time
// at which it was confirmed, and a caller asked when its clock said so: one clock for both.
func (e *evidence) join() {
	e.grants = make(map[string][]history.Grant)
	if e.queued == nil {
		e.queued = make(map[string]int64)
	}
	e.calls = slices.DeleteFunc(e.calls, func(c *call) bool {
		switch c.Name {
		case lookName:
			e.looks = append(e.looks, fmt.Sprintf("%s at %d: %s", c.Process, c.Asked, c.Wrong))
		case queuedName:
			e.queued[c.ID] = c.Asked
		}
		return c.Name == lookName || c.Name == queuedName
	})
	for _, c := range e.calls {
		g := c.Grant
		g.AskedWall = g.Asked
		g.Position = e.confirmed(g.ID)
		e.grants[c.Name] = append(e.grants[c.Name], g)
	}
}

// confirmed returns since when a place in line counts; 0: never. That is when the monitor saw it, which needs no word of
// the library's; but what is seen on a server that may forget it counts from when its process was told of it.
func (e *evidence) confirmed(id string) int64 {
	if e.run.fault.forgets {
		return e.queued[id]
	}
	return e.monitor.inLine[id]
}

// save keeps the histories for a look at them.
func (r run) save(folder string) error {
	if r.keep == "" {
		return nil
	}
	return os.CopyFS(fmt.Sprintf("%s/%s-%d", r.keep, r.fault.slug(), r.seed), os.DirFS(folder))
}

// busy are the semaphores at which somebody gets in all the time, when all is well.
var busy = []string{poolName, soloName}

// member is the worker of that name.
func (e *evidence) member(name string) *member {
	for _, m := range e.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// processes tells which worker a client id is of, as far as it was granted anything.
func (e *evidence) processes() map[string]string {
	all := make(map[string]string)
	for _, c := range e.calls {
		if c.ID != "" {
			all[clientOf(c.ID)] = c.Process
		}
	}
	return all
}

// clientOf returns what all permit ids of one client begin with.
func clientOf(id string) string {
	client, _, _ := strings.Cut(id, ":")
	return client
}
