package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/history"
	"github.com/fairsem/fairsem/internal/protocol"
)

// monitor looks into the server again and again, past every fault between it and the workers.
type monitor struct {
	rdb  redis.UniversalClient
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	looks   int               // guarded by mu
	over    []string          // looks that found more than the limit in use; guarded by mu
	twice   []string          // ids that held and waited at the same time; guarded by mu
	inLine  map[string]int64  // id -> when it was seen in line first; guarded by mu
	granted map[string]int64  // name -> when a holder was seen there that was new; guarded by mu
	holding map[string]int64  // id -> when it was seen among the holders last; guarded by mu
	home    map[string]string // id -> the name at which it was seen first; guarded by mu
	mixed   []string          // ids that were seen at another one; guarded by mu
}

// lookEvery is a compromise: what happens between two looks the monitor does not see.
const lookEvery = 3 * time.Millisecond

// lookScript reads a semaphore in one step: the units in use, then who holds, then who waits.
const lookScript = `
local holders = redis.call("ZRANGE", KEYS[1], 0, -1)
local units = 0
for _, id in ipairs(holders) do
  units = units + (tonumber(redis.call("HGET", KEYS[3], id)) or 1)
end
return { units, holders, redis.call("ZRANGE", KEYS[2], 0, -1) }`

func newMonitor(rdb redis.UniversalClient) *monitor {
	return &monitor{
		rdb: rdb, stop: make(chan struct{}),
		inLine: make(map[string]int64), holding: make(map[string]int64), granted: make(map[string]int64),
		home: make(map[string]string),
	}
}

func startMonitor(rdb redis.UniversalClient) *monitor {
	m := newMonitor(rdb)
	m.done.Go(m.run) // end stops it and waits for it
	return m
}

// end stops looking.
func (m *monitor) end() {
	close(m.stop)
	m.done.Wait()
}

func (m *monitor) run() {
	for {
		for _, name := range []string{poolName, soloName, asideName, seatName} {
			m.look(name, limitOf(name))
		}
		select {
		case <-m.stop:
			return
		case <-time.After(lookEvery):
		}
	}
}

// look notes what a semaphore looks like. A server that does not answer is no news.
func (m *monitor) look(name string, limit int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	keys := []string{keyOf(name, protocol.Owner), keyOf(name, protocol.Queue), keyOf(name, protocol.Weight)}
	asked := history.Now()
	list, err := m.rdb.EvalRO(ctx, lookScript, keys).Slice()
	if cluster, ok := m.rdb.(*redis.ClusterClient); ok && err != nil {
		cluster.ReloadState(ctx)
	}
	if err != nil || len(list) != 3 {
		return
	}
	units, _ := list[0].(int64)
	m.note(name, limit, units, texts(list[1]), texts(list[2]), asked)
}

func texts(list any) []string {
	var all []string
	values, _ := list.([]any)
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

func (m *monitor) note(name string, limit, units int64, holders, waiters []string, asked int64) {
	now := history.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	if units > limit {
		m.over = append(m.over, fmt.Sprintf("%s at %d: %d units of %d are in use, by %s", name, now, units, limit, strings.Join(holders, " ")))
	}
	for _, id := range slices.Concat(holders, waiters) {
		if m.home[id] == "" {
			m.home[id] = name
		} else if m.home[id] != name {
			m.mixed = append(m.mixed, fmt.Sprintf("%s at %d: %s is there, which was at %s", name, now, id, m.home[id]))
		}
	}
	// Of what the dead have, the start of the look counts, which is sure to be no later than what it shows.
	for _, id := range holders {
		if m.holding[id] == 0 {
			m.granted[name] = now
		}
		m.holding[id] = asked
	}
	for _, id := range waiters {
		if m.holding[id] == asked {
			m.twice = append(m.twice, fmt.Sprintf("%s at %d: %s holds and waits", name, now, id))
		}
		if m.inLine[id] == 0 {
			m.inLine[id] = now
		}
	}
}

// grantedSince reports whether each semaphore has had a new holder since then.
func (m *monitor) grantedSince(at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range busy {
		if m.granted[name] <= at {
			return false
		}
	}
	return true
}
