// Package semaphore has the API of golang.org/x/sync/semaphore on fairsem, so that x/sync's own tests can run on it:
// xsync_test.go puts it in that package's place.
package semaphore

import (
	"fmt"
	"os"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// Weighted has no method that fairsem's does not have.
type Weighted = fairsem.Weighted

var client = sync.OnceValue(func() *fairsem.Client {
	c, err := fairsem.New(redis.NewClient(&redis.Options{Addr: os.Getenv("FAIRSEM_XSYNC_REDIS")}), fairsem.Options{})
	if err != nil {
		panic(err)
	}
	return c
})

// NewWeighted returns a semaphore that nobody else uses. It panics where x/sync's does.
func NewWeighted(n int64) *Weighted {
	sem, err := client().Weighted("xsync-"+uuid.NewString(), n)
	if err != nil {
		panic(err)
	}
	sem.OnLost(func(_ int64, err error) { panic(err) })
	return sem
}

// Close gives back what the tests have kept, and is an error if anything was left of them.
func Close() error {
	if err := client().Close(); err != nil {
		return fmt.Errorf("semaphore: %w", err)
	}
	return nil
}
