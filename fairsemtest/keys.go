package fairsemtest

import (
	"maps"
	"strings"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/fairsem/fairsem/internal/protocol"
)

// The keys in Redis: docs/protocol.md has a table of them. All functions here are called with mu held.

// semaphore is a name, with the prefix of its keys.
type semaphore struct {
	space protocol.Keyspace
	name  string
}

func (m semaphore) key(kind string) string { return m.space.Key(m.name, kind) }

// semaphoreOf returns the semaphore whose key with the deadlines key is.
func semaphoreOf(key string) (semaphore, bool) {
	space, name, kind, ok := protocol.ParseKey(key)
	return semaphore{space, name}, ok && kind == protocol.Timeout
}

// lives reports whether the process of a fairsem client does.
func (s *Server) lives(client string) bool {
	p := s.clients[client]
	return p != nil && !p.dead
}

// namesLiving reports whether a key, or a channel, is that of a living client: these end with its id.
func (s *Server) namesLiving(key string) bool {
	return s.lives(key[strings.LastIndexByte(key, ':')+1:])
}

// scores returns a copy of a sorted set, nil if there is none.
func (s *Server) scores(key string) map[string]float64 {
	scores, _ := s.redis.SortedSet(key) // the scripts report a key of another type
	return maps.Clone(scores)
}

// meetSubscriber remembers a connection that subscribes, as long as it lives.
func (s *Server) meetSubscriber(peer *server.Peer, channel string) {
	s.subscribers[peer] = channel
	peer.OnDisconnect(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, peer)
	})
}

// haveAllQuery has every client query all it has, at once and not with its next renewal: their subscriptions
// are confirmed once more, as after a gap in which anything may have happened.
func (s *Server) haveAllQuery() {
	for peer, channel := range s.subscribers {
		if !s.namesLiving(channel) {
			continue // its connection is about to end, or it is not of a fairsem client
		}
		peer.Block(func(w *server.Writer) {
			w.WritePushLen(3)
			w.WriteBulk("subscribe")
			w.WriteBulk(channel)
			w.WriteInt(1)
			w.Flush()
		})
	}
}
