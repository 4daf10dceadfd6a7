package fairsempgx_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/fairsempgx"
)

// order is the task of a worker process: queries from as many goroutines as its pool may have connections, until SIGTERM.
type order struct {
	Redis, Name, Database string
	Limit                 int64
	TTL                   time.Duration
	MaxConns              int32
	Bare                  bool          // without fairsem
	SQL                   bool          // database/sql on a fairsemnet.Dialer, not pgxpool
	Query                 time.Duration // how long a query takes
}

// report is a line of a worker: its counts since it started.
type report struct {
	Queries, Failed, TooMany, Connections int64
	Error                                 string // one of those of Failed
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	redis.SetLogger(&logging.VoidLogger{}) // it logs each dial during an outage
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	l := load{each: o.Query}
	closePool, err := o.connect(client, &l)
	if err != nil {
		return err
	}
	done := make(chan struct{}, o.MaxConns)
	for range o.MaxConns {
		go func() { l.query(ctx); done <- struct{}{} }() // ends with ctx
	}
	for ctx.Err() == nil {
		l.report()
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	for range o.MaxConns {
		<-done
	}
	closePool()
	err = errors.Join(client.Close(), rdb.Close())
	l.report()
	return err
}

// connect opens the pool that the load runs on.
func (o order) connect(client *fairsem.Client, l *load) (closePool func(), err error) {
	if o.SQL {
		connections, err := client.Semaphore(o.Name, o.Limit)
		if err != nil {
			return nil, err
		}
		db, err := openDB(connections, o.Database, int(o.MaxConns), &l.dials)
		if err != nil {
			return nil, err
		}
		l.connections = l.dials.Load
		l.exec = func(ctx context.Context, query string, args ...any) error {
			_, err := db.ExecContext(ctx, query, args...)
			return err
		}
		return func() { _ = db.Close() }, nil // the process ends
	}
	pool, err := o.pool(client)
	if err != nil {
		return nil, err
	}
	l.exec = func(ctx context.Context, query string, args ...any) error {
		_, err := pool.Exec(ctx, query, args...)
		return err
	}
	l.connections = func() int64 { return pool.Stat().NewConnsCount() }
	return pool.Close, nil
}

// openDB opens a DB on a Dialer, which counts its connections.
func openDB(s *fairsem.Semaphore, url string, most int, dials *atomic.Int64) (*sql.DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	dialer := countingDialer(s, dials)
	config.DialFunc = dialer.DialContext
	return dialer.OpenDB(stdlib.GetConnector(*config), fairsemnet.DBOptions{MaxOpen: most})
}

// openPQ is openDB with lib/pq.
func openPQ(s *fairsem.Semaphore, url string, most int, dials *atomic.Int64) (*sql.DB, error) {
	connector, err := pq.NewConnector(url)
	if err != nil {
		return nil, err
	}
	dialer := countingDialer(s, dials)
	connector.Dialer(pqDialer{dialer})
	return dialer.OpenDB(connector, fairsemnet.DBOptions{MaxOpen: most})
}

func countingDialer(s *fairsem.Semaphore, dials *atomic.Int64) *fairsemnet.Dialer {
	return &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
}

func (o order) pool(client *fairsem.Client) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(o.Database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = o.MaxConns
	if !o.Bare {
		connections, err := client.Semaphore(o.Name, o.Limit)
		if err != nil {
			return nil, err
		}
		if err := fairsempgx.Configure(config, connections); err != nil {
			return nil, err
		}
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

type load struct {
	exec                     func(ctx context.Context, query string, args ...any) error
	connections              func() int64 // opened so far
	dials                    atomic.Int64
	each                     time.Duration
	queries, failed, tooMany atomic.Int64
	failure                  atomic.Pointer[string]
}

// query runs short queries. Each has ten seconds, the wait for a connection included.
func (l *load) query(ctx context.Context) {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := l.exec(one, "SELECT pg_sleep($1)", l.each.Seconds())
		cancel()
		switch {
		case err == nil:
			l.queries.Add(1)
			continue
		case ctx.Err() != nil:
			return
		}
		if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "53300" {
			l.tooMany.Add(1)
		}
		text := err.Error()
		l.failure.Store(&text)
		l.failed.Add(1)
		select {
		case <-time.After(10 * time.Millisecond): // as a caller that tries again would
		case <-ctx.Done():
		}
	}
}

func (l *load) report() {
	r := report{Queries: l.queries.Load(), Failed: l.failed.Load(), TooMany: l.tooMany.Load(), Connections: l.connections()}
	if text := l.failure.Load(); text != nil {
		r.Error = *text
	}
	_ = json.NewEncoder(os.Stdout).Encode(r) // the test that reads it notices
}
