package web

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Who asks for too much is known by the other end of the connection: what a header says about it anybody can write.

// network is what one machine can have all addresses of: one with IPv4, a /64 with IPv6. The zero value is any that is
// no address.
func network(from string) netip.Prefix {
	inspector, _ := netip.ParseAddrPort(from) // the zero value has no prefix
	addr, bits := inspector.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // as above
	return prefix
}

// networks bounds the memory that limits by network take.
const networks = 1 << 10

// rates limits how often something happens by where it comes from, so that one network holds up no other. Networks
// share a limit by a hash that nobody outside can foresee, so that many of them need no more memory.
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

// room is for so much at a time, of which one network gets half at most: who takes all that is to be had takes it from
// those of the same network, and not from others.
type quota struct {
	most int

	mu    sync.Mutex
	taken int                  // guarded by mu
	by    map[netip.Prefix]int // what is taken by each; guarded by mu
}

func newQuota(most int) *quota { return &quota{most: most, by: make(map[netip.Prefix]int)} }

// take takes so much for a remote address with a port, if it is there.
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

// leave gives back what take took.
func (r *quota) release(from string, n int) {
	who := network(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= n
	if r.by[who] -= n; r.by[who] == 0 {
		delete(r.by, who)
	}
}
