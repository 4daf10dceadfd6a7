package fairsemtest

import (
	"fmt"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Kill disconnects a client of this server for the rest of the test, as if its process had been killed, or as if its
// network were gone. Its permits and positions stay in Redis until their leases expire: after [Server.Advance], or in a
// bubble after time.Sleep. The client itself behaves like a disconnected process: its permits end with [fairsem.ErrLost]
// after nine tenths of their TTL by the clock of the test. A client that is not of [Server.Client] fails the test.
func (s *Server) Kill(client *fairsem.Client) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if client != nil && p.client == client {
			p.dead = true
			p.hangUp()
			return
		}
	}
	s.tb.Fatalf("fairsemtest: Kill: the client is not one of this server")
}

// Down ends all connections, and refuses new ones until Up: Redis is unreachable for every process. It keeps its state,
// and its clock continues. Calls wait until Up, or for a TTL, after which they return [fairsem.ErrUnavailable]; permits
// end as with [Server.Kill].
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for _, p := range s.processes {
		p.hangUp()
	}
}

// Up undoes Down. Clients find out with their next try: calls within a quarter of a second of their clock, and the subscription, which brings
// messages and [fairsem.ReconnectedEvent], within a second.
func (s *Server) Up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// Expire ends the leases of all holders of the semaphore of that name, whatever the prefix of its keys, as if they had
// been silent for too long. Their permits, also those with NoRefresh, end with [fairsem.ErrLost] and, because of how it
// is done, [fairsem.ErrEvicted], within a millisecond or so. A Release before the client is notified counts. The waiters
// are granted the units, maybe a moment before the holders are notified: a loss in its proper order takes a bubble and
// [Server.Kill]. A holder that Kill or Down has disconnected learns nothing of it before its lease ends by its own clock. If there is no
// holder the test fails; a Limiter has no permits.
func (s *Server) Expire(name string) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := 0
	for _, key := range s.redis.Keys() {
		if sem, ok := semaphoreOf(key); ok && sem.name == name && !s.isRate(sem) {
			ended += s.takeFromHolders(sem)
		}
	}
	if ended == 0 {
		s.tb.Fatalf("fairsemtest: Expire: no permit of %q is held", name)
	}
	s.haveAllQuery()
}

// takeFromHolders revokes the permits of all holders, and returns how many these are. Their deadlines stay, as
// tombstones. The new epoch makes clients ask about each of their permits: in the old one an answer about any would do
// for all.
func (s *Server) takeFromHolders(sem semaphore) int {
	holders := s.scores(sem.key(protocol.Owner))
	for id := range holders {
		_, _ = s.redis.ZRem(sem.key(protocol.Owner), id) // it was read a moment ago
		s.redis.HDel(sem.key(protocol.Weight), id)
	}
	if len(holders) > 0 {
		s.redis.Del(sem.key(protocol.NumbersKey))
		meta := sem.key(protocol.Meta)
		_, _ = s.redis.HIncr(meta, protocol.MetaEpoch, 1) // scripts write numbers there
		_, _ = s.redis.HIncr(meta, protocol.MetaExpired, len(holders))
		s.takeFromTenants(sem)
	}
	return len(holders)
}

// takeFromTenants has no tenant hold anything: what is stored of each counts for the generation in which it was written.
func (s *Server) takeFromTenants(sem semaphore) {
	tenants := sem.key(protocol.Tenants)
	var generation, units, newest int64
	if n, _ := fmt.Sscan(s.redis.HGet(tenants, protocol.TenantsSum), &generation, &units, &newest); n == 3 { // else no tenants share the name
		s.redis.HSet(tenants, protocol.TenantsSum, fmt.Sprint(generation+1, 0, newest))
	}
}
