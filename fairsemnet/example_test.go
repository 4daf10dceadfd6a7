package fairsemnet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// A pool of HTTP connections of which all processes together open at most 17. The second program cannot connect while the
// first one keeps the only unit that is left.
func ExampleDialer() {
	client, stop := worldtest.Example()
	defer stop()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "orders") }))
	defer server.Close()

	connections, err := client.Semaphore("orders-db", 17)
	if err != nil {
		fmt.Println(err)
		return
	}
	dialer := &fairsemnet.Dialer{Semaphore: connections.With(fairsem.CallOptions{MaxWait: 10 * time.Second})}
	pool := &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxConnsPerHost: 10, // of this process
		MaxIdleConns: 5, IdleConnTimeout: time.Minute,
	}}

	others, err := connections.Acquire(context.Background(), 16) // other processes have 16 connections
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := pool.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err, resp.Body.Close())

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = dialer.DialContext(ctx, "tcp", server.Listener.Addr().String())
	fmt.Println(errors.Is(err, context.DeadlineExceeded)) // it says how many are in use, if Redis answers at once

	pool.CloseIdleConnections()
	fmt.Println(others.Release(context.Background()))
	// Output:
	// orders <nil> <nil>
	// true
	// <nil>
}

func limitRedis(options *redis.Options, connections *fairsem.Semaphore) {
	dialer := &fairsemnet.Dialer{Semaphore: connections}
	if options.TLSConfig != nil { // only the dialer that this one replaces uses it
		dialer.Options.Dial = (&tls.Dialer{Config: options.TLSConfig}).DialContext
	}
	options.Dialer = dialer.DialContext
}

// Without Options.Dial the password was sent without TLS.
func TestDialerOfTheDocsForGoRedisSpeaksTLS(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	options := *redistest.SharedSecure(t).Client().Options()
	limitRedis(&options, s)
	rdb := redis.NewClient(&options)
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	w.EventuallyUsed(s, 1)
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
	w.EventuallyUsed(s, 0)
}

// gRPC dials addresses without a network: grpc.WithContextDialer(dialTCP(dialer)).
func dialTCP(d *fairsemnet.Dialer) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
}

func TestDialerOfTheDocsForGRPCConnects(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c, err := dialTCP(&fairsemnet.Dialer{Semaphore: s})(t.Context(), w.tcp())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	w.EventuallyUsed(s, 0)
}
