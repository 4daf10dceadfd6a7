package protocol

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fairsem/fairsem/internal/testclient"
)

// One renewal of 10,000 permits: with a TTL of 10 s a client does that 0.3 times a second.
func BenchmarkRefreshOf10000Permits(b *testing.B) {
	l := newLab(b, testclient.Settled(b))
	var ids []string
	for i := range 10_000 {
		ids = append(ids, "0123456789A:"+strconv.Itoa(i))
	}
	calls := func(make func(...*ticket) Call) (all []Call) {
		for some := range slices.Chunk(tickets(ids...), MaxIDs) {
			all = append(all, make(some...))
		}
		return all
	}
	d, about := known(ample), l.space.About("name")
	run := func(calls []Call) {
		for _, c := range calls {
			if r := l.run(c); r.err != nil {
				b.Fatal(r.err)
			}
		}
	}
	run(calls(func(t ...*ticket) Call { return Acquire(about, d, AcquireParams{TTL: time.Hour}, t) }))
	refreshes := calls(func(t ...*ticket) Call { return Refresh(about, d, time.Hour, true, t) })
	before := l.spent()
	for b.Loop() {
		time.Sleep(time.Millisecond) // the fast path needs a lease that is renewed in another millisecond
		run(refreshes)
	}
	b.ReportMetric((l.spent()-before)/float64(b.N), "redis-us/op")
}
