package worldtest

import (
	"context"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// Example returns a Client on a server of its own in this process, and a function that ends both. It is for examples, which have no
// test to fail: it panics.
func Example() (*fairsem.Client, func()) {
	rdb, stop := ExampleRedis()
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close() // the example is over
		stop()
	}
}

// ExampleRedis is Example for examples that make their own Client.
func ExampleRedis() (*redis.Client, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	compile(rdb)
	return rdb, func() {
		_ = rdb.Close() // the example is over
		server.Close()
	}
}

// compile has the server compile the scripts of a pair of calls. With the race detector that takes a tenth of a second, and on a busy
// machine longer than a Release waits.
func compile(rdb *redis.Client) {
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = client.Close() }() // the example says what is wrong
	mutex, err := client.Mutex("compile")
	if err != nil {
		panic(err)
	}
	_ = mutex.Do(context.Background(), func(context.Context) error { return nil })
}
