package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
)

// connection is where a command finds its semaphores.
type connection struct {
	redis  string
	prefix string
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.redis, "redis", "", "`URL` of the server: redis, rediss, unix, cluster or sentinel (default $REDIS_URL)")
	f.StringVar(&c.prefix, "prefix", "", "prefix of every key (default $FAIRSEM_PREFIX, or fairsem)")
}

// prefixVariable is the environment variable for --prefix.
const prefixVariable = "FAIRSEM_PREFIX"

// keys is what every key begins with.
func (c *connection) keys() string { return cmp.Or(c.prefix, os.Getenv(prefixVariable), "fairsem") }

// urlVariable is the environment variable that names the server, with its password.
const urlVariable = "REDIS_URL"

// server is the one that is named, or an error of usage.
func (c *connection) server() (*dial.Server, error) {
	source := urlVariable
	if c.redis != "" {
		source = "--redis"
	}
	rawURL := cmp.Or(c.redis, os.Getenv(urlVariable))
	if rawURL == "" {
		return nil, usage("the server is missing: give --redis URL or set REDIS_URL")
	}
	return parseURL(rawURL, source)
}

// parseURL takes a URL from source, which is a flag or a variable.
func parseURL(rawURL, source string) (*dial.Server, error) {
	there, err := dial.Parse(rawURL)
	if err != nil {
		return nil, usage("%s is %w", source, err)
	}
	return there, nil
}

// session is a connection to a server that has answered.
type session struct {
	server *dial.Server
	rdb    redis.UniversalClient
	client *fairsem.Client
}

// inspectTTL bounds how long a command that holds nothing queries a server that does not answer.
const inspectTTL = 5 * time.Second

// open connects for a command that holds nothing. It refuses names that can never be one.
func (c *connection) open(ctx context.Context, names ...string) (*session, error) {
	there, err := c.server()
	if err != nil {
		return nil, err
	}
	s := &session{server: there, rdb: there.Client()}
	s.client, err = fairsem.New(s.rdb, fairsem.Options{Prefix: c.keys(), TTL: inspectTTL, Label: operator()})
	for _, name := range names {
		if err == nil {
			_, err = s.client.Semaphore(name, 1)
		}
	}
	if err == nil {
		err = there.Reach(ctx)
	}
	if err != nil {
		_ = s.rdb.Close() // nothing was sent
		return nil, asUsage(err)
	}
	return s, nil
}

// operator is the label of evictions for others: user@host, as far as it is known.
func operator() string {
	host, _ := os.Hostname() // "" if the machine has no name
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	label := name + "@" + host
	return label[:min(len(label), longestLabel)]
}

// ping sends PING to the server, in a cluster to every master.
func (s *session) ping(ctx context.Context) error {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return s.rdb.Ping(ctx).Err()
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
}

// withServer adds the address of the server to an error of a server that does not answer.
func withServer(err error, there *dial.Server) error {
	if errors.Is(err, fairsem.ErrUnavailable) {
		return fmt.Errorf("%w; the server is %s", err, there)
	}
	return err
}

func (s *session) close() {
	closeClient(s.client)
	_ = s.rdb.Close() // nothing is in flight any more
}
