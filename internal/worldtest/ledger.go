package worldtest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Ledger is where worker processes record their work: on a server that is not that of their limit, or under other keys.
type Ledger struct {
	rdb  *redis.Client
	name string
}

// OpenLedger returns the ledger of that name. The ledger must be closed.
func OpenLedger(addr, name string) Ledger {
	return Ledger{redis.NewClient(&redis.Options{Addr: addr}), name}
}

// Close closes its connections.
func (l Ledger) Close() error { return l.rdb.Close() }

// Do does a job, and writes down how many run at once and, in their order, which were done for which tenant.
func (l Ledger) Do(id, account string, work func()) error {
	ctx := context.Background() // the job is done, also if its own context ends
	n, err := l.rdb.Incr(ctx, l.key("running")).Result()
	if err != nil {
		return err
	}
	work()
	_, err = l.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Decr(ctx, l.key("running"))
		p.ZAddArgs(ctx, l.key("most"), redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(n), Member: "most"}}})
		p.HIncrBy(ctx, l.key("times"), id, 1)
		p.RPush(ctx, l.key("order"), account)
		return nil
	})
	return err
}

// Rescheduled writes down that a job was rescheduled. An error makes the count too low.
func (l Ledger) Rescheduled() { _ = l.rdb.Incr(context.Background(), l.key("rescheduled")).Err() }

func (l Ledger) key(what string) string { return "ledger:{" + l.name + "}:" + what }

func (l Ledger) remove() error {
	ctx := context.Background() // after the test
	return l.rdb.Del(ctx, l.key("running"), l.key("most"), l.key("times"), l.key("order"), l.key("rescheduled")).Err()
}
