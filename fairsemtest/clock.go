package fairsemtest

import (
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Advance moves the server's clock, that of TIME and of the expiry of keys, ahead of the clock of the test. It is as if
// the time had passed and all living processes had renewed their leases in it, also those with NoRefresh. What killed
// processes had expires, and so do the grants of a Limiter. Waiters are granted the units within a millisecond or so. A
// negative d fails the test.
func (s *Server) Advance(d time.Duration) {
	s.tb.Helper()
	if d < 0 {
		s.tb.Fatalf("fairsemtest: Advance(%v): the duration is negative", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.redis.Keys() {
		if sem, ok := semaphoreOf(key); ok {
			s.renew(sem, d)
		} else if s.namesLiving(key) {
			s.prolong(key, d)
		}
	}
	s.ahead += d
	s.redis.SetTime(s.now())
	s.haveAllLook()
}

// now is called with mu held, and so is what follows.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// renew has the leases of the living end later by d, and the keys with them. What a Limiter granted is no lease.
func (s *Server) renew(sem semaphore, d time.Duration) {
	lives, granted := false, map[string]float64{}
	if strings.Contains(s.redis.HGet(sem.key(protocol.Meta), protocol.MetaDeclared), "/") {
		granted = s.scores(sem.key(protocol.Owner))
	}
	for id, deadline := range s.scores(sem.key(protocol.Timeout)) {
		if _, lapses := granted[id]; !lapses && s.lives(protocol.ClientOf(id)) {
			_, _ = s.redis.ZAdd(sem.key(protocol.Timeout), deadline+float64(d.Milliseconds()), id) // it was there a moment ago
			lives = true
		}
	}
	if !lives {
		return
	}
	for _, key := range sem.space.Keys(sem.name) {
		s.prolong(key, d)
	}
	s.redis.HDel(sem.key(protocol.Meta), protocol.MetaUntil) // when the keys expire: the next script works it out anew
}

// prolong has a key live longer by d, if it is there and does not live for ever.
func (s *Server) prolong(key string, d time.Duration) {
	if ttl := s.redis.TTL(key); ttl > 0 {
		s.redis.SetTTL(key, ttl+d)
	}
}
