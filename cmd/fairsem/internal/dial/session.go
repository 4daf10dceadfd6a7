package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/primaries"
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
		_ = s.Client.Close() // permits that are not released expire
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(CloseTimeout):
	}
	_ = s.Redis.Close() // nothing is in flight any more, or the process ends
}

// Ping sends PING to the server. In a cluster it sends it to every primary, and one that answers is enough.
func (s *Session) Ping(ctx context.Context) error { return ping(ctx, s.Redis) }

// ping is Session.Ping. The PING of a ClusterClient would fail for one primary that is down, though names on the others work; and it would
// query COMMAND first, which the user of docs/operations.md may not do.
func ping(ctx context.Context, client redis.UniversalClient) error {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return client.Ping(ctx).Err()
	}
	nodes, err := primaries.Of(ctx, cluster, primaries.Go)
	if err != nil {
		return err
	}
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() { answers <- node.Ping(ctx).Err() }() // ends with the time-outs of go-redis; not waited for once one has answered
	}
	var failed error
	for range nodes {
		err := <-answers
		if err == nil {
			return nil
		}
		failed = cmp.Or(failed, err)
	}
	return cmp.Or(failed, errNoPrimary)
}

var errNoPrimary = errors.New("no primary of this cluster has any slots")

// WithAddress adds the address of the server to an error of a server that does not answer.
func (s *Server) WithAddress(err error) error {
	if errors.Is(err, fairsem.ErrUnavailable) {
		return fmt.Errorf("%w; the server is %s", err, s)
	}
	return err
}
