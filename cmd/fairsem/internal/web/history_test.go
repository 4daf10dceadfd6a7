package web

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func one(name string, used int64) []fairsem.Status {
	return []fairsem.Status{{Name: name, Used: used, Limit: 5, Exists: true}}
}

func TestTheLastTenMinutesOfANameAreKept(t *testing.T) {
	t.Parallel()
	h := history{names: 10}
	var all map[string][]point
	for i := range 2000 {
		all = h.add(noon.Add(time.Duration(i)*time.Second), one("a", int64(i)))
	}
	points := all["a"]
	assert.Len(t, points, 600)
	assert.EqualValues(t, 1400, points[0].used)
	assert.EqualValues(t, 1999, points[599].used)
	assert.LessOrEqual(t, cap(points), 2*mostPoints+2, "what is dropped is not kept in memory")

	// Looks that come faster make the past shorter, not longer.
	for i := range 2000 {
		all = h.add(noon.Add(2000*time.Second+time.Duration(i)*time.Millisecond), one("a", 1))
	}
	assert.Len(t, all["a"], 600)
}

func TestNoMoreNamesAreKeptThanArePolled(t *testing.T) {
	t.Parallel()
	h := history{names: 20}
	for i := range 100 {
		look := make([]fairsem.Status, 10)
		for j := range look {
			look[j].Name = fmt.Sprint(i, "-", j)
		}
		all := h.add(noon.Add(time.Duration(i)*time.Second), look)
		assert.LessOrEqual(t, len(all), 20)
		for _, s := range look {
			assert.NotEmpty(t, all[s.Name])
		}
	}
}

func TestANameThatComesBackHasItsPast(t *testing.T) {
	t.Parallel()
	h := history{names: 10}
	h.add(noon, one("a", 1))
	h.add(noon.Add(time.Minute), one("b", 1))
	assert.Len(t, h.add(noon.Add(2*time.Minute), one("a", 2))["a"], 2)
	assert.NotContains(t, h.add(noon.Add(20*time.Minute), one("c", 1)), "a", "for as long as a plot goes back")
}

func TestWhatWasHandedOutNeverChanges(t *testing.T) {
	t.Parallel()
	h := history{names: 10}
	var before []point
	for i := range 700 {
		before = h.add(noon.Add(time.Duration(i)*time.Second), one("a", int64(i)))["a"]
	}
	copied := slices.Clone(before)
	for i := range 700 {
		h.add(noon.Add(time.Duration(700+i)*time.Second), one("a", -1))
	}
	assert.Equal(t, copied, before)
}

func TestRedisIsPolledWithoutViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSampler(time.Second, 3*time.Second, 10, func(context.Context) (inspect.Survey, error) {
			return inspect.Survey{Statuses: one("a", 3)}, nil
		})
		go s.run(ctx) // ends with ctx; synctest waits for it
		time.Sleep(9500 * time.Millisecond)
		assert.EqualValues(t, 10, s.latest().polls)
		assert.Len(t, s.latest().series["a"], 10)
		cancel()
	})
}

// alive is a page of a sampler, about a Redis that answers PING unless it is away, until it is stopped.
func alive(s *sampler, away *atomic.Bool) (p *Page, stop func()) {
	p = resting(s, away)
	return p, p.begin()
}

// resting is a page of that sampler that has not asked yet.
func resting(s *sampler, away *atomic.Bool) *Page {
	p := &Page{Options: Options{Interval: s.interval, Timeout: 3 * time.Second}, sampler: s}
	p.pulse = newPinger(p.Interval, func(context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	})
	return p
}

func (p *Page) begin() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	for _, run := range []func(context.Context){p.pulse.run, p.sampler.run} {
		asking.Go(func() { run(ctx) }) // ends with ctx; stop waits
	}
	return func() {
		cancel()
		asking.Wait()
	}
}

// A probe that restarts the server of the page makes nothing faster.
func TestARedisThatIsSlowIsNotAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(time.Second, 3*time.Second, 10, func(context.Context) (inspect.Survey, error) {
			time.Sleep(2900 * time.Millisecond)
			return inspect.Survey{Statuses: one("a", 3)}, nil
		})
		p, stop := alive(s, new(atomic.Bool))
		defer stop()
		<-s.latest().replace
		for s.latest().polls < 5 {
			assert.Empty(t, p.trouble(s.latest()))
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// With millions of keys on the server every poll failed, and the page reported that Redis was away.
func TestAPollThatTimesOutIsNotReportedAsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(time.Second, 3*time.Second, 10, func(ctx context.Context) (inspect.Survey, error) {
			<-ctx.Done()
			return inspect.Survey{}, ctx.Err()
		})
		p, stop := alive(s, new(atomic.Bool))
		defer stop()
		time.Sleep(time.Minute)
		assert.Empty(t, p.away(s.latest()))
		assert.Equal(t, "No answer yet", p.trouble(s.latest()))
	})
}

func TestAFailedPollKeepsTheLastAnswerAndIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away, gone atomic.Bool
		s := newSampler(time.Second, 3*time.Second, 10, func(ctx context.Context) (inspect.Survey, error) {
			if away.Load() { // a server that does not answer
				<-ctx.Done()
				return inspect.Survey{}, errors.New("away")
			}
			return inspect.Survey{Statuses: one("a", 3)}, nil
		})
		p := resting(s, &gone)
		assert.Equal(t, "Redis has not answered yet", p.trouble(s.latest()))
		defer p.begin()()
		synctest.Wait()
		seen := s.latest()
		assert.Empty(t, p.trouble(seen))
		away.Store(true)
		<-seen.replace
		now := s.latest()
		assert.Equal(t, seen.Statuses, now.Statuses)
		assert.Equal(t, seen.at, now.at)
		assert.Equal(t, "Redis answers, but the last successful query of all names is 5.0s old", p.trouble(now), "a second to the poll, four for it")
		assert.Empty(t, p.away(now))
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.CollectorFunc(p.collectServer))
		assert.Contains(t, string(encode(registry)), "fairsem_names_truncated 1\n", "no name is polled, which an alert says")
		gone.Store(true)
		time.Sleep(10 * time.Second)
		assert.Contains(t, p.trouble(s.latest()), "Redis has not answered for ")
		away.Store(false)
		gone.Store(false)
		for range 3 { // the first may have begun before
			<-s.latest().replace
		}
		assert.Empty(t, p.trouble(s.latest()))
	})
}

// With a poll a minute /healthz stayed 200 for a minute without Redis, although PING was sent twice a second.
func TestAnOutageShowsSoonHoweverRarePollsAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		s := newSampler(time.Minute, 3*time.Second, 10, func(context.Context) (inspect.Survey, error) { return inspect.Survey{}, nil })
		p, stop := alive(s, &gone)
		defer stop()
		time.Sleep(3 * time.Minute)
		assert.Empty(t, p.away(s.latest()))
		gone.Store(true)
		time.Sleep(5 * time.Second)
		assert.Contains(t, p.away(s.latest()), "Redis has not answered for ")
		gone.Store(false)
		time.Sleep(time.Second)
		assert.Empty(t, p.away(s.latest()))
	})
}

func TestAPlotIsOfNumbersOnlyAndInItsBox(t *testing.T) {
	t.Parallel()
	var points []point
	for i := range int64(600) {
		points = append(points, point{noon.Add(time.Duration(i) * time.Second), i % 7, 5, 1 << 52 * (i % 2)})
	}
	now := noon.Add(600 * time.Second)
	for _, value := range []func(point) int64{func(p point) int64 { return p.used }, func(p point) int64 { return p.waiting }} {
		p := draw(columns(points, 120, value), now, 5*time.Second, true)
		for _, path := range []string{p.Area, p.Edge, p.Limit} {
			assert.Regexp(t, `^M([0-9.]+ [0-9.]+|[HVMZ]|[0-9.])+$`, path)
			for _, x := range regexp.MustCompile(`H([0-9.]+)`).FindAllStringSubmatch(path, -1) {
				assert.Regexp(t, `^([0-5]?[0-9]?[0-9]\.[0-9]|600\.0)$`, x[1])
			}
		}
	}
	p := draw(columns(points, 120, func(p point) int64 { return p.used }), now, 7*time.Second, true)
	assert.EqualValues(t, 6, p.Peak)
	assert.EqualValues(t, 6, p.Top)
	assert.Regexp(t, `^M0\.0 16\.7H600\.0$`, p.Limit, "what stays as it is takes no room")
}

func TestAPlotOfNothingIsEmpty(t *testing.T) {
	t.Parallel()
	assert.Equal(t, plot{Top: 1}, draw(nil, noon, time.Second, true))
}

func TestAPlotShowsGapsWithoutPolls(t *testing.T) {
	t.Parallel()
	points := []point{{noon, 1, 2, 0}, {noon.Add(5 * time.Second), 1, 2, 0}, {noon.Add(5 * time.Minute), 1, 2, 0}}
	p := draw(columns(points, 120, func(p point) int64 { return p.used }), noon.Add(5*time.Minute), 10*time.Second, true)
	require.Regexp(t, `^M300\.0 [^M]+H310\.0M600\.0 `, p.Edge)
}
