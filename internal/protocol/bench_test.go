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

// One renewal of 1000 waiters of one process, in one call of the plain script and in as many full ones as it takes.
func BenchmarkRenewalOf1000Waiters(b *testing.B) {
	l := newLab(b, testclient.Settled(b))
	var ids []string
	for i := range MaxRenewals {
		ids = append(ids, "0123456789A:"+strconv.Itoa(i))
	}
	d, about := known(1), l.space.About("name")
	l.seed("owner you:1=5 | timeout you:1=7200s | meta layout=2")
	var full []Call
	for some := range slices.Chunk(tickets(ids...), MaxIDs) {
		l.ask(Acquire(about, d, AcquireParams{TTL: time.Hour, Wait: true}, some), len(some))
		full = append(full, Refresh(about, d, time.Hour, false, some))
	}
	for name, calls := range map[string][]Call{
		"plain": {PlainRefresh(about, seededKnown, time.Hour, 0, tickets(ids...))}, "full": full,
	} {
		b.Run(name, func(b *testing.B) {
			before := l.spent()
			for b.Loop() {
				for _, c := range calls {
					got := l.run(c)
					if got.err != nil || c.Script.Declined(got.numbers) {
						b.Fatal(got)
					}
				}
			}
			b.ReportMetric((l.spent()-before)/float64(b.N), "redis-us/op")
		})
	}
}
