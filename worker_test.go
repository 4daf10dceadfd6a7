package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// Tests with several real processes. The test binary starts itself again, and an order has its task.

// order is the task of a worker process.
type order struct {
	Addr, Name string
	Limit      int64
	TTL        time.Duration

	Crowd int // hold a permit, with this many more calls waiting, until killed

	Yields bool // hold all units until a call waits for some

	Rooms int // use several names at random in this many goroutines, some times each

	Goroutines int           // use the semaphore at random in this many goroutines, and write the history to stdout
	For        time.Duration // and until it was granted as often as there are units
	Seed       uint64
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Addr})
	defer func() { _ = rdb.Close() }() // the process ends
	c, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	s, err := c.Semaphore(o.Name, o.Limit)
	if err != nil {
		return err
	}
	switch {
	case o.Yields:
		return errors.Join(o.yield(ctx, s), c.Close())
	case o.Rooms > 0:
		r, err := newRooms(c, o.Name)
		if err == nil {
			err = r.crowd(ctx, o.Rooms, 10, o.Seed)
		}
		return errors.Join(err, c.Close())
	case o.Goroutines > 0:
		return errors.Join(o.load(ctx, s), c.Close())
	default:
		return o.crowd(ctx, s)
	}
}

// crowd holds and waits until the process is killed.
func (o order) crowd(ctx context.Context, s *fairsem.Semaphore) error {
	if _, err := s.Acquire(ctx, o.Limit); err != nil {
		return err
	}
	for range o.Crowd {
		acquire(ctx, s, 1)
	}
	fmt.Println("ready")
	<-ctx.Done()
	return ctx.Err()
}

// load uses the semaphore at random.
func (o order) load(ctx context.Context, s *fairsem.Semaphore) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hang := time.AfterFunc(o.For+time.Minute, stop)
	defer hang.Stop()
	out := history.NewWriter(os.Stdout)
	failures := make(chan error, o.Goroutines)
	var granted atomic.Int64
	began := time.Now()
	record := func(g history.Grant) error {
		if n := granted.Add(1); n >= o.Limit && time.Since(began) >= o.For {
			stop()
		}
		return out.Write(g)
	}
	for g := range o.Goroutines {
		random := rand.New(rand.NewPCG(o.Seed, uint64(g)))
		go func() { // ends with ctx; failures has room for all
			var err error
			for err == nil && ctx.Err() == nil {
				err = use(ctx, s, random, record)
			}
			failures <- err
		}()
	}
	var all error
	for range o.Goroutines {
		all = errors.Join(all, <-failures)
	}
	if n := granted.Load(); n < o.Limit {
		all = errors.Join(all, fmt.Errorf("only %d grants in a minute: released units are not granted again", n))
	}
	return all
}

// use acquires, records, holds and releases. Acquire may time out.
func use(ctx context.Context, s *fairsem.Semaphore, random *rand.Rand, record func(history.Grant) error) error {
	g := history.Grant{Process: fmt.Sprint(os.Getpid()), Weight: 1 + random.Int64N(5), AskedWall: time.Now().UnixMicro(), Asked: history.Now()}
	patience, cancel := context.WithTimeout(ctx, time.Duration(random.ExpFloat64()*float64(100*time.Millisecond)))
	defer cancel()
	get := s.Acquire
	if random.IntN(10) == 0 {
		get = s.TryAcquire
	}
	p, err := get(patience, g.Weight)
	g.Granted = history.Now()
	switch {
	case errors.Is(err, fairsem.ErrNotAcquired) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return err
	}
	g.ID, g.Token, g.Position = p.ID(), p.Token(), fairsem.PositionOf(p)
	if hold := random.IntN(4); hold > 0 {
		time.Sleep(time.Duration(hold) * time.Millisecond) // the work
	}
	g.Released = history.Now()
	g.Lost = p.Context().Err() != nil
	return errors.Join(record(g), givenBack(context.WithoutCancel(ctx), p))
}

// ready waits for a line of a worker.
func ready(p *worldtest.Process) bool {
	_, err := p.Out.ReadString('\n')
	return err == nil
}

// V1 and V3: the units of a killed process are granted again within a TTL, however many of its waiters are in the queue.
func TestUnitsOfAKilledProcessAreGrantedOnceItsTTLIsOver(t *testing.T) {
	t.Parallel()
	for _, crowd := range []int{0, 20} {
		t.Run(fmt.Sprintf("%d dead waiters", crowd), func(t *testing.T) {
			w := onRedis(t)
			w.limit, w.ttl = 3, 3*time.Second
			s := w.semaphore()
			worker := worldtest.Start(t, order{
				Addr: redistest.SharedServer(t).Addr(), Name: w.name, Limit: w.limit, TTL: w.ttl, Crowd: crowd,
			})
			require.True(t, ready(worker), "the worker does not start")
			w.eventually(func() bool { return w.status(s).Waiting == int64(crowd) }, "the calls do not queue")
			waiter := w.queue(t.Context(), s, 3)

			require.NoError(t, worker.Process.Kill())
			w.release(w.granted(waiter))
			most := int64(1) // the holder
			if crowd > 0 {
				most += w.limit // its units may go to dead waiters whose leases began a moment later, but to none after these
			}
			assert.LessOrEqual(t, w.status(s).Expired, most)
			assert.Positive(t, w.status(s).Expired)
		})
	}
}

// S2, S4 to S6 and V7, on the histories of three processes. FAIRSEM_SOAK=2m runs it for longer.
func TestProcessesUnderRandomLoadKeepEveryPromise(t *testing.T) {
	w, server := privately(t)
	w.limit = 7
	duration := 2 * time.Second
	if text := os.Getenv("FAIRSEM_SOAK"); text != "" {
		var err error
		duration, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var grants []history.Grant
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range uint64(3) {
		worker := worldtest.Start(t, order{
			Addr: server.Addr(), Name: w.name, Limit: w.limit, TTL: w.ttl, Goroutines: 50, For: duration, Seed: seed + i,
		})
		all.Go(func() {
			mine, err := history.Read(worker.Out)
			assert.NoError(t, err)
			assert.NoError(t, worker.Wait())
			mu.Lock()
			defer mu.Unlock()
			grants = append(grants, mine...)
		})
	}
	all.Wait()

	t.Logf("%d grants, at most %d units of %d at once", len(grants), history.MostAtOnce(grants), w.limit)
	assert.Greater(t, history.MostAtOnce(grants), w.limit/2, "the load does not fill half of the limit") // all of it only where processes run in time
	assert.Empty(t, history.OverLimit(grants, w.limit))
	assert.Empty(t, history.Overtakes(grants))
	assert.Empty(t, history.TokensDecrease(grants))
	assert.Empty(t, history.TokensRepeat(grants))
	for _, g := range grants {
		assert.False(t, g.Lost, g)
	}
	var left []string
	require.Eventually(t, func() bool { // a busy machine leaves tombstones of calls that were given up, which expire
		left = w.rdb.Keys(t.Context(), "*").Val()
		return len(left) > 0 && !slices.ContainsFunc(left, func(key string) bool { return key != w.key("counter") && key != w.key("meta") })
	}, time.Minute, 100*time.Millisecond, "%v", &left)
}
