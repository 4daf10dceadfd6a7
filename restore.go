package fairsem

import (
	"cmp"
	"slices"
	"time"
)

// What Redis lost. A server that is restarted without persistence, or a replica that takes over before
// it had everything, lacks what was granted last. Nobody is dead for that: whoever lives puts back what
// it has, with the old tokens and places, before the server grants anything new. Three things make
// that safe and soon enough:
//
//   - Scripts compare servers: at a glance always, and for certain if somebody is new or saw one break. One
//     that the name does not know gives it a new epoch, and a grace period.
//   - Every answer tells the epoch. Whoever sees another one than its tickets have asks about them
//     at once, and puts back those that are missing.
//   - A broken connection puts every view in doubt, and every client that has something keeps a
//     connection open only to see it break: the subscription, in a cluster one with each master.
//
// Within one epoch nothing is put back: there, an id that is missing has lapsed or was taken out.

// doubt is called when the server may have changed: every view asks about all it has.
func (c *Client) doubt() {
	for _, v := range c.everyView() {
		v.doubt()
	}
}

// noteBreak is called when a connection broke. In a cluster another node may be in the place of that
// server by now, which go-redis finds out late by itself.
func (c *Client) noteBreak() {
	c.broken.Store(int64(time.Since(start)))
	if c.cluster != nil {
		c.cluster.ReloadState(c.crew.ctx)
	}
}

func (v *view) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doubted = time.Now()
	if v.backoff == 0 { // else it tries again soon as it is
		v.planLocked(v.doubted)
	}
}

// graceNow is what a call tells the server: the time of grace, negative if no connection broke of late.
func (c *Client) graceNow() time.Duration {
	if c.brokeLately() {
		return c.grace
	}
	return -c.grace
}

func (c *Client) brokeLately() bool {
	return time.Since(start)-time.Duration(c.broken.Load()) <= c.grace
}

// heardLocked takes the epoch from an answer to a question that was sent at that time.
func (v *view) heardLocked(epoch int64, sent time.Time) {
	if epoch == 0 {
		return // it was not asked
	}
	if !sent.Before(v.doubted) {
		v.doubted = time.Time{}
	} else {
		v.planLocked(time.Now())
	}
	if v.epoch != epoch && v.epoch != 0 {
		v.planLocked(time.Now())
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
	return less && t.outdated(epoch) && t.lease.left(t.view.client.clock.now()) > 0
}

// confirmed: Redis has t in this epoch. What it has in another one may be older than what it had.
func (t *ticket) confirmed(epoch int64) {
	if t.epoch != epoch {
		t.parts.taken = 0
	}
	t.epoch = epoch
}

// restoreLocked puts t back. A permit that is never renewed gets what is left of its lease.
func (v *view) restoreLocked(t *ticket) {
	lease := t.terms.ttl
	if t.noRefresh && t.phase == holding {
		now := v.client.clock.now()
		lease = t.lease.after(lease, now.asleep).Sub(now.Time)
	}
	v.submitLocked(t, job{view: v, script: restoreScript, quota: t.quota, lease: lease})
}

// claims are what tickets had that are to be put back, those who hold before those who wait.
type claims struct {
	holders int     // how many they are
	numbers []int64 // of each ticket, its token or its place
	units   []int64 // of each ticket
}

// claims puts those of the tickets first that hold.
func (v *view) claims(tickets []*ticket) (had claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortStableFunc(tickets, func(a, b *ticket) int {
		return cmp.Compare(min(b.token, 1), min(a.token, 1))
	})
	for _, t := range tickets {
		if t.token != 0 {
			had.holders++
		}
		had.numbers = append(had.numbers, cmp.Or(t.token, t.place))
		had.units = append(had.units, t.keeps())
	}
	return had
}
