package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
)

// The decisive check: the library itself acquires a permit, releases it, and is notified of a grant.

const (
	trialTTL      = 5 * time.Second // for so long a server that is busy may not answer
	trialLimit    = 15 * time.Second
	trialTurns    = 10
	maxUnnotified = 2             // after so many turns without a message the trial ends
	pollDelay     = trialTTL / 10 // a later grant came without a message; an earlier one can have been found by a poll
	cleanLimit    = 2 * time.Second
)

// doctorLabel is the label that operators see for a moment.
const doctorLabel = "fairsem doctor"

// trial is the result of a trial of the library on one server.
type trial struct {
	addr  string
	first time.Duration // until the first permit
	grace bool          // which had to wait, though there was no other caller
	round time.Duration // of another permit, and back
	wake  time.Duration // from a release to the permit of the waiter
	by    fairsem.GrantedBy
	err   error
}

// library tries a throw-away name on every server.
func library(ctx context.Context, p *target) []Finding {
	var trials []trial
	for _, n := range p.nodes {
		name, err := p.nameOn(ctx, n)
		if errors.Is(err, errNoSlots) {
			continue // it serves no name
		} else if err != nil {
			return []Finding{notChecked(err, "+cluster|slots")}
		}
		t := p.runTrial(ctx, name)
		t.addr = n.addr
		if t.err != nil {
			return []Finding{judgeTrial(t)}
		}
		trials = append(trials, t)
	}
	if len(trials) == 0 {
		return []Finding{fail("no server has any slots", "see the check slots")}
	}
	worst, slowest := trials[0], trials[0]
	for _, t := range trials {
		if t.first > worst.first {
			worst = t
		}
		if slowest.by == fairsem.GrantedByMessage && (t.by != fairsem.GrantedByMessage || t.wake > slowest.wake) {
			slowest = t
		}
	}
	return []Finding{judgeTrial(worst), judgeWake(slowest, len(p.silent) > 0)}
}

func judgeTrial(t trial) Finding {
	switch {
	case errors.Is(t.err, fairsem.ErrUnavailable), errors.Is(t.err, context.DeadlineExceeded):
		return fail(fmt.Sprintf("%s grants nothing: %v", t.addr, t.err), "docs/failure-modes.md lists causes by the error of the server")
	case t.err != nil:
		return fail(fmt.Sprintf("%s grants nothing: %v", t.addr, t.err), "every call of every process fails like this")
	}
	found := ok("a permit is granted and released within %v", short(t.round))
	if t.grace {
		found = ok("a permit is granted and released within %v; the first took %v, because a server that was just started grants nothing until its grace period is over",
			short(t.round), short(t.first))
	}
	return found.with("first_ms", millis(t.first)).with("round_ms", millis(t.round)).with("grace", t.grace)
}

// judgeWake judges how a waiter was notified; silent is whether a node of the cluster does not answer. Each client receives its messages
// from one node, whichever names it uses: the one of the slot of its channel.
func judgeWake(t trial, silent bool) Finding {
	found := ok("a release notifies a waiter within %v", short(t.wake))
	if t.by != fairsem.GrantedByMessage {
		advice := "the checks optional and channel above report a missing right, or where messages are lost"
		if silent {
			advice = "processes whose messages come from the node that does not answer get none, of any name: see the check slots"
		}
		found = warn(fmt.Sprintf("a release on %s notifies no waiter: it found its permit by a query, after %v", t.addr, short(t.wake)), advice)
	}
	return found.of("wake").with("wake_ms", millis(t.wake)).with("by", string(t.by))
}

var errNoSlots = errors.New("the server has no slots")

// nameOn returns an unused name whose keys are on that server.
func (p *target) nameOn(ctx context.Context, n *node) (string, error) {
	cluster, is := p.rdb.(*redis.ClusterClient)
	const enough = 100_000
	for range enough {
		name := "doctor-" + uuid.NewString()
		if !is {
			return name, nil
		}
		primary, err := cluster.MasterForKey(ctx, p.space().Key(name, protocol.Owner))
		if err != nil {
			return "", err
		}
		if primary.Options().Addr == n.addr {
			return name, nil
		}
	}
	return "", errNoSlots
}

// runTrial measures the library under a temporary name, and leaves nothing.
func (p *target) runTrial(ctx context.Context, name string) (t trial) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	defer p.deleteKeys(ctx, p.keys(name)...) // when both have left
	holder, err := p.newTestClient(name)
	if err != nil {
		return trial{err: err}
	}
	defer p.closeTestClient(ctx, holder)
	waiter, err := p.newTestClient(name)
	if err != nil {
		return trial{err: err}
	}
	defer p.closeTestClient(ctx, waiter)

	began := time.Now()
	e, err := holder.acquireRelease(ctx)
	t.first, t.grace = time.Since(began), e.Queued
	if err == nil {
		began = time.Now()
		_, err = holder.acquireRelease(ctx)
		t.round = time.Since(began)
	}
	for turns, unnotified := 0, 0; turns < trialTurns && unnotified < maxUnnotified && err == nil && t.by != fairsem.GrantedByMessage; turns++ {
		if t.wake, t.by, err = wake(ctx, holder, waiter); t.wake > pollDelay {
			unnotified++
		}
	}
	t.err = err
	return t
}

// deleteKeys removes keys of the doctor, which are in one slot. Keys that it cannot remove expire within half a minute.
func (p *target) deleteKeys(ctx context.Context, keys ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	_ = p.rdb.Del(ctx, keys...).Err() // see above
}

// testClient is a separate process, as far as Redis can tell.
type testClient struct {
	client  *fairsem.Client
	sem     *fairsem.Semaphore
	id      string // of its process; of the observer, until the client is closed
	waiting chan struct{}
	granted chan fairsem.GrantedEvent
}

func (p *target) newTestClient(name string) (*testClient, error) {
	g := &testClient{waiting: make(chan struct{}, trialTurns), granted: make(chan fairsem.GrantedEvent, 2+trialTurns)}
	client, err := fairsem.New(p.rdb, fairsem.Options{Prefix: p.Prefix, TTL: trialTTL, Label: doctorLabel, Observer: g.observe})
	if err != nil {
		return nil, err
	}
	g.client = client
	g.sem, err = client.Semaphore(name, 1)
	return g, err
}

// observe notes as many events as there can be, so that none holds the client up.
func (g *testClient) observe(e fairsem.Event) {
	switch e := e.(type) {
	case fairsem.WaitStartedEvent:
		g.id, _, _ = strings.Cut(e.ID, ":")
		select {
		case g.waiting <- struct{}{}:
		default: // a position that was lost and taken again
		}
	case fairsem.GrantedEvent:
		g.id, _, _ = strings.Cut(e.ID, ":")
		g.granted <- e
	}
}

// closeTestClient closes the client, which deletes its label, unless the command is lost.
func (p *target) closeTestClient(ctx context.Context, g *testClient) {
	_ = g.client.Close() // permits that are not released expire
	p.deleteKeys(ctx, p.space().LabelKey(g.id))
}

// acquire returns a permit, and how it was granted.
func (g *testClient) acquire(ctx context.Context) (*fairsem.Permit, fairsem.GrantedEvent, error) {
	permit, err := g.sem.Acquire(ctx, 1)
	if err != nil {
		return nil, fairsem.GrantedEvent{}, err
	}
	select {
	case e := <-g.granted:
		return permit, e, nil
	case <-ctx.Done():
		return permit, fairsem.GrantedEvent{}, ctx.Err()
	}
}

// acquireRelease acquires a permit and releases it.
func (g *testClient) acquireRelease(ctx context.Context) (fairsem.GrantedEvent, error) {
	permit, e, err := g.acquire(ctx)
	if permit != nil {
		err = errors.Join(err, permit.Release(ctx))
	}
	return e, err
}

// wake makes one client wait for the permit that the other releases. It returns how long that took, and how the waiter learned of
// its grant.
func wake(ctx context.Context, holder, waiter *testClient) (time.Duration, fairsem.GrantedBy, error) {
	permit, _, err := holder.acquire(ctx)
	if err != nil {
		return 0, "", err
	}
	type outcome struct {
		granted fairsem.GrantedEvent
		err     error
	}
	done := make(chan outcome, 1)
	go func() { // ends with ctx at the latest; waited for below
		e, err := waiter.acquireRelease(ctx)
		done <- outcome{e, err}
	}()
	select {
	case <-waiter.waiting:
	case <-ctx.Done():
	}
	released := time.Now()
	err = permit.Release(ctx)
	o := <-done
	return o.granted.At.Sub(released), o.granted.By, errors.Join(err, o.err)
}
