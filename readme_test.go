package fairsem_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

//nolint:errcheck // Do is there for who wants to know what Release says
func run(ctx context.Context, rdb redis.UniversalClient) error {
	client, err := fairsem.New(rdb, fairsem.Options{}) // one for each process
	if err != nil {
		return err
	}
	defer client.Close()

	api, err := client.Semaphore("payments-api", 20) // at most 20 at once, in all processes together
	if err != nil {
		return err
	}
	permit, err := api.Acquire(ctx, 1) // first come, first served
	if err != nil {
		return err
	}
	defer permit.Release(ctx)

	return pay(permit.Context()) // ends when the permit may no longer be relied on
}

func pay(context.Context) error {
	fmt.Println("paid")
	return nil
}

func Example() {
	rdb, stop := startRedis() // yours: redis.NewClient, NewFailoverClient or NewClusterClient
	defer stop()
	if err := run(context.Background(), rdb); err != nil {
		fmt.Println(err)
	}
	// Output: paid
}
