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

// workerArg makes the bench binary a worker. Users do not need it.
const workerArg = "worker"

// A warm-up opens the connections of the default pool of go-redis and loads the scripts. It uses its own names.
const (
	warmUpCallers = 20
	warmUpPairs   = 25
)

// serve is the main function of a worker process.
func serve(in io.Reader, out io.Writer) (err error) {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	var j job
	if err := requests.Decode(&j); err != nil {
		return fmt.Errorf("%w; the bench starts %q itself, do not run it by hand", err, workerArg)
	}
	w, err := newWorker(j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.contender.close()) }()
	if err := answers.Encode(hello{}); err != nil {
		return err
	}
	var win window
	if err := requests.Decode(&win); err != nil {
		return err
	}
	if err := answers.Encode(w.run(win)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// worker is one process and its callers.
type worker struct {
	contender contender
	callers   []*caller
}

// newWorker connects and warms up.
func newWorker(j job) (*worker, error) {
	w := &worker{}
	warm := min(j.Goroutines, warmUpCallers)
	var err error
	if w.contender, err = open(j, j.Goroutines+warm); err != nil {
		return nil, err
	}
	if err := w.warmUp(j, warm); err != nil {
		return nil, errors.Join(err, w.contender.close())
	}
	if err := w.add(j); err != nil {
		return nil, errors.Join(err, w.contender.close())
	}
	return w, nil
}

// warmUp makes a few calls with its own callers, and ignores the results: a failure will occur again during the measurement.
func (w *worker) warmUp(j job, callers int) error {
	practice := job{Key: j.Key + "-warm", Process: j.Process, Goroutines: callers, Calls: warmUpPairs}
	if err := w.add(practice); err != nil {
		return err
	}
	defer func() { w.callers = nil }()
	w.run(window{Start: now(), End: now() + int64(waitTimeout)})
	return nil
}

func (w *worker) add(j job) error {
	for g := range j.Goroutines {
		acquire, err := w.contender.acquirer(j.name(g))
		if err != nil {
			return err
		}
		w.callers = append(w.callers, &caller{job: j, acquire: acquire})
	}
	return nil
}

// name returns the name that goroutine g of the process uses.
func (j job) name(g int) string {
	if j.Names == 0 {
		return fmt.Sprintf("%s-%d-%d", j.Key, j.Process, g)
	}
	return fmt.Sprintf("%s-%d", j.Key, g%j.Names)
}

// run runs all callers and combines their results.
func (w *worker) run(win window) outcome {
	var all sync.WaitGroup
	for _, c := range w.callers {
		all.Go(func() { c.run(win) }) // ends waitTimeout after the window at the latest
	}
	all.Wait()
	var o outcome
	for _, c := range w.callers {
		o.Calls += c.calls
		o.Pairs = append(o.Pairs, c.pairs...)
		o.Records = append(o.Records, c.records...)
		if o.Failures += c.failures; o.Failure == "" && c.failure != nil {
			o.Failure = c.failure.Error()
		}
	}
	return o
}

// caller is one goroutine and its results.
type caller struct {
	job     job
	acquire acquireFunc

	calls    int
	pairs    []int64
	records  []record
	failures int
	failure  error
}

func (c *caller) run(win window) {
	// Each caller has its own context, because all callers would contend for the lock of a shared one.
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(until(win.End)+waitTimeout))
	defer cancel()
	time.Sleep(until(win.Start))
	for asked := now(); asked < win.End && (c.job.Calls == 0 || c.calls < c.job.Calls); asked = now() {
		if err := c.acquireAndRelease(ctx, win, asked); err != nil {
			c.fail(err)
		}
		if c.job.Pause > 0 {
			holdUntil(now() + int64(c.job.Pause))
		}
	}
}

// acquireAndRelease makes one call and releases the unit.
func (c *caller) acquireAndRelease(ctx context.Context, win window, asked int64) error {
	h, err := c.acquire(ctx)
	if err != nil {
		if c.job.Journal {
			c.records = append(c.records, record{asked, 0, now(), 0})
		}
		return err
	}
	if c.job.Journal {
		granted := now()
		if granted < win.End { // calls that are granted later release at once
			holdUntil(granted + int64(c.job.Hold))
		}
		c.records = append(c.records, record{asked, granted, now(), h.token})
	}
	if err := h.release(ctx); err != nil {
		return err
	}
	c.calls++
	if done := now(); !c.job.Journal && done < win.End {
		c.pairs = append(c.pairs, done-asked)
	}
	return nil
}

// fail records a failure. It sleeps, so that calls that fail at once do not become a busy loop.
func (c *caller) fail(err error) {
	c.failures++
	if c.failure == nil {
		c.failure = err
	}
	time.Sleep(time.Millisecond)
}
