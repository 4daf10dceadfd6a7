package fairsem

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// servers records which servers have answered this client, and since when. A name that such a server does not know is a new
// one: the server has lost nothing meanwhile.
type servers struct {
	settled time.Duration // how long a server must be known

	mu     sync.Mutex
	met    map[int64]time.Time
	newest int64
	later  bool // the subscription was established after the last answer
}

// subscribed is called when the subscription was established.
func (s *servers) subscribed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.later = true
}

// maxServers is how many servers are remembered.
const maxServers = 64

// meet records the server that answered; 0: it does not identify itself. It reports whether the subscription may be to an older one: this is
// another than all before, and one of these has answered since the subscription was established.
func (s *servers) meet(server int64) (replaced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	later := s.later
	s.later = false
	if server == 0 || server == s.newest {
		return false
	}
	s.newest = server
	if _, known := s.met[server]; known {
		return false
	}
	replaced = !later && len(s.met) > 0 && len(s.met) < maxServers // more are the primaries of a cluster, of which go-redis knows and this does not
	if len(s.met) == maxServers {
		first := server
		for other, since := range s.met {
			if first == server || since.Before(s.met[first]) {
				first = other
			}
		}
		delete(s.met, first)
	}
	s.met[server] = time.Now()
	return replaced
}

// changed reports whether another server than this one has answered last.
func (s *servers) changed(server int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return server != 0 && server != s.newest
}

// known lists the servers for a call.
func (s *servers) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for server, since := range s.met {
		form := protocol.NewServer
		if time.Since(since) > s.settled {
			form = protocol.KnownServer
		}
		all = append(all, fmt.Sprintf(form, server))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
