package fairsem

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// The gain of shared reading: 64 goroutines of a client, nine in ten calls only read, and the same calls on a Mutex. Each
// call holds the lock for a while; 0 shows the cost of the lock itself.
func BenchmarkRWMutex90PercentReaders(b *testing.B) {
	pair(b, benchSemaphore(b, b.Name(), 1)) // a server that was just started delays the first call
	type get func(context.Context) (*Permit, error)
	for _, hold := range []time.Duration{0, time.Millisecond} {
		compare := func(lock string, read, write get) {
			b.Run(fmt.Sprintf("hold=%v/%s", hold, lock), func(b *testing.B) {
				const goroutines = 64
				var calls [goroutines]int
				b.ReportAllocs()
				share(b, goroutines, func(worker int) {
					get := read
					if (worker+calls[worker])%10 == 0 {
						get = write
					}
					calls[worker]++
					p, err := get(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					if hold > 0 {
						time.Sleep(hold) // the work
					}
					if err := p.Release(b.Context()); err != nil {
						b.Error(err)
					}
				})
			})
		}
		name := fmt.Sprint(b.Name(), hold)
		rw, err := benchClient(b).RWMutex(name)
		if err != nil {
			b.Fatal(err)
		}
		m, err := benchClient(b).Mutex(name + "-mutex")
		if err != nil {
			b.Fatal(err)
		}
		compare("RWMutex", rw.RLock, rw.Lock)
		compare("Mutex", m.Lock, m.Lock)
	}
}
