package fairsemriver_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemriver"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// order is the task of a worker process: a client with workers for each queue, until SIGTERM. The queues are tenants of one limit.
type order struct {
	Redis, Store, Name string // the servers of the limit and of the ledger; of both
	Database, Schema   string
	Limit              int64
	Workers            map[string]int // of each queue
	Each, MaxWait, TTL time.Duration
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	redis.SetLogger(&logging.VoidLogger{}) // it logs each dial during an outage
	rdb, ledger := redis.NewClient(&redis.Options{Addr: o.Redis}), worldtest.OpenLedger(o.Store, o.Name)
	client, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	limited, err := o.middleware(client, ledger)
	if err != nil {
		return err
	}
	background := context.Background() // ctx ends with SIGTERM, after which jobs are still being done
	pool, err := connect(background, o.Database)
	if err != nil {
		return err
	}
	config := configOf(o.Schema, o.Workers, func(_ context.Context, j *river.Job[job]) error {
		return ledger.Do(strconv.FormatInt(j.ID, 10), j.Queue, func() { time.Sleep(o.Each) }) // the work
	})
	config.Middleware = []rivertype.Middleware{limited}
	worker, err := river.NewClient(riverpgxv5.New(pool), config)
	if err != nil {
		return err
	}
	if err := worker.Start(background); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	err = worker.Stop(background)
	pool.Close()
	return errors.Join(err, client.Close(), rdb.Close(), ledger.Close())
}

func (o order) middleware(client *fairsem.Client, ledger worldtest.Ledger) (rivertype.Middleware, error) {
	limit, err := client.Semaphore(o.Name, o.Limit)
	if err != nil {
		return nil, err
	}
	return fairsemriver.Middleware(nil, fairsemriver.Options{
		MaxWait: o.MaxWait,
		LimitOf: func(_ context.Context, row *rivertype.JobRow) (fairsemriver.Limit, error) {
			return limit.With(fairsem.CallOptions{Tenant: row.Queue}), nil
		},
		OnReschedule: func(context.Context, *rivertype.JobRow, time.Duration, error) { ledger.Rescheduled() },
	})
}
