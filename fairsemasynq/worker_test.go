package fairsemasynq_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemasynq"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// order is the task of a worker process: a server for each queue, until SIGTERM. The queues are tenants of one limit.
type order struct {
	Redis, Store, Name string // the servers of the limit and of asynq; of the limit and the ledger
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
	limit, err := client.Semaphore(o.Name, o.Limit)
	if err != nil {
		return err
	}
	var servers []*asynq.Server
	for queue := range o.Workers {
		server, err := o.start(limit.With(fairsem.CallOptions{Tenant: queue}), ledger, queue)
		if err != nil {
			return err
		}
		servers = append(servers, server)
	}
	fmt.Println("ready")
	<-ctx.Done()
	for _, s := range servers {
		s.Shutdown()
	}
	return errors.Join(client.Close(), rdb.Close(), ledger.Close())
}

func (o order) start(limit *fairsem.Semaphore, ledger worldtest.Ledger, queue string) (*asynq.Server, error) {
	config := configOf(o.Workers[queue], queue)
	limited, err := fairsemasynq.Middleware(&config, limit, fairsemasynq.Options{
		MaxWait:      o.MaxWait,
		OnReschedule: func(context.Context, *asynq.Task, time.Duration, error) { ledger.Rescheduled() },
	})
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(limited)
	mux.HandleFunc("job:", func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		return ledger.Do(id, queue, func() { time.Sleep(o.Each) }) // the work
	})
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: o.Store}, config)
	return server, server.Start(mux)
}
