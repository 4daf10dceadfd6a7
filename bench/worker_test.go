package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"

	facts "github.com/fairsem/fairsem/internal/machine"
)

// sharedBench returns a bench on the server that the tests share.
func sharedBench(t *testing.T) *bench {
	process := redistest.SharedServer(t)
	require.NoError(t, process.AwaitAge(settledAge)) // before that a server may not grant for longer than a window
	b := &bench{
		settings: settings{Rounds: 1, Duration: 100 * time.Millisecond, Smoke: true},
		server:   &server{process: process, rdb: process.Client()},
		machine:  machine{Facts: facts.Facts{Versions: make(map[string]string)}},
		progress: &bytes.Buffer{},
	}
	b.scale = b.settings.scale()
	return b
}

// This is a job under contention, so it shows whether each contender is connected as one that enforces a limit.
func TestEveryContenderGrantsWithinTheLimit(t *testing.T) {
	b := sharedBench(t)
	for contender := range openers {
		if contender == pings || slices.Contains(rateContenders, contender) {
			continue
		}
		t.Run(contender, func(t *testing.T) {
			w, err := newWorker(job{
				Contender: contender, Addr: b.server.addr(), Key: t.Name(), Goroutines: 4, Names: 1, Limit: 1, Hold: time.Millisecond, Journal: true,
			})
			require.NoError(t, err)
			o := w.run(window{now(), now() + int64(100*time.Millisecond)})
			require.NoError(t, w.contender.close())

			assert.Positive(t, o.Calls)
			f := waitFigures(run{job: job{Limit: 1}, window: window{0, now()}, outcomes: []outcome{o}})
			assert.Equal(t, 1.0, f["most"])
			if contender == fair { // on a busy machine a peer may fail some of its callers
				assert.Zero(t, o.Failures, o.Failure)
				assert.Len(t, o.Records, o.Calls)
			}
		})
	}
}

func TestUncontendedJobRecordsHowLongPairsTake(t *testing.T) {
	b := sharedBench(t)
	for _, contender := range []string{pings, floors, fair} {
		w, err := newWorker(job{Contender: contender, Addr: b.server.addr(), Key: t.Name(), Goroutines: 3, Limit: unlimited, Calls: 20})
		require.NoError(t, err)
		win := window{now(), now() + int64(time.Minute)}
		o := w.run(win)
		require.NoError(t, w.contender.close())

		f := pairFigures(run{window: win, outcomes: []outcome{o}})
		assert.Positive(t, f["rate"], contender)
		assert.Positive(t, f["p50"], contender)
		assert.LessOrEqual(t, f["p50"], f["p99"], contender)
		assert.Empty(t, o.Records)
		assert.Zero(t, o.Failures, "%s: %s", contender, o.Failure)
	}
}

// Its figures would mean nothing if it did not have the behaviour that it is there to show.
func TestFloorHasALeaseATokenAndALimitButNoQueue(t *testing.T) {
	b := sharedBench(t)
	c, err := openFloor(job{Addr: b.server.addr(), Limit: 1}, 0)
	require.NoError(t, err)
	f := c.(*floorer)
	acquire, err := f.acquirer(t.Name())
	require.NoError(t, err)
	first, err := acquire(t.Context())
	require.NoError(t, err)
	_, err = acquire(t.Context())
	assert.ErrorIs(t, err, errFull)
	deadline := f.rdb.ZRangeWithScores(t.Context(), f.space.Key(t.Name(), protocol.Timeout), 0, -1).Val()
	require.Len(t, deadline, 1)
	assert.InDelta(t, time.Now().Add(floorTTL).UnixMilli(), deadline[0].Score, float64(time.Minute.Milliseconds()))
	require.NoError(t, first.release(t.Context()))
	assert.Error(t, first.release(t.Context()), "it holds nothing any more")
	second, err := acquire(t.Context())
	require.NoError(t, err)
	assert.Greater(t, second.token, first.token)
	require.NoError(t, second.release(t.Context()))
	for _, kind := range []string{protocol.Owner, protocol.Timeout} {
		assert.Zero(t, f.rdb.ZCard(t.Context(), f.space.Key(t.Name(), kind)).Val())
	}
	require.NoError(t, f.rdb.HSet(t.Context(), f.space.Key(t.Name(), protocol.Meta), "state", "2").Err())
	_, err = acquire(t.Context())
	assert.ErrorIs(t, err, errFull, "the comparison comes first")
	require.NoError(t, f.close())
}

func TestJobLimitsTheCallsOfACaller(t *testing.T) {
	w, err := newWorker(job{
		Contender: fair, Addr: sharedBench(t).server.addr(), Key: t.Name(), Goroutines: 2, Names: 1, Limit: 1, Calls: 3, Journal: true,
	})
	require.NoError(t, err)
	o := w.run(window{now(), now() + int64(time.Minute)})
	require.NoError(t, w.contender.close())
	assert.Equal(t, 6, o.Calls)
}

func TestUnknownContenderIsAnError(t *testing.T) {
	_, err := newWorker(job{Contender: "nobody"})
	assert.ErrorContains(t, err, "nobody")
}

// This runs a comparison as "make bench" does, with processes of this binary: PINGs and fairsem.
func TestComparisonMeasuresEveryEntryInEveryRound(t *testing.T) {
	b := sharedBench(t)
	b.Rounds, b.Duration = 2, time.Second // on a busy machine a process may have no turn within less
	all := entries(pings, fair)
	all[0].read = waitOnly
	all[1].ownCore = true
	r := contended("a comparison", "", 2, time.Millisecond, nil)
	r.entries, r.processes, r.cores = all, 2, oneCore
	r.read = workFigures
	r.targets = func(s *section) []target { return []target{none("", s.contender(fair), "overtakes")} }

	s, err := r.run(t.Context(), b)

	require.NoError(t, err)
	for _, e := range all {
		assert.Len(t, s.of(e.label, "p50"), 2, e.label)
		assert.Len(t, s.of(e.label, "cpu"), 2, e.label)
	}
	for round, most := range s.of(fair, "most") {
		assert.LessOrEqual(t, most, 2.0)
		assert.Positive(t, s.of(fair, "rate")[round])
	}
	// By the times of the callers: on a busy machine a call that was made may be sent later than one that was made after it.
	assert.Equal(t, slices.Equal(s.of(fair, "overtakes"), []float64{0, 0}), s.Targets[0].Reached)
}

// This test may be skipped in CI, too: its packages come from a registry that may not be reachable.
func TestNodeWorkerUsesTheSameProtocol(t *testing.T) {
	if why := nodeMissing(); why != "" {
		t.Skip("redis-semaphore is not tested: " + why)
	}
	b := sharedBench(t)
	r := contended("node", "", 2, time.Millisecond, []string{nodes})
	r.processes = 2
	r.targets = func(*section) []target { return nil }

	s, err := r.run(t.Context(), b)

	require.NoError(t, err)
	assert.Positive(t, s.of(nodes, "rate")[0])
	assert.LessOrEqual(t, s.of(nodes, "most")[0], 2.0)
	assert.Contains(t, b.machine.Versions, nodes[:len("redis-semaphore")])
}

func TestErrorOfAWorkerContainsItsStandardError(t *testing.T) {
	c, _, err := startWorkers(t.Context(), []job{{Contender: "nobody"}})
	assert.ErrorContains(t, err, `no contender "nobody"`)
	assert.Error(t, c.stop())
}

func TestWorkerEndsWithItsInput(t *testing.T) {
	input, err := json.Marshal(job{Contender: pings, Addr: sharedBench(t).server.addr(), Goroutines: 1})
	require.NoError(t, err)
	var out bytes.Buffer
	assert.Error(t, serve(bytes.NewReader(input), &out), "there was no window")
	assert.JSONEq(t, "{}", out.String(), "it sent hello before")
}

func TestWorkerEndsWithTheBench(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _, err := startWorkers(ctx, []job{{Contender: pings, Addr: sharedBench(t).server.addr(), Goroutines: 1}})
	require.NoError(t, err)
	cancel()
	assert.Error(t, c.stop(), "it was killed")
}

func TestHoldUntilDoesNotReturnEarly(t *testing.T) {
	at := now() + int64(3*time.Millisecond)
	holdUntil(at)
	assert.GreaterOrEqual(t, now(), at)
	holdUntil(at) // the time has passed, so it returns at once
}

// Each workload has its own server, because it counts all traffic of the server.
func TestSmallWorkloadsReturnTargetsAndFigures(t *testing.T) {
	for _, study := range []workload{{"waiters", queueLengths}, {"idle", idleWaiters}, {"memory", memory}, {"herd", herd}} {
		t.Run(study.name, func(t *testing.T) {
			process := redistest.NewServer(t)
			b := sharedBench(t)
			b.server = &server{process: process, rdb: process.Client()}
			b.waiters, b.handOffs, b.idleTTL, b.processes, b.memoryWaiters = []int{2, 20}, 10, time.Second, 3, 100

			s, err := study.run(t.Context(), b)

			require.NoError(t, err)
			require.NotEmpty(t, s.Targets)
			for _, target := range s.Targets {
				assert.NotNil(t, target.Value, target.Text)
			}
			for _, x := range s.Series {
				for _, column := range s.Columns {
					if x.Label != "a plain goroutine" {
						assert.NotEmpty(t, x.values(column), "%s of %s", column, x.Label)
					}
				}
			}
		})
	}
}

func TestHeldPermitsAreCountedWhenLost(t *testing.T) {
	b := sharedBench(t)
	b.permits, b.permitFor = 50, 100*time.Millisecond
	s, err := heldPermits(t.Context(), b)
	require.NoError(t, err)
	assert.True(t, s.Targets[1].Reached)
}

func TestResultsNameNoHostAndNoPath(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	home, err := os.Getwd()
	require.NoError(t, err)
	m := newMachine(t.Context(), sharedBench(t).server)
	text := report{Machine: m}.table()
	assert.NotContains(t, strings.Fields(text), host)
	assert.NotContains(t, text, home)
	assert.Contains(t, text, m.Redis)
}
