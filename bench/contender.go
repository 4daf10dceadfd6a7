package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// acquireFunc waits for one unit of a name. One goroutine at a time calls it.
type acquireFunc func(ctx context.Context) (acquired, error)

// acquired is a unit that was granted to a caller.
type acquired struct {
	release func(ctx context.Context) error
	token   int64 // 0: the contender has no tokens
}

// contender is one contender in one process, configured as its documentation says. close is called when it is no longer used.
type contender interface {
	acquirer(name string) (acquireFunc, error)
	close() error
}

// opener connects a contender to job.Addr. It then returns at most callers acquirers.
type opener func(j job, callers int) (contender, error)

// Names of contenders in jobs and results.
const (
	pings        = "two PINGs"
	floors       = "floor"
	fair         = "fairsem"
	redislocks   = "redislock"
	redsyncs     = "redsync"
	rueidislocks = "rueidislock"
	asynqs       = "asynq x/rate"
	nodes        = "redis-semaphore (node)"
	fairWaits    = "fairsem Wait"
	fairAllows   = "fairsem Allow"
	redisRates   = "redis_rate"
)

// openers contains every contender that is written in Go.
var openers = map[string]opener{
	pings:        openPings,
	floors:       openFloor,
	fair:         openFairsem,
	redislocks:   openRedislock,
	redsyncs:     openRedsync,
	rueidislocks: openRueidislock,
	asynqs:       openAsynq,
	fairWaits:    openFairRate(byWait),
	fairAllows:   openFairRate(byAllow),
	redisRates:   openRedisRate,
}

// ours are the contenders whose failures fail the bench.
var ours = []string{pings, floors, fair, fairWaits, fairAllows}

func open(j job, callers int) (contender, error) {
	o, known := openers[j.Contender]
	if !known {
		return nil, fmt.Errorf("no contender %q; the contenders are %q", j.Contender, slices.Sorted(maps.Keys(openers)))
	}
	return o(j, callers)
}
