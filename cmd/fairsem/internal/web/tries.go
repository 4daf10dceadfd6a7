package web

import (
	"hash/maphash"
	"net/netip"
	"time"

	"golang.org/x/time/rate"
)

const (
	mostTries  = 10 // wrong tokens in a row
	triesEvery = 6 * time.Second
	networks   = 1 << 10
)

// tries limits wrong tokens by where they come from, so that who guesses holds up nobody else. That is the other end of
// the connection: what a header says about it anybody can write. Addresses share a limit by a hash that nobody
// outside can foresee, so that many of them need no more memory.
type tries struct {
	seed   maphash.Seed
	limits [networks]*rate.Limiter
}

func newTries() tries {
	t := tries{seed: maphash.MakeSeed()}
	for i := range t.limits {
		t.limits[i] = rate.NewLimiter(rate.Every(triesEvery), mostTries)
	}
	return t
}

// of is the limit for a remote address with a port.
func (t *tries) of(from string) *rate.Limiter {
	return t.limits[maphash.Comparable(t.seed, network(from))%networks]
}

// network is what one machine can have all addresses of: one with IPv4, a /64 with IPv6. The zero value is any that is
// no address.
func network(from string) netip.Prefix {
	there, _ := netip.ParseAddrPort(from) // the zero value has no prefix
	addr, bits := there.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // as above
	return prefix
}
