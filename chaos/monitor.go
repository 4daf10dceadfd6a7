package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/history"
	"github.com/fairsem/fairsem/internal/protocol"
)

// monitor reads the server repeatedly. It bypasses the proxies, so faults between the server and the workers do not affect it.
type monitor struct {
	rdb  redis.UniversalClient
	stop chan struct{}
	done sync.WaitGroup

	mu         sync.Mutex
	reads      int                 // guarded by mu
	overLimit  []string            // descriptions of reads with more units in use than the limit; guarded by mu
	bothStates []string            // ids that held and waited at the same time; guarded by mu
	queued     map[string]int64    // id -> when it was first seen in the queue; guarded by mu
	granted    map[string]int64    // name -> when a new holder was last seen there; guarded by mu
	holding    map[string]int64    // id -> when it was last seen among the holders; guarded by mu
	holders    map[string][]string // name -> the ids of the holders at the last read; guarded by mu
	gone       map[string]int64    // id -> when it was first seen to hold no more; guarded by mu
	first      map[string]int64    // id -> when it was first seen to hold; guarded by mu
	again      map[string]int64    // id -> when it was first seen to hold although it had held no more; guarded by mu
	waiting    map[string]int64    // id -> when it was last seen in the queue; guarded by mu
	nameOf     map[string]string   // id -> the name at which it was first seen; guarded by mu
	wrongName  []string            // ids that were seen at two names; guarded by mu
	sameNumber []string            // units that had the same number; guarded by mu
}

// readEvery is a compromise: the monitor does not see changes between two reads.
const readEvery = 3 * time.Millisecond

// readScript reads a semaphore atomically: the units in use, the ids of the holders, those of the waiters, and the units that have the
// same number as another one.
const readScript = `
local holders = redis.call("ZRANGE", KEYS[1], 0, -1)
local units = 0
for _, id in ipairs(holders) do
  units = units + (tonumber(redis.call("HGET", KEYS[3], id)) or 1)
end
local numbers, same = redis.call("ZRANGE", KEYS[4], 0, -1, "WITHSCORES"), {}
for i = 4, #numbers, 2 do
  if numbers[i] == numbers[i - 2] then same[#same + 1] = numbers[i - 3] .. " and " .. numbers[i - 1] end
end
return { units, holders, redis.call("ZRANGE", KEYS[2], 0, -1), same }`

func newMonitor(rdb redis.UniversalClient) *monitor {
	return &monitor{
		rdb: rdb, stop: make(chan struct{}),
		queued: make(map[string]int64), holding: make(map[string]int64), granted: make(map[string]int64),
		holders: make(map[string][]string), gone: make(map[string]int64), waiting: make(map[string]int64),
		nameOf: make(map[string]string), first: make(map[string]int64), again: make(map[string]int64),
	}
}

func startMonitor(rdb redis.UniversalClient) *monitor {
	m := newMonitor(rdb)
	m.done.Go(m.run) // end stops it and waits for it to end
	return m
}

// limitBroken returns the reads with more units in use than the limit. It is called after end.
func (m *monitor) limitBroken() []string {
	if m.reads == 0 {
		return []string{"the monitor could not read the server, so this run proves nothing"}
	}
	return m.overLimit
}

// end stops the monitor.
func (m *monitor) end() {
	close(m.stop)
	m.done.Wait()
}

func (m *monitor) run() {
	for {
		for _, name := range []string{poolName, soloName, asideName, seatName, sharedName, slotsName} {
			m.read(name, limitOf(name))
		}
		select {
		case <-m.stop:
			return
		case <-time.After(readEvery):
		}
	}
}

// read reads a semaphore and records its state. It records nothing if the server does not answer.
func (m *monitor) read(name string, limit int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	keys := []string{keyOf(name, protocol.Owner), keyOf(name, protocol.Queue), keyOf(name, protocol.Weight), keyOf(name, protocol.NumbersKey)}
	asked := history.Now()
	list, err := evalRO(ctx, m.rdb, readScript, keys).Slice()
	if cluster, ok := m.rdb.(*redis.ClusterClient); ok && err != nil {
		cluster.ReloadState(ctx)
	}
	if err != nil || len(list) != 4 {
		return
	}
	units, _ := list[0].(int64)
	m.recordSame(name, texts(list[3]))
	m.record(name, limit, units, texts(list[1]), texts(list[2]), asked)
}

// evalRO executes a script that only reads, with EVAL_RO where the server has that: it is answered during a CLIENT PAUSE of writes, too.
// Redis has it since version 7.
func evalRO(ctx context.Context, rdb redis.UniversalClient, script string, keys []string) *redis.Cmd {
	reply := rdb.EvalRO(ctx, script, keys)
	if failure.UnknownCommand(reply.Err(), "eval_ro") {
		reply = rdb.Eval(ctx, script, keys)
	}
	return reply
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

// recordSame records units that have the same number.
func (m *monitor) recordSame(name string, same []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, units := range same {
		m.sameNumber = append(m.sameNumber, fmt.Sprintf("%s at %d: %s have the same number on the server", name, history.Now(), units))
	}
}

func (m *monitor) record(name string, limit, units int64, holders, waiters []string, asked int64) {
	now := history.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if units > limit {
		m.overLimit = append(m.overLimit, fmt.Sprintf("%s at %d: %d units of %d are in use, by %s", name, now, units, limit, strings.Join(holders, " ")))
	}
	for _, id := range slices.Concat(holders, waiters) {
		if m.nameOf[id] == "" {
			m.nameOf[id] = name
		} else if m.nameOf[id] != name {
			m.wrongName = append(m.wrongName, fmt.Sprintf("%s at %d: %s is there, but it was first seen at %s", name, now, id, m.nameOf[id]))
		}
	}
	for _, id := range holders {
		if m.gone[id] > 0 && m.again[id] == 0 {
			m.again[id] = asked
		}
	}
	for _, id := range m.holders[name] {
		m.gone[id] = now
	}
	m.holders[name] = holders
	for _, id := range holders {
		delete(m.gone, id)
	}
	// For the units of killed processes, the time before the read counts: it cannot be later than the state that was read.
	for _, id := range holders {
		if m.holding[id] == 0 {
			m.granted[name], m.first[id] = now, now
		}
		m.holding[id] = asked
	}
	for _, id := range waiters {
		if m.holding[id] == asked {
			m.bothStates = append(m.bothStates, fmt.Sprintf("%s at %d: %s holds and waits", name, now, id))
		}
		m.waiting[id] = asked
		if m.queued[id] == 0 {
			m.queued[id] = now
		}
	}
}

// grantedSince reports whether each contended semaphore has had a new holder since then.
func (m *monitor) grantedSince(at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range contended {
		if m.granted[name] <= at {
			return false
		}
	}
	return true
}
