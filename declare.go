package fairsem

import "sync"

// declarations remembers when this client declared which limits, so that it does so once for each.
// It forgets those that were not used for long, and a forgotten one is declared anew: names that
// come and go cost no memory for ever.
type declarations struct {
	mu       sync.Mutex
	now, old map[handle]int64
}

// handle is what a Semaphore is made with.
type handle struct {
	name  string
	limit int64
}

// rememberedDeclarations is how many at least are remembered, and half of how many at most.
const rememberedDeclarations = 1 << 14

// since returns when the limit was declared, or declareNow.
func (d *declarations) since(name string, limit int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := handle{name, limit}
	if at, ok := d.now[h]; ok {
		return at
	}
	at, ok := d.old[h]
	if !ok {
		return declareNow
	}
	d.rememberLocked(h, at)
	return at
}

func (d *declarations) put(name string, made declaration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rememberLocked(handle{name, made.limit}, made.since)
}

func (d *declarations) rememberLocked(h handle, at int64) {
	if len(d.now) >= rememberedDeclarations || d.now == nil {
		d.now, d.old = make(map[handle]int64), d.now
	}
	d.now[h] = at
}
