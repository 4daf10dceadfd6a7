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

// handle is what a Semaphore is made with, and a tenant of it, if any.
type handle struct {
	name     string
	spec     protocol.LimitSpec
	tenant   string
	tenanted bool
}

// firstUse is when a handle was first used: on the clock of this process and, once Redis has answered, on the server's, in
// microseconds.
type firstUse struct {
	here    time.Time
	server  int64
	account account // of a tenant: what was used
}

// rememberedDeclarations is how many at least are remembered, and half of how many at most.
const rememberedDeclarations = 1 << 14

// declare returns what to send about a handle.
func (d *declarations) declare(name string, q protocol.LimitSpec) protocol.Declaration {
	d.mu.Lock()
	defer d.mu.Unlock()
	use := d.useLocked(handle{name: name, spec: q}, account{})
	if use.server != 0 {
		return protocol.Declaration{Spec: q, Since: use.server}
	}
	return protocol.Declaration{Spec: q, Age: time.Since(use.here)}
}

// declareTenant returns how long after the first use of a limit its tenant was first declared as it is now.
func (d *declarations) declareTenant(name string, q protocol.LimitSpec, a account) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.useLocked(handle{name: name, spec: q}, account{})
	return d.useLocked(handle{name, q, a.tenant, true}, a).here.Sub(limit.here)
}

// useLocked returns when a handle was first used, after it was last used with another account.
func (d *declarations) useLocked(h handle, a account) firstUse {
	use, known := d.findLocked(h)
	if known && use.account == a {
		return use
	}
	if !known && d.old != nil {
		use.here = d.began
	} else {
		use.here = time.Now()
	}
	use.account = a
	d.rememberLocked(h, use)
	return use
}

// learn records the server's time of a first use.
func (d *declarations) learn(name string, q protocol.LimitSpec, server int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := handle{name: name, spec: q}
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
