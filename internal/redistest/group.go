package redistest

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// groupTimeout is how long servers may take to find each other. It is generous, because other tests use the machine, too.
const groupTimeout = 60 * time.Second

// memoryOnly configures every data server. It writes no files. Replicas are synchronized at once, not after waiting 5 s for
// more replicas. Primaries ping their replicas every second, not every 10 s, because CLUSTER SLOTS hides a replica until it has
// received something.
const memoryOnly = "save \"\"\nappendonly no\n" +
	"repl-diskless-sync yes\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"

func startAll(n int, how setup) ([]*Server, error) {
	servers, errs := make([]*Server, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		// Ends by itself within startTries * startTimeout. Wait below waits for it.
		all.Go(func() { servers[i], errs[i] = start(how) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, StopAll(servers))
	}
	return servers, nil
}

// StartAll starts n equal servers at once, as [Start] does one. If one fails, it stops the others.
func StartAll(n int, args ...string) ([]*Server, error) {
	return startAll(n, setup{config: memoryOnly, args: args})
}

// StopAll stops the servers. It skips nil, which stands for a server that never started.
func StopAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		if s != nil {
			errs = append(errs, s.Stop())
		}
	}
	return errors.Join(errs...)
}

func addrs(servers []*Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.addr)
	}
	return all
}

// ignoreClosed returns nil for the error of a client that was already closed, by its user or by an earlier Stop.
func ignoreClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// role returns "master", "slave" or "sentinel". It returns "" if the server does not answer.
func (s *Server) role() string {
	reply, err := s.do("ROLE").Slice()
	if err != nil || len(reply) == 0 {
		return ""
	}
	role, _ := reply[0].(string)
	return role
}

// inSync reports whether the server is a replica that has the whole state and whose link to its primary is up.
func (s *Server) inSync() bool {
	info, err := s.do("INFO", "replication").Text()
	return err == nil && field(info, "master_link_status") == "up"
}
