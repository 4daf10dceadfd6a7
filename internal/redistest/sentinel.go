package redistest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// PrimaryName is what the sentinels of a [Sentinel] call the primary.
const PrimaryName = "fairsem"

const (
	replicas  = 2
	sentinels = 3
	quorum    = 2
)

// Sentinel is a primary and two replicas, watched by three sentinels. Its methods may be called from any goroutine.
type Sentinel struct {
	Nodes     []*Server // the primary and its replicas, in no lasting order
	Sentinels []*Server
	client    *redis.Client
}

// StartSentinel returns once all sentinels agree about the primary and know its replicas and each other. The primary
// counts as down after 1 s of silence. On failure nothing is left behind.
func StartSentinel() (*Sentinel, error) {
	s := &Sentinel{}
	if err := s.form(); err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: form the sentinel group: %w", err), s.Stop())
	}
	s.client = redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    PrimaryName,
		SentinelAddrs: s.Addrs(),
	})
	return s, nil
}

// Addrs returns the addresses of the sentinels, for a failover client of the caller's own.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Client returns a client that follows the primary, always the same one. Stop closes it.
func (s *Sentinel) Client() *redis.Client { return s.client }

// Primary returns the server that most sentinels call the primary now, whether it lives or not. It fails while they
// disagree.
func (s *Sentinel) Primary() (*Server, error) {
	votes := map[string]int{}
	for _, watcher := range s.Sentinels {
		votes[watcher.primaryAddr()]++
	}
	for _, n := range s.Nodes {
		if votes[n.addr] >= quorum {
			return n, nil
		}
	}
	return nil, fmt.Errorf("redistest: the sentinels disagree about the primary: %v", votes)
}

// Replicas returns the servers that are not the [Sentinel.Primary] now, whether they live or not.
func (s *Sentinel) Replicas() ([]*Server, error) {
	primary, err := s.Primary()
	if err != nil {
		return nil, err
	}
	var others []*Server
	for _, n := range s.Nodes {
		if n != primary {
			others = append(others, n)
		}
	}
	return others, nil
}

// Failover is a planned one: it makes a replica the primary while the old primary is well, and returns once the
// sentinels name the new one and it calls itself master. Writes that the old one acknowledged meanwhile may be lost.
func (s *Sentinel) Failover() error {
	old, err := s.Primary()
	if err != nil {
		return err
	}
	if err := s.Sentinels[0].ask("SENTINEL", "FAILOVER", PrimaryName).Err(); err != nil {
		return fmt.Errorf("redistest: failover: %w", err)
	}
	return s.AwaitFailover(old)
}

// AwaitFailover returns once another server than old is the primary and calls itself master, after a Kill for instance.
func (s *Sentinel) AwaitFailover(old *Server) error {
	return await(groupLimit, nil, func() error {
		now, err := s.Primary()
		if err != nil {
			return err
		}
		if now == old || now.role() != "master" {
			return fmt.Errorf("redistest: %s has no successor yet", old.addr)
		}
		return nil
	})
}

// Stop stops all servers and closes the client, like [Server.Stop].
func (s *Sentinel) Stop() error {
	var err error
	if s.client != nil {
		err = ignoreClosed(s.client.Close())
	}
	return errors.Join(err, stopAll(s.Sentinels), stopAll(s.Nodes))
}

// form starts the servers and lets them find each other. On failure s holds what has to be stopped.
func (s *Sentinel) form() error {
	var err error
	if s.Nodes, err = startAll(1, setup{config: memoryOnly}); err != nil {
		return err
	}
	followers, err := startAll(replicas, setup{config: memoryOnly + "replicaof " + spaced(s.Nodes[0].addr) + "\n"})
	s.Nodes = append(s.Nodes, followers...)
	if err != nil {
		return err
	}
	// First the replicas: a sentinel that meets a primary without them asks it again only 10 s later.
	if err := await(groupLimit, nil, s.replicasOnline); err != nil {
		return err
	}
	if s.Sentinels, err = startAll(sentinels, s.watching()); err != nil {
		return err
	}
	return await(groupLimit, nil, s.agreed)
}

// watching is the set-up of a sentinel.
func (s *Sentinel) watching() setup {
	config := "sentinel monitor NAME " + spaced(s.Nodes[0].addr) + fmt.Sprintf(" %d\n", quorum) +
		"sentinel down-after-milliseconds NAME 1000\n" +
		"sentinel failover-timeout NAME 5000\n"
	config = strings.ReplaceAll(config, "NAME", PrimaryName)
	return setup{config: config, args: []string{"--sentinel"}}
}

func (s *Sentinel) replicasOnline() error {
	for _, n := range s.Nodes[1:] {
		if !n.inSync() {
			return fmt.Errorf("%s: not in step with the primary", n.addr)
		}
	}
	return nil
}

// agreed returns nil when every sentinel has found all others.
func (s *Sentinel) agreed() error {
	for _, watcher := range s.Sentinels {
		// Flat pairs: name, value, name, value.
		pairs, err := watcher.ask("SENTINEL", "MASTER", PrimaryName).StringSlice()
		if err != nil {
			return err
		}
		state := map[string]string{}
		for i := 0; i+1 < len(pairs); i += 2 {
			state[pairs[i]] = pairs[i+1]
		}
		if state["flags"] != "master" || state["num-slaves"] != fmt.Sprint(replicas) ||
			state["num-other-sentinels"] != fmt.Sprint(sentinels-1) || watcher.primaryAddr() != s.Nodes[0].addr {
			return fmt.Errorf("%s: flags %s, %s replicas, %s other sentinels", watcher.addr,
				state["flags"], state["num-slaves"], state["num-other-sentinels"])
		}
	}
	return nil
}

// primaryAddr asks one sentinel; "" when it does not say.
func (s *Server) primaryAddr() string {
	reply, err := s.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PrimaryName).StringSlice()
	if err != nil {
		return ""
	}
	return strings.Join(reply, ":")
}

// spaced writes "host:port" as Redis configuration wants it.
func spaced(addr string) string { return strings.Replace(addr, ":", " ", 1) }
