package fairsemriver_test

import (
	"os"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/pgtest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// fleet is several worker processes with the jobs of a schema.
type fleet struct {
	*worldtest.Fleet
	*world
	order order
	total int // jobs
}

// fleet returns one whose processes have so many workers for each queue.
func (w *world) fleet(workers map[string]int) *fleet {
	w.Helper()
	server, err := pgtest.Shared()
	require.NoError(w, err)
	f := &fleet{world: w, order: order{
		Redis: w.Redis, Store: w.store, Name: w.LimitName, Database: server.Socket("postgres"), Schema: w.schema,
		Limit: 4, Each: 15 * time.Millisecond, MaxWait: time.Minute, TTL: 10 * time.Second, Workers: workers,
	}}
	f.Fleet = worldtest.NewFleet(w.T, w.store, w.LimitName, w.Client().Inspect(w.LimitName))
	f.Order = func() worldtest.Order { return f.order }
	return f
}

// insert adds jobs that have one attempt.
func (f *fleet) insert(queue string, jobs int) {
	f.Helper()
	c, err := river.NewClient(riverpgxv5.New(f.pool), &river.Config{Schema: f.schema})
	require.NoError(f, err)
	all := make([]river.InsertManyParams, jobs)
	for i := range all {
		all[i] = river.InsertManyParams{Args: job{"a"}, InsertOpts: &river.InsertOpts{Queue: queue, MaxAttempts: 1}}
	}
	_, err = c.InsertManyFast(f.Context(), all)
	require.NoError(f, err)
	f.total += jobs
}

// finish waits until all jobs are done, and checks the counts of River. It returns how often jobs were rescheduled.
func (f *fleet) finish() int {
	f.Helper()
	times := f.Finish(f.total, f.order.Limit)
	var completed, failed int
	require.NoError(f, f.pool.QueryRow(f.Context(), `SELECT count(*) FILTER (WHERE state = 'completed'),
		count(*) FILTER (WHERE attempt <> 1 OR errors IS NOT NULL) FROM `+f.schema+`.river_job`).Scan(&completed, &failed))
	assert.Equal(f, f.total, completed)
	assert.Zero(f, failed, "jobs with an error, or with an attempt that was counted")
	return times
}

func TestFourProcessesStayWithinTheLimitAndDoEveryJobOnce(t *testing.T) {
	w := newWorld(t)
	f := w.fleet(map[string]int{"a": 10})
	f.order.Each, f.order.MaxWait = 50*time.Millisecond, 150*time.Millisecond // the last of 40 would wait for 450 ms
	f.Start(4)
	f.insert("a", 50)
	assert.Positive(t, f.finish(), "some were rescheduled")
}

// 32 workers for one tenant, and 8 for the other: without tenants the first would get four times as many units.
func TestTenantsOfFourProcessesGetTheirFairPart(t *testing.T) {
	w := newWorld(t)
	f := w.fleet(map[string]int{"large": 8, "small": 2})
	f.order.Each = 60 * time.Millisecond // so that jobs of both always wait, however long a busy River takes to fetch the next
	f.Start(4)
	f.insert("small", 30)
	f.insert("large", 120)
	f.finish()
	before := f.Before("small")
	t.Logf("%d of large were done when 30 of small were", before)
	assert.Less(t, before, 60)
}

// make integration runs it: FAIRSEM_INTEGRATION=1.
func TestFourProcessesDoEveryJobThroughRestartsAndAnOutage(t *testing.T) {
	if os.Getenv("FAIRSEM_INTEGRATION") == "" {
		t.Skip("FAIRSEM_INTEGRATION is not set; the short forms are " +
			"TestFourProcessesStayWithinTheLimitAndDoEveryJobOnce and TestTenantsOfFourProcessesGetTheirFairPart")
	}
	w := newWorld(t)
	server := w.outage()
	f := w.fleet(map[string]int{"large": 8, "small": 2})
	f.order.MaxWait, f.order.TTL = time.Second, 3*time.Second
	f.insert("small", 1500)
	f.insert("large", 6000)
	f.RestartsAndOutage(server, f.order.TTL)
	f.finish()
	t.Logf("%d of large were done when 1500 of small were", f.Before("small"))
}
