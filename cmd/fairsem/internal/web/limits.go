package web

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Clients are limited by the address of the connection: any client can forge a header.

// network returns the addresses that one machine can have: one with IPv4, a /64 with IPv6. It returns the zero value for a
// text that is no address.
func network(from string) netip.Prefix {
	remote, _ := netip.ParseAddrPort(from) // the zero value has no prefix
	addr, bits := remote.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // as above
	return prefix
}

// networks bounds the memory that limits by network take.
const networks = 1 << 10

// rates limits events by network, so that one network does not block others. Networks share a limit by a hash that
// clients cannot predict, so that memory is bounded.
type rates struct {
	seed   maphash.Seed
	limits [networks]*rate.Limiter
}

func newRates(every time.Duration, burst int) *rates {
	r := &rates{seed: maphash.MakeSeed()}
	for i := range r.limits {
		r.limits[i] = rate.NewLimiter(rate.Every(every), burst)
	}
	return r
}

// of is the limit for a remote address with a port.
func (r *rates) of(from string) *rate.Limiter {
	return r.limits[maphash.Comparable(r.seed, network(from))%networks]
}

// quota bounds the number in use at a time, of which one network gets half at most. So a network can exhaust only its own
// part.
type quota struct {
	most int

	mu    sync.Mutex
	taken int                  // guarded by mu
	by    map[netip.Prefix]int // the number taken by each; guarded by mu
}

func newQuota(most int) *quota { return &quota{most: most, by: make(map[netip.Prefix]int)} }

// acquire takes n for a remote address with a port, and reports whether there was room.
func (r *quota) acquire(from string, n int) bool {
	who := network(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+n > r.most || r.by[who]+n > r.most/2 {
		return false
	}
	r.taken += n
	r.by[who] += n
	return true
}

// release undoes acquire.
func (r *quota) release(from string, n int) {
	who := network(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
	if r.by[who] -= n; r.by[who] == 0 {
		delete(r.by, who)
	}
}
