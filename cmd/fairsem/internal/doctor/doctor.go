// Package doctor checks a server, the rights of a user there, and the semaphores on it for problems. It reports each
// result in a line, with advice, and leaves no key behind.
//
// To add a check, write a function of the file that fits, and put it into the list checks.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/failure"
)

// Options select the semaphores to check.
type Options struct {
	Prefix string
	Names  []string      // of semaphores; none: all that are found
	TTL    time.Duration // the shortest of the processes that use the server: the bounds for slow answers depend on it
}

// check is one check. Where it does not apply it returns nothing.
type check struct {
	name string
	run  func(context.Context, *target) []Finding
	long bool // it takes as long as there are keys
}

// checks are in the order in which one is needed to understand the next.
var checks = []check{
	{name: "busy", run: each(busy)},
	{name: "loading", run: each(loadingOf)},
	{name: "mode", run: each(modeOf)},
	{name: "slots", run: slots},
	{name: "version", run: each(fromInfo(version))},
	{name: "role", run: each(fromInfo(role))},
	{name: "replicas", run: each(fromInfo(replicas))},
	{name: "eviction", run: each(fromInfo(eviction))},
	{name: "memory", run: each(fromInfo(memory))},
	{name: "persistence", run: each(withInfo(persistence))},
	{name: "writes", run: each(withInfo(writes))},
	{name: "ping", run: each(ping)},
	{name: "clock", run: each(clock)},
	{name: "slow", run: each(slow)},
	{name: "rights", run: each(neededRights)},
	{name: "optional", run: each(optionalRights)},
	{name: "channel", run: channel},
	{name: "scripts", run: library},
	{name: "semaphores", run: semaphores, long: true},
}

// checkLimit is how long one check may take: it matters for checks with many queries; in others go-redis gives up first.
const checkLimit = 5 * time.Minute

// longLimit is that of the check of all names: hundreds of millions of keys.
const longLimit = time.Hour

// Examine runs all checks one after the other, and reports each finding at once. The error is that there is no server,
// that a name can never work (fairsem.ErrInvalid), or the cause of ctx.
func Examine(ctx context.Context, server *dial.Server, o Options, report func(Finding)) error {
	rdb := server.Client()
	defer func() { _ = rdb.Close() }() // does not wait for commands in flight
	if err := o.check(rdb); err != nil {
		return err
	}
	began := time.Now()
	answer := server.Reach(ctx)
	if answer != nil && !errors.Is(answer, dial.ErrKind) && !failure.AcceptedBefore(answer) {
		return answer
	}
	report(Finding{Check: "server", State: OK, Message: fmt.Sprintf("%s answers, connected within %v", server, short(time.Since(began)))})
	p := &target{Options: o, server: server, rdb: rdb, answer: answer}
	if f, ok := p.connect(ctx); !ok {
		report(f)
		return context.Cause(ctx)
	}
	return p.examine(ctx, report)
}

// check refuses options that can never work, before anything is sent.
func (o Options) check(rdb redis.UniversalClient) error {
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: o.Prefix, TTL: o.TTL})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it never did anything
	for _, name := range o.Names {
		if err := inspect.CheckName(client, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *target) examine(ctx context.Context, report func(Finding)) error {
	for i, c := range checks {
		findings := p.bounded(ctx, c)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		over := false
		for _, f := range findings {
			f.Check = cmp.Or(f.Check, c.name)
			over = over || f.final
			report(f)
		}
		if over {
			for _, f := range others(checks[i+1:]) {
				report(f)
			}
			break
		}
	}
	return nil
}

// others is for checks that make no sense any more, if there are any.
func others(rest []check) []Finding {
	if len(rest) == 0 {
		return nil
	}
	names := make([]string, len(rest))
	for i, c := range rest {
		names[i] = c.name
	}
	return []Finding{skip("not checked, because of the failure above: %s", strings.Join(names, ", ")).of("others").with("checks", names)}
}

// bounded runs a check for as long as that is allowed. A check that does not come back goes on, as go-redis does
// in a blocked read; when the program was asked to stop it has a moment to clean up.
func (p *target) bounded(ctx context.Context, c check) []Finding {
	limit := checkLimit
	if c.long {
		limit = longLimit
	}
	limited, cancel := context.WithTimeout(ctx, limit)
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
		return []Finding{last(fail(fmt.Sprintf("no end within %v", limit), "check the server: is it stopped, swapping, or disconnected?"))}
	}
}
