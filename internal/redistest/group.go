package redistest

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// groupLimit is how long servers may take to find each other. It is generous because other tests use the machine too.
const groupLimit = 60 * time.Second

// memoryOnly is what every data server is configured with: no files; replicas are served at once instead of after 5 s in
// which more could come; and masters ping them each second instead of each tenth, because CLUSTER SLOTS hides a replica
// until something was replicated.
const memoryOnly = "save \"\"\nappendonly no\n" +
	"repl-diskless-sync yes\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"

// startAll starts n equal servers at once. On failure none is left.
func startAll(n int, how setup) ([]*Server, error) {
	servers, errs := make([]*Server, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		// Ends by itself within startTries * startLimit, waited for below.
		all.Go(func() { servers[i], errs[i] = launch(how) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, stopAll(servers))
	}
	return servers, nil
}

// stopAll skips nil servers, which never started.
func stopAll(servers []*Server) error {
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

// ignoreClosed makes Stop silent about a client that its user closed, or a Stop before.
func ignoreClosed(err error) error {
	if errors.Is(err, redis.ErrClosed) {
		return nil
	}
	return err
}

// role returns "master", "slave" or "sentinel", and "" when the server does not say.
func (s *Server) role() string {
	reply, err := s.ask("ROLE").Slice()
	if err != nil || len(reply) == 0 {
		return ""
	}
	role, _ := reply[0].(string)
	return role
}

// inSync reports whether the server is a replica whose link to its master is up and that has the whole state.
func (s *Server) inSync() bool {
	info, err := s.ask("INFO", "replication").Text()
	return err == nil && field(info, "master_link_status") == "up"
}
