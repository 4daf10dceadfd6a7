package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// takeFunc waits for one unit of a name. It is called by one goroutine at a time.
type takeFunc func(ctx context.Context) (held, error)

// held is what a caller got.
type held struct {
	give  func(ctx context.Context) error
	token int64 // 0: there is none
}

// house is one contender in one process, set up as its documentation says. Close is called when
// nobody uses it any more.
type house interface {
	taker(name string) (takeFunc, error)
	close() error
}

// opener connects a contender to job.Addr for at most callers takers.
type opener func(j job, callers int) (house, error)

// Names of contenders, as they stand in jobs and results.
const (
	pings        = "two PINGs"
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

// openers has every contender that is written in Go.
var openers = map[string]opener{
	pings:        openPings,
	fair:         openFairsem,
	redislocks:   openRedislock,
	redsyncs:     openRedsync,
	rueidislocks: openRueidislock,
	asynqs:       openAsynq,
	fairWaits:    openFairRate(byWait),
	fairAllows:   openFairRate(byAllow),
	redisRates:   openRedisRate,
}

// ours are those whose failures fail the bench.
var ours = []string{pings, fair, fairWaits, fairAllows}

func open(j job, callers int) (house, error) {
	o, known := openers[j.Contender]
	if !known {
		return nil, fmt.Errorf("no contender %q; there are %q", j.Contender, slices.Sorted(maps.Keys(openers)))
	}
	return o(j, callers)
}
