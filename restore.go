package fairsem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// What Redis lost. A server that is restarted without persistence, or a replica that takes over before
// it had everything, lacks what was granted last. Nobody is dead for that: whoever lives puts back what
// it has, with the old tokens and places, before the server grants anything new. Three things make
// that safe and soon enough:
//
//   - Every script that can let anybody in compares servers. One that the name does not know gives it a new
//     epoch, and a grace period.
//   - Every answer tells the epoch. Whoever sees another one than its tickets have asks about them
//     at once, and puts back those that are missing.
//   - A broken connection puts every view in doubt, and every client that has something keeps a
//     connection open only to see it break: the subscription, in a cluster one with each master. For as
//     long as one of these does not stand, it asks several times in each grace period instead.
//
// Within one epoch nothing is put back: there, an id that is missing has lapsed or was taken out.

// doubt is called when the server may have changed: every view asks about all it has.
func (c *Client) verifyAll() {
	for _, v := range c.everyState() {
		v.verify()
	}
}

// reload is called when a connection broke. In a cluster another node may be in the place of that server by now,
// which go-redis finds out late by itself.
func (c *Client) reload() {
	if c.cluster != nil {
		c.cluster.ReloadState(c.goroutines.ctx)
	}
}

// servers are those that this client has had answers from, and since when. A name that such a server does not know
// is a new one: it has lost nothing meanwhile.
type servers struct {
	settled time.Duration // how long one has to be known

	mu     sync.Mutex
	met    map[int64]time.Time
	newest int64
}

// maxServers is how many are remembered.
const maxServers = 64

// meet takes who answered; 0: it does not say.
func (s *servers) meet(server int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server == 0 || server == s.newest {
		return
	}
	s.newest = server
	if _, known := s.met[server]; known {
		return
	}
	if len(s.met) == maxServers {
		first := server
		for other, since := range s.met {
			if first == server || since.Before(s.met[first]) {
				first = other
			}
		}
		delete(s.met, first)
	}
	s.met[server] = time.Now()
}

// known tells of them in a call.
func (s *servers) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for server, since := range s.met {
		form := newServer
		if time.Since(since) > s.settled {
			form = knownServer
		}
		all = append(all, fmt.Sprintf(form, server))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// knows is what calls about the name tell of it.
func (v *nameState) knows() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != 0 {
		return usedBefore
	}
	return v.client.servers.known()
}

func (v *nameState) verify() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verifySince = time.Now()
	if v.backoff == 0 {
		v.scheduleLocked(v.verifySince)
	} else {
		v.scheduleLocked(v.verifySince.Add(lastRetry)) // at the latest: the next try may be planned already
	}
}

// checkLocked plans to ask about all there is, for as long as a server could go away without this client seeing it:
// often enough to put it back while the grace period lasts.
func (v *nameState) checkLocked() {
	if v.checkAt.IsZero() && v.client.unseen.Load() > 0 {
		v.checkAt = time.Now().Add(max(v.client.grace/3, firstRetry))
		v.scheduleLocked(v.checkAt)
	}
}

// heardLocked takes the epoch from an answer to a question that was sent at that time.
func (v *nameState) heardLocked(epoch int64, sent time.Time) {
	if epoch == 0 || sent.Before(v.told) {
		return // it was not asked, or before the one that is known
	}
	v.told = sent
	if !sent.Before(v.verifySince) {
		v.verifySince = time.Time{}
	} else {
		v.scheduleLocked(time.Now())
	}
	if v.epoch != epoch && v.epoch != 0 {
		v.scheduleLocked(time.Now())
	}
	v.epoch = epoch
}

// outdated reports whether Redis has not confirmed t in this epoch.
func (t *ticket) outdated(epoch int64) bool {
	return (t.phase == waiting || t.phase == holding && !t.lapses()) && epoch != 0 && t.epoch != epoch
}

// missedBy reports whether t is to be put back: whether Redis has less of it in this epoch than it had.
func (t *ticket) missedBy(s state, epoch int64) bool {
	less := s == stateGone || s == stateWaiting && t.phase == holding
	return less && t.outdated(epoch) && t.lease.left(t.state.client.clock.now()) > 0
}

// confirmed: Redis has t in this epoch. What it has in another one may be older than what it had.
func (t *ticket) confirmed(epoch int64) {
	if t.epoch != epoch {
		t.parts.taken = 0
	}
	t.epoch = epoch
}

// restoreLocked puts t back. A permit that is never renewed gets what is left of its lease.
func (v *nameState) restoreLocked(t *ticket) {
	lease := t.params.ttl
	if t.noRefresh && t.phase == holding {
		now := v.client.clock.now()
		lease = t.lease.after(lease, now.asleep).Sub(now.Time)
	}
	v.submitLocked(t, batchKey{state: v, script: restoreScript, spec: t.spec, lease: lease})
}

// claims are what tickets had that are to be put back, those who hold before those who wait.
type claims struct {
	holders int     // how many they are
	epoch   int64   // in which they are missing
	numbers []int64 // of each ticket, its token or its place
	units   []int64 // of each ticket
}

// number is the token of a holder, or the place of a waiter.
func (t *ticket) number() int64 {
	if t.phase == holding {
		return t.token
	}
	return t.position
}

// claims puts those of the tickets first that hold.
func (v *nameState) claims(tickets []*ticket) (had claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortStableFunc(tickets, func(a, b *ticket) int {
		return cmp.Compare(b.phase, a.phase) // those who wait have not got so far
	})
	had.epoch = v.epoch
	for _, t := range tickets {
		if t.phase == holding {
			had.holders++
		}
		had.numbers = append(had.numbers, t.number())
		had.units = append(had.units, t.keeps())
	}
	return had
}
