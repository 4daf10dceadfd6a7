package fairsem

import (
	"sync"
	"time"
)

// declarations remembers when this client first used which limits, so that the newest of all clients
// stands. It forgets those that were not used for long: names that come and go cost no memory for
// ever. Having forgotten some, it takes any that it does not know for as old as the client, so that a
// forgotten limit cannot replace what was declared since.
type declarations struct {
	began time.Time

	mu       sync.Mutex
	now, old map[handle]firstUse
}

// handle is what a Semaphore is made with.
type handle struct {
	name string
	spec limitSpec
}

// firstUse is when a handle was first used: on the clock of this process, and, as soon as Redis has
// answered, on the server's, in microseconds.
type firstUse struct {
	here   time.Time
	server int64
}

// rememberedDeclarations is how many at least are remembered, and half of how many at most.
const rememberedDeclarations = 1 << 14

// declare returns what to send of a handle.
func (d *declarations) declare(name string, q limitSpec) declaration {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := handle{name, q}
	use, known := d.findLocked(h)
	if !known {
		use.here = d.began
		if d.old == nil {
			use.here = time.Now()
		}
		d.rememberLocked(h, use)
	}
	if use.server != 0 {
		return declaration{spec: q, since: use.server}
	}
	return declaration{spec: q, since: -time.Since(use.here).Microseconds()}
}

// learn takes the server's time of a first use.
func (d *declarations) learn(name string, q limitSpec, server int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := handle{name, q}
	if use, known := d.findLocked(h); known && use.server == 0 {
		use.server = server
		d.rememberLocked(h, use)
	}
}

func (d *declarations) findLocked(h handle) (firstUse, bool) {
	if use, ok := d.now[h]; ok {
		return use, true
	}
	use, ok := d.old[h]
	if ok {
		d.rememberLocked(h, use)
	}
	return use, ok
}

func (d *declarations) rememberLocked(h handle, use firstUse) {
	if d.now == nil || len(d.now) >= rememberedDeclarations {
		d.now, d.old = make(map[handle]firstUse), d.now
	}
	d.now[h] = use
}
