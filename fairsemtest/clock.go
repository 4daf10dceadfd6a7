package fairsemtest

import (
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// maxAhead keeps times within the range of a Duration, and within that of the numbers in Redis.
const maxAhead = 100 * 365 * 24 * time.Hour

// Advance moves the server's clock, that of TIME and of the expiry of keys, ahead of the clock of the test. It is as if
// the time had passed and all living processes had renewed their leases in it, also those with NoRefresh. Permits and positions of killed
// processes expire, and so do the grants of a Limiter. Waiters are granted the units within a millisecond or so. A
// negative d fails the test, and so does a clock that would be more than 100 years ahead in all.
func (s *Server) Advance(d time.Duration) {
	s.tb.Helper()
	if d < 0 {
		s.tb.Fatalf("fairsemtest: Advance(%v): the duration is negative", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d > maxAhead-s.ahead {
		s.tb.Fatalf("fairsemtest: Advance(%v): the clock would be more than 100 years ahead", d)
	}
	for _, key := range s.redis.Keys() {
		if sem, ok := semaphoreOf(key); ok {
			s.renew(sem, d)
		} else if s.namesLiving(key) {
			s.prolong(key, d)
		}
	}
	s.ahead += d
	s.passTime()
	s.haveAllQuery()
}

// ageEvery is how often keys get older: miniredis goes through all of them for that. So they may expire that much too early, but the keys
// of fairsem outlive what is in them by seconds.
const ageEvery = 100 * time.Millisecond

// passTime has the server notice the time.
func (s *Server) passTime() {
	now := s.now()
	s.redis.SetTime(now)
	if passed := now.Sub(s.aged); passed >= ageEvery {
		s.aged = now
		s.redis.FastForward(passed)
	}
}

// now is called with mu held, and so are the functions below.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// isRate reports whether a name is that of a Limiter, which has no permits.
func (s *Server) isRate(sem semaphore) bool {
	return strings.Contains(s.redis.HGet(sem.key(protocol.Meta), protocol.MetaDeclared), "/")
}

// renew has the leases of the living end later by d, and the keys with them. A grant of a Limiter is no lease.
func (s *Server) renew(sem semaphore, d time.Duration) {
	lives, granted := false, map[string]float64{}
	if s.isRate(sem) {
		granted = s.scores(sem.key(protocol.Owner))
	}
	for id, deadline := range s.scores(sem.key(protocol.Timeout)) {
		if _, expires := granted[id]; !expires && s.lives(protocol.ClientOf(id)) {
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
