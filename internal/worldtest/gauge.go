package worldtest

import "sync/atomic"

// Gauge counts functions that run at the same time.
type Gauge struct{ now, Most, All atomic.Int64 }

// During counts f while it runs.
func (g *Gauge) During(f func()) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for m := g.Most.Load(); n > m && !g.Most.CompareAndSwap(m, n); m = g.Most.Load() {
		continue
	}
	g.All.Add(1)
	f()
}
