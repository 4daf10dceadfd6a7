package fairsempgx_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/fairsempgx"
	"github.com/fairsem/fairsem/internal/pgtest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// servers returns a Client on a Redis of its own, the URL of a database, and a function that ends the Client.
func servers() (*fairsem.Client, string, func()) {
	database, err := pgtest.Shared()
	if err != nil {
		panic(err)
	}
	client, stop := worldtest.Example()
	return client, database.URL(), stop
}

func ordersPool(ctx context.Context, client *fairsem.Client, url string) (*pgxpool.Pool, error) {
	connections, err := client.Semaphore("orders-db", 17) // of all processes together
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 10 // of this process
	if err := fairsempgx.Configure(config, connections); err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func ExampleConfigure() {
	client, url, stop := servers()
	defer stop()
	ctx := context.Background()
	pool, err := ordersPool(ctx, client, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	var orders int
	err = pool.QueryRow(ctx, "SELECT 6 * 7").Scan(&orders)
	fmt.Println(orders, err)

	status, err := client.Inspect("orders-db").Status(ctx)
	fmt.Printf("%d of %d connections are in use, %v\n", status.Used, status.Limit, err)
	pool.Close()
	// Output:
	// 42 <nil>
	// 1 of 17 connections are in use, <nil>
}

func ordersDB(pool *pgxpool.Pool) *sql.DB {
	return stdlib.OpenDBFromPool(pool) // to be closed before the pool
}

// ordersSQL is for drivers other than that of pgx, which is used here, too: for pgx there is ordersDB.
func ordersSQL(client *fairsem.Client, url string) (*sql.DB, error) {
	connections, err := client.Semaphore("orders-db", 17) // of all processes together
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	dialer := &fairsemnet.Dialer{Semaphore: connections}
	config.DialFunc = dialer.DialContext
	return dialer.OpenDB(stdlib.GetConnector(*config), fairsemnet.DBOptions{MaxOpen: 10}) // of this process
}

// ordersPQ is ordersSQL with lib/pq.
func ordersPQ(client *fairsem.Client, url string) (*sql.DB, error) {
	connections, err := client.Semaphore("orders-db", 17) // of all processes together
	if err != nil {
		return nil, err
	}
	connector, err := pq.NewConnector(url)
	if err != nil {
		return nil, err
	}
	dialer := &fairsemnet.Dialer{Semaphore: connections}
	connector.Dialer(pqDialer{dialer})
	return dialer.OpenDB(connector, fairsemnet.DBOptions{MaxOpen: 10}) // of this process
}

// pqDialer has the methods that lib/pq wants, of which it calls DialContext only.
type pqDialer struct{ *fairsemnet.Dialer }

func (d pqDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d pqDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// ordersMySQL is ordersSQL with go-sql-driver/mysql.
//
//nolint:unused // docs/integrations.md shows it; no MySQL runs here
func ordersMySQL(client *fairsem.Client, dsn string) (*sql.DB, error) {
	connections, err := client.Semaphore("orders-db", 17) // of all processes together
	if err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	dialer := &fairsemnet.Dialer{Semaphore: connections}
	config.DialFunc = dialer.DialContext
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return dialer.OpenDB(connector, fairsemnet.DBOptions{MaxOpen: 10}) // of this process
}

// A DB of database/sql whose connections are shared with other processes, without a pool of pgx.
func Example_databaseSQL() {
	client, url, stop := servers()
	defer stop()
	db, err := ordersSQL(client, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	var orders int
	err = db.QueryRow("SELECT 6 * 7").Scan(&orders)
	fmt.Println(orders, err)

	status, err := client.Inspect("orders-db").Status(context.Background())
	fmt.Printf("%d of %d connections are in use, %v\n", status.Used, status.Limit, err)
	fmt.Println(db.Close())
	// Output:
	// 42 <nil>
	// 1 of 17 connections are in use, <nil>
	// <nil>
}

func TestDatabaseSQLUsesThePoolAndItsLimit(t *testing.T) {
	w := newWorld(t)
	w.Prefix = w.LimitName // other tests have an orders-db, too
	client := w.Client()
	pool, err := ordersPool(t.Context(), client, w.server.URL())
	require.NoError(t, err)
	defer pool.Close()
	db := ordersDB(pool)
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT 6 * 7").Scan(&n))
	assert.Equal(t, 42, n)
	s := client.Inspect("orders-db")
	status, err := s.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), status.Used)
	require.NoError(t, db.Close())
}

func TestDBOfLibPQKeepsToTheLimit(t *testing.T) {
	w := newWorld(t)
	w.Prefix = w.LimitName // other tests have an orders-db, too
	client := w.Client()
	db, err := ordersPQ(client, w.server.URL())
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT 6 * 7").Scan(&n))
	assert.Equal(t, 42, n)
	status, err := client.Inspect("orders-db").Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), status.Used)
	require.NoError(t, db.Close())
}
