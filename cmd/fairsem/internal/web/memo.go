package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
)

// mostShared bounds what is kept for sharing. It is more than can watch at a time.
const mostShared = 2 * maxStreams

// memo keeps what was made of the latest look, so that many who watch the same cost no more than one.
type memo struct {
	mu    sync.Mutex
	looks int64                    // guarded by mu
	made  map[string]func() []byte // guarded by mu
}

// get returns what make makes, once for each key and look.
func (m *memo) get(looks int64, key string, make func() []byte) []byte {
	return m.entry(looks, key, sync.OnceValue(make))()
}

func (m *memo) entry(looks int64, key string, once func() []byte) func() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if looks > m.looks || m.made == nil {
		m.looks, m.made = looks, make(map[string]func() []byte)
	}
	if looks < m.looks { // somebody is late: a newer one has come
		return once
	}
	if old, ok := m.made[key]; ok {
		return old
	}
	if len(m.made) < mostShared {
		m.made[key] = once
	}
	return once
}

// details are who holds and who waits, of the names that somebody looks at.
type details struct {
	patience time.Duration
	look     func(context.Context, string) (look.Detail, error)
	flight   singleflight.Group

	mu   sync.Mutex
	last map[string]seen // guarded by mu
}

// seen is the last good look at a name.
type seen struct {
	look.Detail
	looks int64 // of the sampler, then
}

func newDetails(patience time.Duration, look func(context.Context, string) (look.Detail, error)) *details {
	return &details{patience: patience, look: look, last: make(map[string]seen)}
}

// get returns what the name looks like now: no older than the sampler's latest look. If Redis does not say, it
// is what was last seen, with the error.
func (d *details) get(ctx context.Context, looks int64, name string) (look.Detail, error) {
	if old, ok := d.kept(name); ok && old.looks >= looks {
		return old.Detail, nil
	}
	fresh, err, _ := d.flight.Do(name, func() (any, error) {
		// Others share the answer, so that it is not for one of them to end the question.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
		defer cancel()
		detail, err := d.look(ctx, name)
		if err == nil {
			d.keep(name, seen{detail, looks})
		}
		return detail, err
	})
	if err != nil {
		old, _ := d.kept(name)
		return old.Detail, err
	}
	return fresh.(look.Detail), nil
}

func (d *details) kept(name string) (seen, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.last[name]
	return s, ok
}

// forget is after how long nobody can have watched a name.
const forget = 2 * time.Minute

// keep drops what nobody watches any more, and where there is no room keeps nothing.
func (d *details) keep(name string, s seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for other, old := range d.last {
		if s.At.Sub(old.At) > forget {
			delete(d.last, other)
		}
	}
	if _, ok := d.last[name]; ok || len(d.last) < mostShared {
		d.last[name] = s
	}
}
