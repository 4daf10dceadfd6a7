// Package doctor looks for what is wrong with a server, with the rights of a user there, and with the semaphores
// on it. It tells each thing in a line, with what to do, and leaves no key behind.
//
// To add a check, write a function of the file that fits, and put it into the list checks.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
)

// Options are what to look at.
type Options struct {
	Prefix string
	Names  []string      // of semaphores; none: all that are found
	TTL    time.Duration // the shortest of the processes that use the server: what is slow depends on it
}

// check is one thing to look at. Where there is nothing of its kind it finds nothing.
type check struct {
	name string
	run  func(context.Context, *patient) []Finding
}

// checks are in the order in which one is needed to understand the next.
var checks = []check{
	{"busy", each(busy)},
	{"loading", each(loading)},
	{"mode", each(mode)},
	{"slots", slots},
	{"version", each(version)},
	{"role", each(role)},
	{"replicas", each(replicas)},
	{"eviction", each(eviction)},
	{"memory", each(memory)},
	{"persistence", each(persistence)},
	{"writes", each(writes)},
	{"ping", each(ping)},
	{"clock", each(clock)},
	{"slow", each(slow)},
	{"rights", each(neededRights)},
	{"options", each(optionalRights)},
	{"channel", channel},
	{"scripts", library},
	{"semaphores", semaphores},
}

// checkLimit is how long one check may take: for those that look at much, for others go-redis gives up before.
const checkLimit = 5 * time.Minute

// Examine runs all checks and tells what each finds, at once and one after the other. The error is that there is
// no server, that a name can never work (fairsem.ErrInvalid), or the cause of ctx.
func Examine(ctx context.Context, there *dial.Server, o Options, tell func(Finding)) error {
	rdb := there.Client()
	defer func() { _ = rdb.Close() }() // what is in flight nobody waits for any more
	if err := o.check(rdb); err != nil {
		return err
	}
	began := time.Now()
	answer := there.Reach(ctx)
	if answer != nil && !speaks(answer) {
		return answer
	}
	tell(Finding{Check: "server", State: OK, Message: fmt.Sprintf("%s answers, connected within %v", there, short(time.Since(began)))})
	p := &patient{Options: o, there: there, rdb: rdb}
	if f, ok := p.meet(ctx, answer); !ok {
		tell(f)
		return cause(ctx)
	}
	return p.examine(ctx, tell)
}

// check says what can never work, before anything is sent.
func (o Options) check(rdb redis.UniversalClient) error {
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: o.Prefix, TTL: o.TTL})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it never did anything
	for _, name := range o.Names {
		if _, err := client.Semaphore(name, 1); err != nil {
			return err
		}
	}
	return nil
}

func (p *patient) examine(ctx context.Context, tell func(Finding)) error {
	for i, c := range checks {
		findings := p.bounded(ctx, c)
		if err := cause(ctx); err != nil {
			return err
		}
		over := false
		for _, f := range findings {
			f.Check = cmp.Or(f.Check, c.name)
			over = over || f.final
			tell(f)
		}
		if over {
			tell(others(checks[i+1:]))
			break
		}
	}
	return nil
}

// others is for checks that make no sense any more.
func others(rest []check) Finding {
	names := make([]string, len(rest))
	for i, c := range rest {
		names[i] = c.name
	}
	f := skip("not looked at, because of the failure above: %s", strings.Join(names, ", ")).with("checks", names)
	f.Check = "others"
	return f
}

// bounded runs a check for as long as that is allowed. A check that does not come back goes on, as go-redis does
// in a blocked read; when the program was asked to stop it has a moment to clean up.
func (p *patient) bounded(ctx context.Context, c check) []Finding {
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- c.run(limited, p) }() // ends with its I/O; waited for below, but not for ever
	select {
	case found := <-done:
		return found
	case <-limited.Done():
	}
	select {
	case found := <-done:
		return found
	case <-time.After(cleanLimit):
		return []Finding{last(fail(fmt.Sprintf("no end within %v", checkLimit), "see what the server is doing: is it stopped, swapping, or cut off?"))}
	}
}

func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// patient is the server, or the servers, to be looked at.
type patient struct {
	Options
	there *dial.Server
	rdb   redis.UniversalClient
	nodes []*node
}

// node is a server that has keys of its own: the only one, or a master of a cluster.
type node struct {
	rdb  *redis.Client
	addr string
	info map[string]string
	err  error // why there is no info
}

// meet finds the nodes and has each tell of itself. What the server said first, if that was an error, may be why
// it cannot.
func (p *patient) meet(ctx context.Context, answer error) (Finding, bool) {
	cluster, ok := p.rdb.(*redis.ClusterClient)
	if !ok {
		p.nodes = []*node{{rdb: p.rdb.(*redis.Client), addr: p.there.String()}}
	} else if err := p.masters(ctx, cluster); err != nil || len(p.nodes) == 0 {
		if answer != nil {
			err = answer
		}
		return noCluster(err), false
	}
	for _, n := range p.nodes {
		var text string
		if text, n.err = n.rdb.Info(ctx).Result(); n.err == nil {
			n.info = fields(text)
		}
	}
	return Finding{}, true
}

func (p *patient) masters(ctx context.Context, cluster *redis.ClusterClient) error {
	var mu sync.Mutex
	err := cluster.ForEachMaster(ctx, func(_ context.Context, n *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		p.nodes = append(p.nodes, &node{rdb: n, addr: n.Options().Addr})
		return nil
	})
	slices.SortFunc(p.nodes, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	return err
}

// noCluster says why the servers of a cluster do not tell which they are.
func noCluster(err error) Finding {
	switch {
	case redis.IsPermissionError(err):
		f := fail("this user may not ask for the nodes of the cluster: +cluster|slots is missing", "ACL SETUSER ... +cluster|slots on every node")
		f.Check, f.Details = "rights", map[string]any{"missing": []string{"+cluster|slots"}}
		return f
	case err != nil && strings.Contains(err.Error(), "cluster support disabled"):
		f := fail("the server is no part of a cluster", "begin the address with redis:// instead of cluster://")
		f.Check = "mode"
		return f
	}
	f := fail(fmt.Sprintf("the cluster does not tell which servers it has: %v", err), "see what CLUSTER SLOTS says there")
	f.Check = "mode"
	return f
}

// speaks reports whether err is the answer of a server to somebody whom it let in.
func speaks(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	return slices.ContainsFunc([]string{"NOPERM", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "ERR This instance has cluster"},
		func(prefix string) bool { return strings.HasPrefix(reply.Error(), prefix) })
}

// fields takes the answer to INFO apart.
func fields(info string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// each has every node looked at. What is well is told in one line, what is not in one for each node.
func each(ask func(context.Context, *patient, *node) Finding) func(context.Context, *patient) []Finding {
	return func(ctx context.Context, p *patient) (all []Finding) {
		var well []Finding
		details := make(map[string]any)
		for _, n := range p.nodes {
			f := ask(ctx, p, n)
			if len(p.nodes) == 1 {
				return []Finding{f}
			}
			f.Message = n.addr + ": " + f.Message
			details[n.addr] = f.Details
			if f.State == OK {
				well = append(well, f)
			} else {
				all = append(all, f)
			}
		}
		if len(well) > 0 {
			f := well[0]
			f.Details = details
			if len(well) > 1 {
				f.Message += fmt.Sprintf("; so are %d more", len(well)-1)
			}
			all = append(all, f)
		}
		return all
	}
}
