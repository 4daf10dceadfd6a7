package top

import (
	"context"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// source is the server that is queried and changed. Each call returns when its ctx is done.
type source interface {
	Survey(ctx context.Context) (inspect.Survey, error)
	Detail(ctx context.Context, name string) (inspect.Detail, error)
	Status(ctx context.Context, name string) (fairsem.Status, error)
	SetLimit(ctx context.Context, name string, limit int64) error
	ResetLimit(ctx context.Context, name string) error
	Evict(ctx context.Context, name, id string) error
	StillWaits(ctx context.Context, name string, waiter fairsem.Ticket) error // change.ErrDeclined if it holds a permit
}

// maxTickets is how many holders, and how many waiters, are requested.
const maxTickets = 1000

// server is the source that Redis is.
type server struct {
	client *fairsem.Client
	names  *inspect.Finder
}

func (s *server) Survey(ctx context.Context) (inspect.Survey, error) { return s.names.Query(ctx) }

func (s *server) Detail(ctx context.Context, name string) (inspect.Detail, error) {
	return inspect.PollDetail(ctx, s.client, name, maxTickets)
}

func (s *server) Status(ctx context.Context, name string) (fairsem.Status, error) {
	return s.client.Inspect(name).Status(ctx)
}

func (s *server) SetLimit(ctx context.Context, name string, limit int64) error {
	return s.client.Inspect(name).SetLimit(ctx, limit)
}

func (s *server) ResetLimit(ctx context.Context, name string) error {
	return s.client.Inspect(name).ResetLimit(ctx)
}

func (s *server) Evict(ctx context.Context, name, id string) error {
	return s.client.Inspect(name).Evict(ctx, id)
}

func (s *server) StillWaits(ctx context.Context, name string, waiter fairsem.Ticket) error {
	return change.StillWait(ctx, s.client.Inspect(name), []fairsem.Ticket{waiter})
}
