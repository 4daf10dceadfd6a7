package fairsem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Restoring state that Redis lost. A server that is restarted without persistence, or a replica that takes over before it
// had everything, lacks the latest grants. Their holders are still alive: each process restores what it has, with the old
// tokens and positions, before the server grants anything new. Three things make that safe and soon enough:
//
//   - Every script that can grant something compares the identity of the server. A change starts a new epoch, with a
//     grace period.
//   - Every reply carries the epoch. When it differs from that of its tickets, a client queries them at once and restores
//     those that are missing.
//   - When a connection breaks, every name is verified. Every client that has tickets keeps connections open only to see
//     them break: the subscription, and in a cluster one to each primary. While one of these is not established, the
//     client queries several times in each grace period instead.
//
// Within one epoch nothing is restored: an id that is missing there has expired or was removed.

// verifyAll is called when the server may have changed: every nameState queries all its tickets.
func (c *Client) verifyAll() {
	for _, v := range c.everyState() {
		v.verify()
	}
}

// reload is called when a connection broke. In a cluster another node may have replaced that server, which go-redis by
// itself finds out late.
func (c *Client) reload() {
	if c.cluster != nil {
		c.cluster.ReloadState(c.goroutines.Context)
	}
}

// servers records which servers have answered this client, and since when. A name that such a server does not know is a new
// one: the server has lost nothing meanwhile.
type servers struct {
	settled time.Duration // how long a server must be known

	mu     sync.Mutex
	met    map[int64]time.Time
	newest int64
}

// maxServers is how many servers are remembered.
const maxServers = 64

// meet records the server that answered; 0: it does not identify itself.
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

// known lists the servers for a call.
func (s *servers) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for server, since := range s.met {
		form := protocol.NewServer
		if time.Since(since) > s.settled {
			form = protocol.KnownServer
		}
		all = append(all, fmt.Sprintf(form, server))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// knows returns what calls about the name say that this client knows.
func (v *nameState) knows() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != 0 {
		return protocol.UsedBefore
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
		v.scheduleLocked(v.verifySince.Add(lastRetry)) // at the latest: the next try may be scheduled already
	}
}

// checkLocked schedules queries of all tickets for as long as a server could go away unnoticed: often enough to restore
// them within the grace period.
func (v *nameState) checkLocked() {
	if v.checkAt.IsZero() && v.client.unseen.Load() > 0 {
		v.checkAt = time.Now().Add(max(v.client.grace/3, firstRetry))
		v.scheduleLocked(v.checkAt)
	}
}

// noteEpochLocked records the epoch from the reply to a call that was sent at that time.
func (v *nameState) noteEpochLocked(epoch int64, sent time.Time) {
	if epoch == 0 || sent.Before(v.epochSent) {
		return // the reply has none, or is older than the one that is known
	}
	v.epochSent = sent
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

// missedBy reports whether t is to be restored: whether Redis has less of it in this epoch than it had.
func (t *ticket) missedBy(s protocol.State, epoch int64) bool {
	less := s == protocol.Gone || s == protocol.Waiting && t.phase == holding
	return less && t.outdated(epoch) && t.lease.left(t.state.client.clock.Now()) > 0
}

// confirmed records that Redis has t in this epoch. The weight that it has there may be older than the one it had before.
func (t *ticket) confirmed(epoch int64) {
	if t.epoch != epoch {
		t.parts.confirmed = 0
	}
	t.epoch = epoch
}

// restoreLocked restores t. A permit that is never renewed gets the rest of its lease.
func (v *nameState) restoreLocked(t *ticket) {
	lease := t.params.TTL
	if t.noRefresh && t.phase == holding {
		now := v.client.clock.Now()
		lease = t.lease.after(lease, now.Asleep).Sub(now.Time)
	}
	v.submitLocked(t, batchKey{state: v, script: protocol.RestoreScript, spec: t.spec, lease: lease})
}

// number is the token of a holder, or the position of a waiter.
func (t *ticket) number() int64 {
	if t.phase == holding {
		return t.token
	}
	return t.position
}

// claims returns the claims of the tickets, and moves the holders among them to the front.
func (v *nameState) claims(tickets []*ticket) (had protocol.Claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortStableFunc(tickets, func(a, b *ticket) int {
		return cmp.Compare(b.phase, a.phase) // waiting comes before holding
	})
	had.Epoch = v.epoch
	for _, t := range tickets {
		if t.phase == holding {
			had.Holders++
		}
		had.Numbers = append(had.Numbers, t.number())
		had.Units = append(had.Units, t.keeps())
	}
	return had
}
