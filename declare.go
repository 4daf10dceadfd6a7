package fairsem

import (
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// declarations remembers when this client first used which limits, and which shares and limits of tenants, so that the newest of all
// clients is in force.
// It forgets limits that were not used for long, so that names that come and go do not cost memory for ever. Once it has
// forgotten some, it treats any limit that it does not know as one that is as old as the client: a forgotten limit cannot
// replace one that was declared later. When the memory for tenants is full, it no longer records those that declare only the defaults.
// These count as old as the first use of the limit, so they push out no other entry.
type declarations struct {
	began time.Time

	mu      sync.Mutex
	limits  memory
	tenants memory // apart, as they are so many more that limits would be forgotten
}

// memory remembers the latest uses, in two generations.
type memory struct {
	now, old map[handle]firstUse
	since    time.Time // when now was begun
	forgot   bool      // more than now and old have was remembered
}

// handle is the name and limit of a Semaphore, or a tenant of a name, which has no limit: calls of all handles on the name declare the
// same of it.
type handle struct {
	name   string
	spec   protocol.LimitSpec
	tenant string
}

// firstUse is when a handle was first used: on the clock of this process and, once Redis has answered, on the server's, in
// microseconds.
type firstUse struct {
	here    time.Time
	server  int64
	account account // of a tenant: the account that was used
}

// rememberedDeclarations is how many at least are remembered, and half of how many at most.
const rememberedDeclarations = 1 << 14

// declare returns the declaration to send for a handle.
func (d *declarations) declare(name string, q protocol.LimitSpec) protocol.Declaration {
	d.mu.Lock()
	defer d.mu.Unlock()
	use := d.useLocked(&d.limits, handle{name: name, spec: q}, account{}, time.Now(), d.began)
	if use.server != 0 {
		return protocol.Declaration{Spec: q, Since: use.server}
	}
	return protocol.Declaration{Spec: q, First: use.here}
}

// declareTenant returns how long after the first use of a limit, or before it, its tenant was first declared as it is in a call. asked
// is when that was made. A call is repeated after its position was lost, and a permit restored long after it was acquired: the
// declaration of a later call stays newer.
func (d *declarations) declareTenant(name string, q protocol.LimitSpec, a account, asked time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit := d.useLocked(&d.limits, handle{name: name, spec: q}, account{}, time.Now(), d.began)
	h, since := handle{name: name, tenant: a.tenant}, d.tenants.since
	if _, known := d.tenants.find(h); !known && a.isDefault() && d.tenants.isFull() {
		return 0
	}
	return d.useLocked(&d.tenants, h, a, asked, since).here.Sub(limit.here)
}

// useLocked returns when a handle that is used at a time was first used, after it was last used with another account. One that may have
// been forgotten is as old as forgotten says: a limit as the client; a tenant as the memory, because it may have had another share.
func (d *declarations) useLocked(m *memory, h handle, a account, at, forgotten time.Time) firstUse {
	use, known := m.find(h)
	switch {
	case known && use.account == a:
		return use
	case known && !at.After(use.here):
		return firstUse{here: at}
	case known || !m.forgot:
		use.here = at
	default:
		use.here = forgotten
	}
	use.account = a
	m.remember(h, use)
	return use
}

// learn records the server's time of a first use.
func (d *declarations) learn(name string, q protocol.LimitSpec, server int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := handle{name: name, spec: q}
	if use, known := d.limits.find(h); known && use.server == 0 {
		use.server = server
		d.limits.remember(h, use)
	}
}

func (m *memory) find(h handle) (firstUse, bool) {
	if use, ok := m.now[h]; ok {
		return use, true
	}
	use, ok := m.old[h]
	if ok {
		m.remember(h, use)
	}
	return use, ok
}

// isFull reports whether to remember one more may forget others, now or later.
func (m *memory) isFull() bool { return m.old != nil || len(m.now) >= rememberedDeclarations }

func (m *memory) remember(h handle, use firstUse) {
	if m.now == nil || len(m.now) >= rememberedDeclarations {
		m.forgot = m.old != nil
		m.now, m.old, m.since = make(map[handle]firstUse), m.now, time.Now()
	}
	m.now[h] = use
}
