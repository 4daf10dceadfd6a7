package fairsempgx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/pgtest"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// fleet is several worker processes on one database with 20 slots. Three are for superusers, and the observer takes one.
type fleet struct {
	*testing.T
	redis    *redistest.Server
	database *pgtest.Server
	order    order
	started  int
}

const slots = 16

func newFleet(t *testing.T) *fleet {
	t.Helper()
	t.Parallel()
	r := redistest.NewServer(t)
	database := pgtest.New(t, slots+4)
	return &fleet{T: t, redis: r, database: database, order: order{
		Redis: r.Addr(), Name: t.Name() + uuid.NewString(), Limit: slots, TTL: 5 * time.Second, MaxConns: 10, Query: 30 * time.Millisecond,
	}}
}

// member is one process of a fleet.
type member struct {
	*worldtest.Process
	name string // of its sessions
	done chan struct{}

	mu   sync.Mutex
	last report
}

func (f *fleet) start() *member {
	f.Helper()
	f.started++
	m := &member{name: fmt.Sprintf("member%d", f.started), done: make(chan struct{})}
	o := f.order
	o.Database = f.database.URL() + "&application_name=" + m.name
	m.Process = worldtest.Start(f, o)
	go func() { // ends with the process
		defer close(m.done)
		for lines := json.NewDecoder(m.Out); ; {
			var r report
			if lines.Decode(&r) != nil {
				return
			}
			m.mu.Lock()
			m.last = r
			m.mu.Unlock()
		}
	}()
	return m
}

func (f *fleet) startAll(n int) (all []*member) {
	for range n {
		all = append(all, f.start())
	}
	return all
}

func (m *member) report() report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// stop ends a process as a rolling update does.
func (f *fleet) stop(m *member) {
	f.Helper()
	require.NoError(f, m.Process.Process.Signal(syscall.SIGTERM))
	<-m.done
	require.NoError(f, m.Wait())
}

func (f *fleet) kill(m *member) {
	f.Helper()
	require.NoError(f, m.Process.Process.Kill())
	<-m.done
	_ = m.Wait() // it was killed
}

// observer samples the view of an outsider.
type observer struct {
	mu   sync.Mutex
	most int
	now  map[string]int
	end  func()
}

func (f *fleet) observe() *observer {
	f.Helper()
	c := superuser(f, f.database)
	ctx, cancel := context.WithCancel(context.Background())
	o := &observer{}
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for ctx.Err() == nil {
			now, all := f.sample(ctx, c)
			o.mu.Lock()
			o.now, o.most = now, max(o.most, all)
			o.mu.Unlock()
			time.Sleep(5 * time.Millisecond) // so that the samples do not fill a processor
		}
	}()
	o.end = func() { cancel(); <-done }
	f.Cleanup(o.end)
	return o
}

// sample counts the sessions by their name.
func (f *fleet) sample(ctx context.Context, c *pgx.Conn) (map[string]int, int) {
	rows, err := c.Query(ctx, "SELECT application_name, count(*) FROM pg_stat_activity WHERE usename = 'app' GROUP BY 1")
	now, all := make(map[string]int), 0
	var name string
	var n int
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error { now[name], all = n, all+n; return nil })
	}
	if ctx.Err() == nil {
		assert.NoError(f, err)
	}
	return now, all
}

func (o *observer) sessions() (map[string]int, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := 0
	for _, n := range o.now {
		all += n
	}
	return o.now, all
}

func (f *fleet) eventually(is func() bool, why string) time.Duration {
	f.Helper()
	began := time.Now()
	require.Eventually(f, is, time.Minute, 5*time.Millisecond, why)
	return time.Since(began)
}

// awaitParts waits until each process has its fair part of the connections, and each has done a query.
func (f *fleet) awaitParts(o *observer, all []*member) time.Duration {
	f.Helper()
	least := slots / len(all)
	defer func() {
		if f.Failed() {
			now, _ := o.sessions()
			f.Logf("%v", now)
		}
	}()
	return f.eventually(func() bool {
		now, _ := o.sessions()
		for _, m := range all {
			if now[m.name] < min(least, int(f.order.MaxConns)) || m.report().Queries == 0 {
				return false
			}
		}
		return true
	}, fmt.Sprintf("not every process has %d connections", least))
}

// awaitQueries waits until each process has done more queries.
func (f *fleet) awaitQueries(all []*member) {
	f.Helper()
	for _, m := range all {
		before := m.report().Queries
		f.eventually(func() bool { return m.report().Queries > before+10 }, m.name+" does no queries")
	}
}

// noneFailed checks the counts of the processes so far.
func (f *fleet) noneFailed(all []*member, when string) {
	f.Helper()
	for _, m := range all {
		r := m.report()
		assert.Zero(f, r.Failed, "%s, %s: %s", m.name, when, r.Error)
	}
}

// neverTooMany checks the log of the database.
func (f *fleet) neverTooMany(o *observer) {
	f.Helper()
	log, err := f.database.Log()
	require.NoError(f, err)
	for _, refusal := range []string{"too many clients", "remaining connection slots", "too many connections"} {
		assert.Zero(f, strings.Count(log, refusal), refusal)
	}
	o.end()
	assert.LessOrEqual(f, o.most, slots)
	assert.Greater(f, o.most, slots/2, "the load used the slots")
	f.Logf("at most %d of %d slots were in use", o.most, slots)
}

func TestProcessesShareTheSlotsOfADatabaseWhateverIsKilledAndRestarted(t *testing.T) {
	f := newFleet(t)
	o := f.observe()
	all := f.startAll(2)
	f.eventually(func() bool { _, n := o.sessions(); return n == slots }, "two pools do not use all slots")
	all = append(all, f.start())
	t.Logf("parts after %v, TTL %v", f.awaitParts(o, all), f.order.TTL)

	t.Log("rolling restart: the new process runs beside the old one")
	next := f.start()
	f.awaitParts(o, append(all, next))
	f.stop(all[0])
	f.noneFailed(all, "rolling restart")
	all = append(all[1:], next)

	f.kill(all[0])
	all = append(all[1:], f.start())
	f.awaitParts(o, all)

	require.NoError(t, f.redis.Restart())
	f.awaitQueries(all)
	f.awaitParts(o, all)
	f.noneFailed(all, "restart of Redis")
	for _, m := range all {
		f.stop(m)
	}
	f.neverTooMany(o)
}

func TestSameLoadWithoutPermitsIsRefusedByTheDatabase(t *testing.T) {
	f := newFleet(t)
	f.order.Bare = true
	all := f.startAll(2)
	f.eventually(func() bool { return all[0].report().TooMany+all[1].report().TooMany > 0 }, "the slots are enough without permits")
}

// make integration runs it: FAIRSEM_INTEGRATION=1.
func TestEightProcessesShareTheSlotsOfADatabaseForMinutes(t *testing.T) {
	if os.Getenv("FAIRSEM_INTEGRATION") == "" {
		t.Skip("FAIRSEM_INTEGRATION is not set; the short form is TestProcessesShareTheSlotsOfADatabaseWhateverIsKilledAndRestarted")
	}
	f := newFleet(t)
	f.order.Query = 5 * time.Millisecond
	o := f.observe()
	all := f.startAll(2)
	f.eventually(func() bool { _, n := o.sessions(); return n == slots }, "two pools do not use all slots")
	all = append(all, f.startAll(6)...)
	took := f.awaitParts(o, all)
	t.Logf("six new processes have their parts after %v, TTL %v", took, f.order.TTL)
	assert.Less(t, took, 2*f.order.TTL)

	f.steady(all, 10*time.Second)
	for i := range all {
		next := f.start()
		f.awaitQueries([]*member{next})
		f.stop(all[i])
		f.noneFailed(all[i:i+1], "rolling restart")
		all[i] = next
	}
	t.Logf("after the rolling restart, parts after %v", f.awaitParts(o, all))
	f.noneFailed(all, "rolling restart")
	for i := range 2 {
		f.kill(all[i])
		all[i] = f.start()
	}
	took = f.awaitParts(o, all)
	t.Logf("after kill -9 of two, parts after %v", took)
	assert.Less(t, took, 3*f.order.TTL, "a TTL until the permits of the killed expire, and two")
	f.noneFailed(all, "kill -9")

	require.NoError(t, f.redis.Restart())
	f.awaitQueries(all)
	f.steady(all, 10*time.Second)
	f.noneFailed(all, "restart of Redis")

	require.NoError(t, f.redis.Kill())
	time.Sleep(20 * time.Second) // the outage
	_, during := o.sessions()
	t.Logf("connections at the end of the outage: %d", during)
	require.NoError(t, f.redis.Restart())
	t.Logf("after an outage of Redis of 20 s, parts after %v", f.awaitParts(o, all))
	f.awaitQueries(all)
	for _, m := range all {
		f.stop(m)
		r := m.report()
		assert.Zero(t, r.TooMany)
		t.Logf("%s: %d queries, %d failed, %d connections: %s", m.name, r.Queries, r.Failed, r.Connections, r.Error)
	}
	f.neverTooMany(o)

	f.order.Bare = true
	all = f.startAll(8)
	f.eventually(func() bool { return all[0].report().TooMany+all[7].report().TooMany > 0 }, "the slots are enough without permits")
	f.steady(all, 10*time.Second)
	for _, m := range all {
		f.stop(m)
		r := m.report()
		t.Logf("%s, without permits: %d queries, %d refused", m.name, r.Queries, r.TooMany)
	}
}

// steady logs the work of the processes in that time.
func (f *fleet) steady(all []*member, d time.Duration) {
	f.Helper()
	before := make([]report, len(all))
	for i, m := range all {
		before[i] = m.report()
	}
	time.Sleep(d) // the time that is measured
	var queries []int64
	var sum, connections int64
	for i, m := range all {
		r := m.report()
		queries = append(queries, r.Queries-before[i].Queries)
		sum += queries[i]
		connections += r.Connections - before[i].Connections
	}
	f.Logf("in %v: %d queries, of each process %v, %d new connections", d, sum, queries, connections)
}
