package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// server is the Redis that the demo runs on.
type server struct {
	client   redis.UniversalClient
	url      string // for the workers; it may hold a password and is never shown
	address  string // for people
	prefix   string // of every key
	embedded *miniredis.Miniredis
}

// openServer starts the embedded server, or connects to the one that the options name.
func openServer(ctx context.Context, o Options) (*server, error) {
	if o.Redis == "" {
		return startEmbedded(o.Prefix)
	}
	there, err := dial.Parse(o.Redis)
	if err != nil {
		return nil, exit.Usagef("--redis is %w", err)
	}
	if err := there.Reach(ctx); err != nil {
		return nil, fmt.Errorf("%w, or leave out --redis to use the embedded server", err)
	}
	return &server{client: there.Client(), url: o.Redis, address: "Redis at " + there.String(), prefix: o.Prefix}, nil
}

func startEmbedded(prefix string) (*server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else nothing ever expires
	password := rand.Text()
	m.RequireAuth(password) // other users of this machine reach it too
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the embedded server on 127.0.0.1: %w; allow listening there, or name a server with --redis", err)
	}
	client := redis.NewClient(&redis.Options{Addr: m.Addr(), Password: password})
	address := "the embedded server at " + m.Addr()
	return &server{client: client, url: "redis://:" + password + "@" + m.Addr(), address: address, prefix: prefix, embedded: m}, nil
}

// close closes the connections, and stops the server if it is the embedded one.
func (s *server) close() {
	_ = s.client.Close() // nothing is in flight any more
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// stateError is the error of a server that does not report the state.
func (s *server) stateError(sem *fairsem.Semaphore, err error) error {
	return fmt.Errorf("%s does not report the state of %q: %s; check that it runs and allows this user to run scripts",
		s.address, sem.Name(), strings.TrimPrefix(err.Error(), "fairsem: "))
}
