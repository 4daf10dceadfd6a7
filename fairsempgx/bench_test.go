package fairsempgx_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsempgx"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// each measures f on a pool with and without a limit that is never reached.
func each(b *testing.B, f func(b *testing.B, pool *pgxpool.Pool)) {
	s := worldtest.Unreached(b, nil)
	for _, one := range []struct {
		name      string
		configure func(*pgxpool.Config) error
	}{
		{"bare", func(*pgxpool.Config) error { return nil }},
		{"limited", func(c *pgxpool.Config) error { return fairsempgx.Configure(c, s) }},
	} {
		b.Run(one.name, func(b *testing.B) {
			config, err := pgxpool.ParseConfig(shared(b).Socket("app"))
			require.NoError(b, err)
			config.MaxConns = 10
			require.NoError(b, one.configure(config))
			pool, err := pgxpool.NewWithConfig(context.Background(), config)
			require.NoError(b, err)
			defer pool.Close()
			f(b, pool)
			b.ReportAllocs()
			for b.Loop() {
				f(b, pool)
			}
		})
	}
}

// BenchmarkQuery is one query on a connection that the pool keeps.
func BenchmarkQuery(b *testing.B) {
	each(b, func(b *testing.B, pool *pgxpool.Pool) {
		var n int
		if err := pool.QueryRow(b.Context(), "SELECT 1").Scan(&n); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkAcquire measures the cost that the limit adds to a query: the call takes a connection that the pool keeps, and releases it.
func BenchmarkAcquire(b *testing.B) {
	each(b, func(b *testing.B, pool *pgxpool.Pool) {
		c, err := pool.Acquire(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	})
}
