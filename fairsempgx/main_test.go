package fairsempgx_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsempgx"
	"github.com/fairsem/fairsem/internal/pgtest"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) {
	worldtest.Main[order](func() int {
		return pgtest.Main(func() int { return redistest.Main(m) })
	})
}

func shared(t testing.TB) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Shared()
	require.NoError(t, err)
	return server
}

// superuser returns a connection, which the end of the test closes.
func superuser(t testing.TB, server *pgtest.Server) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), server.Socket("postgres"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the test is over
	return c
}

// world is a limit of its own, and a database.
type world struct {
	*worldtest.World
	server *pgtest.Server
	admin  *pgx.Conn // of the superuser; only the goroutine of the test uses it
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := worldtest.New(t)
	server := shared(t)
	return &world{w, server, superuser(t, server)}
}

// config returns the configuration of a pool, whose sessions have the name of the world.
func (w *world) config(most int32) *pgxpool.Config {
	w.Helper()
	c, err := pgxpool.ParseConfig(w.server.URL())
	require.NoError(w, err)
	c.MaxConns = most
	c.ConnConfig.RuntimeParams["application_name"] = w.application()
	return c
}

// application is the name of the world as far as PostgreSQL keeps it.
func (w *world) application() string { return w.LimitName[max(0, len(w.LimitName)-63):] }

// open makes a pool, which the end of the test closes.
func (w *world) open(c *pgxpool.Config) *pgxpool.Pool {
	w.Helper()
	p, err := pgxpool.NewWithConfig(w.Context(), c)
	require.NoError(w, err)
	w.Cleanup(p.Close)
	return p
}

// pool returns a pool of another process.
func (w *world) pool(s *fairsem.Semaphore, most int32) *pgxpool.Pool {
	w.Helper()
	c := w.config(most)
	require.NoError(w, fairsempgx.Configure(c, s))
	return w.open(c)
}

// take returns a connection, which the end of the test releases.
func (w *world) take(p *pgxpool.Pool) *pgxpool.Conn {
	w.Helper()
	c, err := p.Acquire(w.Context())
	require.NoError(w, err)
	w.Cleanup(c.Release)
	return c
}

// user returns a user of the database that may have that many sessions.
func (w *world) user(most int) string {
	w.Helper()
	name := "user_" + strings.ReplaceAll(uuid.NewString(), "-", "_")
	_, err := w.admin.Exec(w.Context(), fmt.Sprintf("CREATE ROLE %s LOGIN CONNECTION LIMIT %d", name, most))
	require.NoError(w, err)
	w.Cleanup(func() {
		_, err := w.admin.Exec(context.Background(), "DROP ROLE "+name)
		assert.NoError(w, err)
	})
	return name
}

// sessions returns how many sessions of the world the server has.
func (w *world) sessions() (n int) {
	w.Helper()
	require.NoError(w, w.admin.QueryRow(context.Background(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", w.application()).Scan(&n))
	return n
}

// during runs a query that takes an hour, calls f while the server executes it, and returns the error of the query.
func (w *world) during(query func(sleep string) error, f func()) error {
	w.Helper()
	ended := make(chan error, 1)
	go func() { ended <- query("SELECT pg_sleep(3600)") }() // ends with the connection
	w.Eventually(func() bool {
		var n int
		require.NoError(w, w.admin.QueryRow(context.Background(),
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'", w.application()).Scan(&n))
		return n == 1
	}, "the server does not run the query")
	f()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		require.Fail(w, "the query goes on")
		return nil
	}
}
