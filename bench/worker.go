package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// workerArg makes the bench binary a worker. It is not for people.
const workerArg = "worker"

// A warm-up makes the connections of go-redis's default pool and loads the scripts, on names of its own.
const (
	warmers   = 20
	warmPairs = 25
)

// serve is the main function of a worker process.
func serve(in io.Reader, out io.Writer) (err error) {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := orders.Decode(&j); err != nil {
		return fmt.Errorf("%w; %q is not meant to be run by hand", err, workerArg)
	}
	w, err := newWorker(j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.house.close()) }()
	if err := answers.Encode(hello{}); err != nil {
		return err
	}
	var win window
	if err := orders.Decode(&win); err != nil {
		return err
	}
	if err := answers.Encode(w.work(win)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// worker is one process with its callers.
type worker struct {
	house   house
	callers []*caller
}

// newWorker connects and warms up.
func newWorker(j job) (*worker, error) {
	w := &worker{}
	warm := min(j.Goroutines, warmers)
	var err error
	if w.house, err = open(j, j.Goroutines+warm); err != nil {
		return nil, err
	}
	if err := w.warmUp(j, warm); err != nil {
		return nil, errors.Join(err, w.house.close())
	}
	if err := w.add(j); err != nil {
		return nil, errors.Join(err, w.house.close())
	}
	return w, nil
}

// warmUp lets callers of their own make a few pairs, and forgets what they saw: what fails then fails
// again when it counts.
func (w *worker) warmUp(j job, callers int) error {
	practice := job{Key: j.Key + "-warm", Process: j.Process, Goroutines: callers, Calls: warmPairs}
	if err := w.add(practice); err != nil {
		return err
	}
	defer func() { w.callers = nil }()
	w.work(window{Start: now(), End: now() + int64(patience)})
	return nil
}

func (w *worker) add(j job) error {
	for g := range j.Goroutines {
		take, err := w.house.taker(j.name(g))
		if err != nil {
			return err
		}
		w.callers = append(w.callers, &caller{job: j, take: take})
	}
	return nil
}

// name is what goroutine g of the process uses.
func (j job) name(g int) string {
	if j.Names == 0 {
		return fmt.Sprintf("%s-%d-%d", j.Key, j.Process, g)
	}
	return fmt.Sprintf("%s-%d", j.Key, g%j.Names)
}

// work lets all callers loose and puts together what they saw.
func (w *worker) work(win window) outcome {
	var all sync.WaitGroup
	for _, c := range w.callers {
		all.Go(func() { c.work(win) }) // ends with the window and the patience after it
	}
	all.Wait()
	var o outcome
	for _, c := range w.callers {
		o.Calls += c.calls
		o.Pairs = append(o.Pairs, c.pairs...)
		o.Visits = append(o.Visits, c.visits...)
		if o.Failures += c.failures; o.Failure == "" && c.failure != nil {
			o.Failure = c.failure.Error()
		}
	}
	return o
}

// caller is one goroutine and what it saw.
type caller struct {
	job  job
	take takeFunc

	calls    int
	pairs    []int64
	visits   []visit
	failures int
	failure  error
}

func (c *caller) work(win window) {
	// A context for each: one for all would be a lock that all fight for.
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(until(win.End)+patience))
	defer cancel()
	time.Sleep(until(win.Start))
	for asked := now(); asked < win.End && (c.job.Calls == 0 || c.calls < c.job.Calls); asked = now() {
		if err := c.turn(ctx, win, asked); err != nil {
			c.fail(err)
		}
		if c.job.Pause > 0 {
			holdUntil(now() + int64(c.job.Pause))
		}
	}
}

// turn is one acquire and its release.
func (c *caller) turn(ctx context.Context, win window, asked int64) error {
	h, err := c.take(ctx)
	if err != nil {
		if c.job.Journal {
			c.visits = append(c.visits, visit{asked, 0, now(), 0})
		}
		return err
	}
	if c.job.Journal {
		granted := now()
		if granted < win.End { // those who waited longer only have to get through
			holdUntil(granted + int64(c.job.Hold))
		}
		c.visits = append(c.visits, visit{asked, granted, now(), h.token})
	}
	if err := h.give(ctx); err != nil {
		return err
	}
	c.calls++
	if done := now(); !c.job.Journal && done < win.End {
		c.pairs = append(c.pairs, done-asked)
	}
	return nil
}

// fail notes a failure. One that comes back at once must not become a busy loop.
func (c *caller) fail(err error) {
	c.failures++
	if c.failure == nil {
		c.failure = err
	}
	time.Sleep(time.Millisecond)
}
