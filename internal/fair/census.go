package fair

import (
	"context"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// Census is who holds units of a name, and who waits for some, by the id of the Client: see [held.ClientOf].
type Census struct {
	Name        string
	At          time.Time // of the answer
	Limit, Used int64
	TTL         time.Duration // at least two thirds of it; 0: no call waits
	All         map[string]Process
}

const maxListed = 5000 // more holders or waiters are not counted

// Take asks Redis. If no call waits, it lists no holders.
func Take(ctx context.Context, name *fairsem.Inspector) (now Census, err error) {
	s, err := name.Status(ctx)
	now = Census{Name: name.Name(), At: time.Now(), Limit: s.Limit, Used: s.Used, All: make(map[string]Process)}
	if err != nil || s.Waiting == 0 {
		return now, err
	}
	listed := 0
	for t, err := range name.Waiters(ctx) {
		if err != nil {
			return now, err
		}
		if listed++; listed > maxListed {
			break
		}
		one := now.All[held.ClientOf(t.ID)]
		one.Waiting += t.Weight
		now.All[held.ClientOf(t.ID)] = one
	}
	listed = 0
	for t, err := range name.Holders(ctx) {
		if err != nil { // what is missing of others would make this process's part too large
			return now, err
		}
		if listed++; listed > maxListed {
			break
		}
		one := now.All[held.ClientOf(t.ID)]
		one.Held += t.Weight
		now.All[held.ClientOf(t.ID)] = one
		now.TTL = max(now.TTL, t.ExpiresIn)
	}
	return now, nil
}

// OthersWait reports whether a process other than me waits.
func (c Census) OthersWait(me string) bool {
	for id, p := range c.All {
		if id != me && p.Waiting > 0 {
			return true
		}
	}
	return false
}

// FirstPause is that before a check that knows no TTL.
const FirstPause = time.Second

const (
	minPause = 20 * time.Millisecond
	maxPause = 30 * time.Second
)

// Pause is how long a pool waits for its next check while others wait.
func (c Census) Pause() time.Duration { return min(max(c.TTL/3, minPause), maxPause) }
