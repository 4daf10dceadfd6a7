package worldtest

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// Example returns a Client on a server of its own in this process, and a function that ends both. It is for examples, which have no
// test to fail: it panics.
func Example() (*fairsem.Client, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_, _ = client.Close(), rdb.Close() // the example is over
		server.Close()
	}
}
