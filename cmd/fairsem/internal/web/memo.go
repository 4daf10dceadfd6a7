package web

import (
	"context"
	"sync"
	"time"

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

	mu   sync.Mutex
	last map[string]look.Detail // good ones; guarded by mu
}

func newDetails(patience time.Duration, ask func(context.Context, string) (look.Detail, error)) *details {
	return &details{patience: patience, look: ask, last: make(map[string]look.Detail)}
}

// get returns what the name looks like now. If Redis does not say, it is what was last seen, with the error.
func (d *details) get(ctx context.Context, name string) (look.Detail, error) {
	// Others share the answer, so that it is not for the one who asks to end the question.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	fresh, err := d.look(ctx, name)
	if err != nil {
		old, _ := d.kept(name)
		return old, err
	}
	d.keep(name, fresh)
	return fresh, nil
}

func (d *details) kept(name string) (look.Detail, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.last[name]
	return s, ok
}

// forget is after how long nobody can have watched a name.
const forget = 2 * time.Minute

// keep drops what nobody watches any more, and where there is no room keeps nothing.
func (d *details) keep(name string, s look.Detail) {
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
