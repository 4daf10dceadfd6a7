package worldtest

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// Fleet is several worker processes that do jobs under one limit, and write them down.
type Fleet struct {
	*testing.T
	Ledger Ledger
	Order  func() Order // of the next process, which prints a line when it is ready and ends with SIGTERM
	all    []*Process
	most   func() int64 // units that were in use at once
}

// NewFleet returns a fleet without processes. The ledger, of that name, is on the server at addr. The limit is sampled as an outsider
// sees it.
func NewFleet(t *testing.T, addr, name string, limit *fairsem.Inspector) *Fleet {
	t.Helper()
	f := &Fleet{T: t, Ledger: OpenLedger(addr, name)}
	t.Cleanup(func() {
		assert.NoError(t, f.Ledger.remove())
		assert.NoError(t, f.Ledger.Close())
	})
	ctx, cancel := context.WithCancel(context.Background())
	most, done := int64(0), make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for ctx.Err() == nil {
			if st, err := limit.Status(ctx); err == nil { // there may be an outage
				most = max(most, st.Used)
			}
			time.Sleep(5 * time.Millisecond) // so that the samples do not fill a processor
		}
	}()
	f.most = func() int64 { cancel(); <-done; return most }
	t.Cleanup(func() { f.most() })
	return f
}

// Start starts processes and waits until they are ready.
func (f *Fleet) Start(n int) {
	f.Helper()
	for range n {
		f.all = append(f.all, Start(f, f.Order()))
	}
	for _, p := range f.all[len(f.all)-n:] {
		_, err := p.Out.ReadString('\n')
		require.NoError(f, err)
	}
}

// Roll replaces each process: the new one runs beside the old one for that time.
func (f *Fleet) Roll(beside time.Duration) {
	f.Helper()
	for _, old := range slices.Clone(f.all) {
		f.Start(1)
		f.Steady(beside)
		f.stop(old)
		f.all = f.all[1:]
	}
}

// stop ends a process as a rolling update does.
func (f *Fleet) stop(p *Process) {
	f.Helper()
	require.NoError(f, p.Process.Signal(syscall.SIGTERM))
	require.NoError(f, p.Wait())
}

// Done returns how many jobs are done.
func (f *Fleet) Done() int64 {
	f.Helper()
	n, err := f.Ledger.rdb.HLen(f.Context(), f.Ledger.key("times")).Result()
	require.NoError(f, err)
	return n
}

// Steady returns how many jobs are done in that time.
func (f *Fleet) Steady(d time.Duration) int64 {
	f.Helper()
	before := f.Done()
	time.Sleep(d) // the time that is measured
	n := f.Done() - before
	f.Logf("in %v: %d jobs", d, n)
	return n
}

// RestartsAndOutage starts four processes, replaces each, then kills the server of the limit and restarts it. It checks that no job is
// done once the server has been down for longer than the TTL. There must be more jobs than are done before that.
func (f *Fleet) RestartsAndOutage(server *redistest.Server, ttl time.Duration) {
	f.Helper()
	f.Start(4)
	f.Steady(5 * time.Second)
	f.Log("rolling restart: the new process runs beside the old one")
	f.Roll(time.Second)
	f.Steady(5 * time.Second)

	require.NoError(f, server.Kill())
	f.Log("outage of the Redis of the limit")
	f.Steady(ttl + time.Second)
	assert.Zero(f, f.Steady(10*time.Second), "nothing is let through during an outage")
	require.NoError(f, server.Restart())
}

// Finish waits until that many jobs are done, ends the processes, and checks that each was done once and that the limit was kept, by the
// permits and by the times of the jobs. It returns how often jobs were rescheduled.
func (f *Fleet) Finish(jobs int, limit int64) (rescheduled int) {
	f.Helper()
	require.Eventually(f, func() bool { return f.Done() == int64(jobs) }, 5*time.Minute, 20*time.Millisecond, "not all jobs are done")
	for _, p := range f.all {
		f.stop(p)
	}
	times, err := f.Ledger.rdb.HVals(f.Context(), f.Ledger.key("times")).Result()
	require.NoError(f, err)
	assert.Empty(f, slices.DeleteFunc(times, func(n string) bool { return n == "1" }), "jobs that were done more than once")
	ran, err := f.Ledger.rdb.ZScore(f.Context(), f.Ledger.key("most"), "most").Result()
	require.NoError(f, err)
	assert.LessOrEqual(f, int64(ran), limit, "jobs that ran at once")
	used := f.most()
	assert.LessOrEqual(f, used, limit, "units in use at once")
	assert.Positive(f, used)
	rescheduled, _ = f.Ledger.rdb.Get(f.Context(), f.Ledger.key("rescheduled")).Int() // there may be none
	f.Logf("%d jobs done, at most %.0f at once, %d times rescheduled", jobs, ran, rescheduled)
	return rescheduled
}

// Before returns how many jobs on other accounts were done before the last one on an account.
func (f *Fleet) Before(account string) (n int) {
	f.Helper()
	order, err := f.Ledger.rdb.LRange(f.Context(), f.Ledger.key("order"), 0, -1).Result()
	require.NoError(f, err)
	others := 0
	for _, a := range order {
		if a == account {
			n = others
		} else {
			others++
		}
	}
	return n
}
