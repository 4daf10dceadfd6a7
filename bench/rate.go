package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
)

// settledAge is the age in seconds from which a server that does not have a name grants at once: fairsem then assumes that it
// never had the name.
const settledAge = 3

// rates is the workload of a rate limit that 32 callers in 4 processes use up all the time.
func rates(ctx context.Context, b *bench) (*section, error) {
	if err := b.server.process.AwaitAge(settledAge); err != nil {
		return nil, err
	}
	return rateComparison(b.rateLimit, b.rateWindow).run(ctx, b)
}

func rateComparison(limit int64, per time.Duration) comparison {
	fairs := entries(fairWaits, fairAllows)
	for i := range fairs {
		fairs[i].observe = observeGrants
	}
	return comparison{
		name: "rate", title: fmt.Sprintf("%d in %v, 4 processes x 8 callers that use all of it", limit, per),
		entries: append(fairs, entries(redisRates)...), processes: 4, share: 2.5,
		job:  job{Goroutines: 8, Names: 1, Limit: limit, Per: per, Journal: true},
		read: rateFigures,
		columns: []string{
			"rate", "first", "steady", "window", "by server", "p50", "p99", "longest", "overtakes", "by far", "cpu", "scripts", "failed",
		},
		notes: []string{
			fmt.Sprintf("Windows of %v slide, and the one with the most grants counts. They are measured alike for all contenders, "+
				"by when callers receive their answers, on the clock of the bench. Late answers can move grants into another window. "+
				"Only fairsem reports when it granted by the server's clock, and only by that clock its limit holds.", per),
			fmt.Sprintf("GCRA with a burst of the whole limit grants that many calls at once and one more every %v: up to twice the limit in the first window.",
				per/time.Duration(limit)),
			"A limit on every window repeats the pattern of the first one: if callers use up a window at once, they wait for the rest of it, each time. So a few waits are as long as a window, and the others are short.",
		},
		targets: func(s *section) []target {
			return []target{
				none("no window above the limit, by the server's clock", s.contender(fairWaits), "over"),
				none("the same by Allow", s.contender(fairAllows), "over"),
				none("0 overtakes by 20 ms and more with Wait", s.contender(fairWaits), "by far"),
			}
		},
	}
}

// rateFigures is for grants that are never released.
func rateFigures(r run) figures {
	f := waitFigures(r)
	delete(f, "most") // no call holds anything
	f["by far"] = float64(overtakesByFar(r.records()))
	var granted []int64
	for _, v := range r.records() {
		if v.granted() > 0 && v.granted() < r.window.End {
			granted = append(granted, v.granted())
		}
	}
	slices.Sort(granted)
	f["window"] = float64(maxInWindow(granted, int64(r.job.Per)))
	if len(granted) > 0 {
		over := granted[0] + int64(r.job.Per)
		first, _ := slices.BinarySearch(granted, over)
		f["first"] = float64(first)
		if over < r.window.End {
			f["steady"] = float64(len(granted)-first) / inSeconds(r.window.End-over)
		}
	}
	return f
}

// maxInWindow returns the largest number of sorted times in any window of that length. Both ends belong to the window.
func maxInWindow(sorted []int64, window int64) (most int) {
	first := 0
	for i, at := range sorted {
		for at-sorted[first] > window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// grantObserver reads when Redis made each grant: the tokens are its clock in microseconds.
type grantObserver struct {
	rdb    *redis.Client
	key    string
	job    job
	stop   context.CancelFunc
	ended  chan struct{}
	tokens []int64 // until ended is closed, only run uses it
	err    error   // likewise
}

// observeGrants starts to observe the grants of the workers of a job.
func observeGrants(ctx context.Context, b *bench, j job) observer {
	ctx, stop := context.WithCancel(ctx)
	w := &grantObserver{rdb: b.server.rdb, key: ownerKey(j), job: j, stop: stop, ended: make(chan struct{})}
	go w.run(ctx) // ends with ctx, or with figures, which waits for it
	return w
}

// ownerKey is the key with the grants of the workers of a job.
func ownerKey(j job) string {
	return protocol.Keyspace{Prefix: "fairsem"}.Key(j.name(0), protocol.Owner)
}

// run reads the grants several times in a window: a grant stays in Redis for one window.
func (w *grantObserver) run(ctx context.Context) {
	defer close(w.ended)
	every := time.NewTicker(w.job.Per / 5)
	defer every.Stop()
	for w.err == nil {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			w.err = w.readGrants(ctx)
		}
	}
}

func (w *grantObserver) readGrants(ctx context.Context) error {
	after := "-inf"
	if n := len(w.tokens); n > 0 {
		after = "(" + strconv.FormatInt(w.tokens[n-1], 10)
	}
	entries, err := w.rdb.ZRangeByScoreWithScores(ctx, w.key, &redis.ZRangeBy{Min: after, Max: "+inf"}).Result()
	for _, z := range entries {
		w.tokens = append(w.tokens, int64(z.Score))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var errOverLimit = errors.New("a window has more than the limit")

// figures ends the observation. If it did not see all grants of the callers, it returns nothing about the windows.
func (w *grantObserver) figures(ctx context.Context, r run) (figures, error) {
	w.stop()
	<-w.ended
	if err := errors.Join(w.err, w.readGrants(ctx)); err != nil {
		return nil, err
	}
	if len(w.tokens) < r.calls() {
		return figures{"unseen": float64(r.calls() - len(w.tokens))}, nil
	}
	most := maxInWindow(w.tokens, w.job.Per.Microseconds())
	over := max(0, most-int(w.job.Limit))
	f := figures{"by server": float64(most), "over": float64(over)}
	if over > 0 {
		return f, fmt.Errorf("%w: %d of %d in %v", errOverLimit, most, w.job.Limit, w.job.Per)
	}
	return f, nil
}
