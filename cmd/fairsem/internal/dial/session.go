package dial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// Session is a client of the library on a server.
type Session struct {
	Server *Server
	Redis  redis.UniversalClient
	Client *fairsem.Client
}

// Open makes a session, which is the caller's to close. It does no I/O.
func (s *Server) Open(o fairsem.Options) (*Session, error) {
	rdb := s.Client()
	client, err := fairsem.New(rdb, o)
	if err != nil {
		_ = rdb.Close() // nothing was sent
		return nil, err
	}
	return &Session{s, rdb, client}, nil
}

// MaxLabel is the length of the longest label that the library accepts, in bytes.
const MaxLabel = 256

// CloseTimeout is how long Close waits for the client.
const CloseTimeout = 2 * time.Second

// Close closes the client, which leaves every queue, and its connections. It waits for at most CloseTimeout.
func (s *Session) Close() {
	closed := make(chan struct{})
	go func() { // ends soon where Redis answers, else with the process
		_ = s.Client.Close() // what is not released expires
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(CloseTimeout):
	}
	_ = s.Redis.Close() // nothing is in flight any more, or the process ends
}

// Ping sends PING to the server, in a cluster to every master.
func (s *Session) Ping(ctx context.Context) error {
	cluster, ok := s.Redis.(*redis.ClusterClient)
	if !ok {
		return s.Redis.Ping(ctx).Err()
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
}

// WithAddress adds the address of the server to an error of a server that does not answer.
func (s *Server) WithAddress(err error) error {
	if errors.Is(err, fairsem.ErrUnavailable) {
		return fmt.Errorf("%w; the server is %s", err, s)
	}
	return err
}
