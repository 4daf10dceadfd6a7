package fairsem

import (
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// declarations remembers when this client first used which limits, so that the newest limit of all clients is in force.
// It forgets limits that were not used for long, so that names that come and go do not cost memory for ever. Once it has
// forgotten some, it treats any limit that it does not know as one that is as old as the client: a forgotten limit cannot
// replace one that was declared later.
type declarations struct {
	began time.Time

	mu       sync.Mutex
	now, old map[handle]firstUse
}

// handle is what a Semaphore is made with.
type handle struct {
	name string
	spec protocol.LimitSpec
}

// firstUse is when a handle was first used: on the clock of this process and, once Redis has answered, on the server's, in
// microseconds.
type firstUse struct {
	here   time.Time
	server int64
}

// rememberedDeclarations is how many at least are remembered, and half of how many at most.
const rememberedDeclarations = 1 << 14

// declare returns what to send about a handle.
func (d *declarations) declare(name string, q protocol.LimitSpec) protocol.Declaration {
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
		return protocol.Declaration{Spec: q, Since: use.server}
	}
	return protocol.Declaration{Spec: q, Age: time.Since(use.here)}
}

// learn records the server's time of a first use.
func (d *declarations) learn(name string, q protocol.LimitSpec, server int64) {
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
