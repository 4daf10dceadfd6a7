package fairsemriver_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemriver"
	"github.com/fairsem/fairsem/internal/pgtest"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) {
	worldtest.Main[order](func() int {
		return pgtest.Main(func() int { return redistest.Main(m) })
	})
}

// open returns a pool of connections in which River has a schema of its own.
func open(ctx context.Context) (pool *pgxpool.Pool, schema string, err error) {
	server, err := pgtest.Shared()
	if err != nil {
		return nil, "", err
	}
	pool, err = connect(ctx, server.Socket("postgres"))
	if err != nil {
		return nil, "", err
	}
	schema = "river_" + uuid.NewString()[:8]
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, "", err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, "", err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return pool, schema, err
}

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 4
	return pgxpool.NewWithConfig(ctx, config)
}

// world is a limit of its own, and a schema of River.
type world struct {
	*worldtest.World
	store       string // the address of the Redis that all tests share
	pool        *pgxpool.Pool
	schema      string
	config      func(*river.Config) // changes that of every new client; may be nil
	rescheduled chan rescheduling   // the arguments of OnReschedule
}

type rescheduling struct {
	delay time.Duration
	err   error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: worldtest.New(t), rescheduled: make(chan rescheduling, 100)}
	w.store = w.Redis
	var err error
	w.pool, w.schema, err = open(t.Context())
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	return w
}

// job is the job of the workers of the tests.
type job struct {
	Text string `json:"text"`
}

func (job) Kind() string { return "job" }

type work func(context.Context, *river.Job[job]) error

// configOf is that of a client that notices everything soon.
func configOf(schema string, workers map[string]int, do work) *river.Config {
	config := &river.Config{
		Schema: schema, Queues: make(map[string]river.QueueConfig), Workers: river.NewWorkers(), Logger: slog.New(slog.DiscardHandler),
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		TestOnly: true, // maintenance begins at once
	}
	for queue, n := range workers {
		config.Queues[queue] = river.QueueConfig{MaxWorkers: n}
	}
	river.AddWorker(config.Workers, river.WorkFunc(do))
	return config
}

type client = river.Client[pgx.Tx]

// serve works on the jobs of the default queue, until the test ends or stops it.
func (w *world) serve(limit fairsemriver.Limit, o fairsemriver.Options, do work) *client {
	w.Helper()
	if o.OnReschedule == nil {
		o.OnReschedule = func(_ context.Context, _ *rivertype.JobRow, delay time.Duration, err error) {
			w.rescheduled <- rescheduling{delay, err}
		}
	}
	limited, err := fairsemriver.Middleware(limit, o)
	require.NoError(w, err)
	return w.start(do, limited)
}

func (w *world) start(do work, use ...rivertype.Middleware) *client {
	w.Helper()
	config := configOf(w.schema, map[string]int{river.QueueDefault: 10}, do)
	config.Middleware = use
	if w.config != nil {
		w.config(config)
	}
	c, err := river.NewClient(riverpgxv5.New(w.pool), config)
	require.NoError(w, err)
	require.NoError(w, c.Start(context.Background()))
	w.Cleanup(func() { _ = c.StopAndCancel(context.Background()) }) // some tests have stopped it
	return c
}

// insert returns the id of a new job.
func (w *world) insert(text string, maxAttempts int) int64 {
	w.Helper()
	c, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Schema: w.schema})
	require.NoError(w, err)
	inserted, err := c.Insert(w.Context(), job{text}, &river.InsertOpts{MaxAttempts: maxAttempts})
	require.NoError(w, err)
	return inserted.Job.ID
}

// job waits until River has a job in that state.
func (w *world) job(id int64, state rivertype.JobState) *rivertype.JobRow {
	w.Helper()
	c, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Schema: w.schema})
	require.NoError(w, err)
	var row *rivertype.JobRow
	w.Eventually(func() bool {
		row, err = c.JobGet(w.Context(), id)
		return err == nil && row.State == state
	}, "the job is not "+string(state))
	return row
}

// done waits until a job is done, at the first attempt that counts and without an error.
func (w *world) done(id int64) {
	w.Helper()
	row := w.job(id, rivertype.JobStateCompleted)
	assert.Equal(w, 1, row.Attempt)
	assert.Empty(w, row.Errors)
}

// outage has the limits of new Clients on a server of their own, which the test may kill.
func (w *world) outage() *redistest.Server {
	w.Helper()
	server := redistest.NewServer(w)
	require.NoError(w, server.AwaitAge(2))
	w.Redis = server.Addr()
	return server
}

// counted counts the calls of a worker.
type counted struct{ atomic.Int64 }

func (c *counted) work(context.Context, *river.Job[job]) error {
	c.Add(1)
	return nil
}
