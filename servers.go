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
	knownFor time.Duration // how long a server must be known

	mu         sync.Mutex
	firstSeen  map[int64]time.Time
	newest     int64
	subscribed time.Time // when the subscription was established; zero: a server has answered since then
}

// freshSubscription is for how long a subscription is taken to be to the server that answers next, if none has answered since.
const freshSubscription = 2 * time.Second

// setSubscribed is called when the subscription was established.
func (s *servers) setSubscribed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed = time.Now()
}

// maxServers is how many servers are remembered. So many within manyServers are those behind a proxy, and replace none.
const (
	maxServers  = 64
	manyServers = time.Minute
)

// add records the server that answered; 0: it does not identify itself. It reports whether the subscription may be to an older one: this is
// another than all before, and the subscription is not as new as it may be.
func (s *servers) add(server int64) (replaced bool) {
	if server == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	subscribed := s.subscribed
	s.subscribed = time.Time{}
	if server == s.newest {
		return false
	}
	s.newest = server
	if _, known := s.firstSeen[server]; known {
		return false
	}
	replaced = len(s.firstSeen) > 0 && time.Since(subscribed) >= freshSubscription
	if len(s.firstSeen) == maxServers {
		first := server
		for other, since := range s.firstSeen {
			if first == server || since.Before(s.firstSeen[first]) {
				first = other
			}
		}
		replaced = replaced && time.Since(s.firstSeen[first]) > manyServers
		delete(s.firstSeen, first)
	}
	s.firstSeen[server] = time.Now()
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
	for server, since := range s.firstSeen {
		form := protocol.NewServer
		if time.Since(since) > s.knownFor {
			form = protocol.KnownServer
		}
		all = append(all, fmt.Sprintf(form, server))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
