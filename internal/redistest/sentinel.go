package redistest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// PrimaryName is the name of the primary in the sentinels of a [Sentinel].
const PrimaryName = "fairsem"

const (
	replicas  = 2
	sentinels = 3
	quorum    = 2
)

// Sentinel is a primary and two replicas with three sentinels. Its methods may be called from any goroutine.
type Sentinel struct {
	Nodes     []*Server // the primary and its replicas, a failover changes their roles, not their order
	Sentinels []*Server
	client    *redis.Client
}

// StartSentinel starts a primary, its replicas and the sentinels. It returns once all sentinels agree about the primary and know
// its replicas and each other. The primary counts as down after 1 s without an answer. If StartSentinel fails, it leaves
// nothing behind.
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

// Addrs returns the addresses of the sentinels, from which a caller can create its own failover client.
func (s *Sentinel) Addrs() []string { return addrs(s.Sentinels) }

// Client returns a client that follows the primary. It is always the same one. Stop closes it.
func (s *Sentinel) Client() *redis.Client { return s.client }

// Primary returns the server that most sentinels consider the primary, whether it runs or not. It fails while they disagree.
func (s *Sentinel) Primary() (*Server, error) {
	primary, votes := s.poll(quorum)
	if primary == nil {
		return nil, fmt.Errorf("redistest: the sentinels disagree about the primary: %v", votes)
	}
	return primary, nil
}

// poll returns the server that at least as many sentinels report as the primary, nil if there is none, and what they report.
func (s *Sentinel) poll(atLeast int) (primary *Server, votes map[string]int) {
	votes = map[string]int{}
	for _, sentinel := range s.Sentinels {
		votes[sentinel.primaryAddr()]++
	}
	for _, n := range s.Nodes {
		if votes[n.addr] >= atLeast {
			primary = n
		}
	}
	return primary, votes
}

// Replicas returns all servers except the [Sentinel.Primary], whether they run or not.
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

// Failover makes a planned failover: a replica becomes the primary while the old primary still works. It returns once the
// sentinels report the new primary and that server itself reports that role. Writes that the old primary acknowledged
// meanwhile may be lost.
func (s *Sentinel) Failover() error {
	old, err := s.Primary()
	if err != nil {
		return err
	}
	if err := s.Sentinels[0].do("SENTINEL", "FAILOVER", PrimaryName).Err(); err != nil {
		return fmt.Errorf("redistest: failover: %w", err)
	}
	return s.AwaitFailover(old)
}

// AwaitFailover waits until another server than old is the primary, for example after a Kill: all sentinels report it, and it
// reports that role itself. A sentinel that does not know of the failover yet may begin another.
func (s *Sentinel) AwaitFailover(old *Server) error {
	return await(groupTimeout, nil, func() error {
		now, votes := s.poll(sentinels)
		if now == nil || now == old || now.role() != "master" {
			return fmt.Errorf("redistest: no new primary after %s yet: %v", old.addr, votes)
		}
		return nil
	})
}

// BePatient lets a primary count as down only after a minute without an answer: a busy machine can stop it for a second, and a failover that
// nobody asked for loses writes.
func (s *Sentinel) BePatient() (err error) {
	for _, sentinel := range s.Sentinels {
		err = errors.Join(err, sentinel.do("SENTINEL", "SET", PrimaryName, "down-after-milliseconds", "60000").Err())
	}
	return err
}

// startPatient is StartSentinel for servers that nobody kills.
func startPatient() (*Sentinel, error) {
	s, err := StartSentinel()
	if err != nil {
		return nil, err
	}
	if err := s.BePatient(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop stops all servers and closes the client, like [Server.Stop].
func (s *Sentinel) Stop() error {
	var err error
	if s.client != nil {
		err = ignoreClosed(s.client.Close())
	}
	return errors.Join(err, StopAll(s.Sentinels), StopAll(s.Nodes))
}

// form starts the servers and waits until they have found each other. If it fails, s contains the servers to stop.
func (s *Sentinel) form() error {
	var err error
	if s.Nodes, err = StartAll(1); err != nil {
		return err
	}
	others, err := startAll(replicas, setup{config: memoryOnly + "replicaof " + spaced(s.Nodes[0].addr) + "\n"})
	s.Nodes = append(s.Nodes, others...)
	if err != nil {
		return err
	}
	// The replicas must be online first: a sentinel that finds a primary without replicas asks again only 10 s later.
	if err := await(groupTimeout, nil, s.replicasOnline); err != nil {
		return err
	}
	if s.Sentinels, err = startAll(sentinels, s.sentinelSetup()); err != nil {
		return err
	}
	return await(groupTimeout, nil, s.agreed)
}

// sentinelSetup returns the setup of a sentinel.
func (s *Sentinel) sentinelSetup() setup {
	config := "sentinel monitor NAME " + spaced(s.Nodes[0].addr) + fmt.Sprintf(" %d\n", quorum) +
		"sentinel down-after-milliseconds NAME 1000\n" +
		"sentinel failover-timeout NAME 5000\n"
	config = strings.ReplaceAll(config, "NAME", PrimaryName)
	return setup{config: config, args: []string{"--sentinel"}}
}

func (s *Sentinel) replicasOnline() error {
	for _, n := range s.Nodes[1:] {
		if !n.inSync() {
			return fmt.Errorf("%s: not in sync with the primary", n.addr)
		}
	}
	return nil
}

// agreed returns nil when every sentinel has found all others.
func (s *Sentinel) agreed() error {
	for _, sentinel := range s.Sentinels {
		// The reply is a flat list: name, value, name, value.
		pairs, err := sentinel.do("SENTINEL", "MASTER", PrimaryName).StringSlice()
		if err != nil {
			return err
		}
		state := map[string]string{}
		for i := 0; i+1 < len(pairs); i += 2 {
			state[pairs[i]] = pairs[i+1]
		}
		if state["flags"] != "master" || state["num-slaves"] != fmt.Sprint(replicas) ||
			state["num-other-sentinels"] != fmt.Sprint(sentinels-1) || sentinel.primaryAddr() != s.Nodes[0].addr {
			return fmt.Errorf("%s: flags %s, %s replicas, %s other sentinels", sentinel.addr,
				state["flags"], state["num-slaves"], state["num-other-sentinels"])
		}
	}
	return nil
}

// primaryAddr returns the address of the primary as one sentinel reports it, or "" if it does not answer.
func (s *Server) primaryAddr() string {
	reply, err := s.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", PrimaryName).StringSlice()
	if err != nil {
		return ""
	}
	return strings.Join(reply, ":")
}

// spaced returns "host:port" as "host port", the format of a Redis configuration.
func spaced(addr string) string { return strings.Replace(addr, ":", " ", 1) }
