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

// oldEnough is the age in seconds at which fairsem takes a server that does not know a name for one that never had it.
const oldEnough = 3

// rates is a limit in time that 32 callers in 4 processes always want more of.
func rates(ctx context.Context, b *bench) (*section, error) {
	if err := b.server.process.AwaitAge(oldEnough); err != nil {
		return nil, err
	}
	return rateRace(b.rateLimit, b.rateWindow).run(ctx, b)
}

func rateRace(limit int64, per time.Duration) race {
	fairs := entries(fairWaits, fairAllows)
	for i := range fairs {
		fairs[i].watch = watchGrants
	}
	return race{
		name: "rate", title: fmt.Sprintf("%d in %v, 4 processes x 8 callers that want all they can get", limit, per),
		entries: append(fairs, entries(redisRates)...), processes: 4, share: 2.5,
		job:  job{Goroutines: 8, Names: 1, Limit: limit, Per: per, Journal: true},
		read: rateFigures,
		columns: []string{
			"rate", "first", "steady", "window", "by server", "p50", "p99", "longest", "overtakes", "by far", "cpu", "scripts", "failed",
		},
		notes: []string{
			fmt.Sprintf("Windows are of %v and slide: the one with the most grants in it counts. Of all contenders they are measured alike, "+
				"by when callers have their answers, on the clock of the bench; an answer that is late can make two windows one. "+
				"By the server's clock only fairsem tells when it granted, and only there is its limit.", per),
			fmt.Sprintf("GCRA with a burst of the whole limit lets in as many at once and one every %v besides: up to twice the limit in the first window.",
				per/time.Duration(limit)),
			"A limit on every window keeps the pattern of the first one: who takes all at once waits for the rest of the window, each time. So a few waits are as long as it, and the others short.",
		},
		targets: func(s *section) []target {
			return []target{
				none("no window above the limit, by the server's clock", s.of(fairWaits, "over")),
				none("the same by Allow", s.of(fairAllows, "over")),
				none("0 overtakes by 20 ms and more of those who Wait", s.of(fairWaits, "by far")),
			}
		},
	}
}

// rateFigures are for callers who are granted what is never given back.
func rateFigures(r run) figures {
	f := waitFigures(r)
	delete(f, "most") // at once: nobody holds anything
	f["by far"] = float64(overtakesByFar(r.visits()))
	var granted []int64
	for _, v := range r.visits() {
		if v.granted() > 0 && v.granted() < r.window.End {
			granted = append(granted, v.granted())
		}
	}
	slices.Sort(granted)
	f["window"] = float64(mostWithin(granted, int64(r.job.Per)))
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

// mostWithin is how many of sorted times lie in a window of that length, wherever it begins; both its ends belong
// to it.
func mostWithin(sorted []int64, window int64) (most int) {
	first := 0
	for i, at := range sorted {
		for at-sorted[first] > window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// grantWatch reads when Redis granted what: the tokens, which are its clock in microseconds.
type grantWatch struct {
	rdb    *redis.Client
	key    string
	job    job
	stop   context.CancelFunc
	ended  chan struct{}
	tokens []int64 // until ended: of run alone
	err    error   // the same
}

// watchGrants begins to watch what a job's workers are granted.
func watchGrants(ctx context.Context, b *bench, j job) watch {
	ctx, stop := context.WithCancel(ctx)
	w := &grantWatch{rdb: b.server.rdb, key: ownerKey(j), job: j, stop: stop, ended: make(chan struct{})}
	go w.run(ctx) // ends with found, which waits for it, or with ctx
	return w
}

// ownerKey is the key with what a job's workers were granted.
func ownerKey(j job) string {
	return protocol.Keyspace{Prefix: "fairsem"}.Key(j.name(0), protocol.Owner)
}

// run looks several times in a window: a grant is there for as long as one.
func (w *grantWatch) run(ctx context.Context) {
	defer close(w.ended)
	every := time.NewTicker(w.job.Per / 5)
	defer every.Stop()
	for w.err == nil {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			w.err = w.look(ctx)
		}
	}
}

func (w *grantWatch) look(ctx context.Context) error {
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

// found ends the watch. What the callers had and it did not see says nothing of the windows.
func (w *grantWatch) found(ctx context.Context, r run) (figures, error) {
	w.stop()
	<-w.ended
	if err := errors.Join(w.err, w.look(ctx)); err != nil {
		return nil, err
	}
	if len(w.tokens) < r.calls() {
		return figures{"unseen": float64(r.calls() - len(w.tokens))}, nil
	}
	most := mostWithin(w.tokens, w.job.Per.Microseconds())
	over := max(0, most-int(w.job.Limit))
	f := figures{"by server": float64(most), "over": float64(over)}
	if over > 0 {
		return f, fmt.Errorf("%w: %d of %d in %v", errOverLimit, most, w.job.Limit, w.job.Per)
	}
	return f, nil
}
