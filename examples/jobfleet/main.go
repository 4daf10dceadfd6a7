// Command jobfleet runs jobs in several processes, which share a few test databases:
//
//	go run github.com/fairsem/fairsem/examples/jobfleet@latest
//
// It starts itself as five workers. Each job needs a database of its own, and there are three: a numbered permit says which one is
// free. One worker is killed with its job half done. Its database is used again when its lease has ended, and the job is done by another
// worker.
//
// It needs no Redis; with $REDIS_URL it uses the one there.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/examples/internal/stage"
)

const (
	workers   = 5
	databases = 3
	jobs      = 150
)

// worker is a process of the fleet. It stops when there are no more jobs.
func worker(ctx context.Context, redis *stage.Redis, hub string) error {
	options := redis.Options()
	options.TTL = 2 * time.Second // until the database of a killed worker is free again; the default is 10 s
	client, err := fairsem.New(redis, options)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it releases what is still held
	semaphore, err := client.Semaphore("test-databases", databases)
	if err != nil {
		return err
	}
	numbered := semaphore.With(fairsem.CallOptions{Numbered: true})
	for more := true; more; {
		permit, err := numbered.Acquire(ctx, 1) // before the job: what is not begun stays for other workers
		if err != nil {
			return err
		}
		more, err = work(permit, hub)
		released := permit.Release(ctx)
		if errors.Is(released, fairsem.ErrUnavailable) {
			released = nil // Redis has not answered yet, and the release goes on in the background
		}
		switch err = errors.Join(err, released); {
		case errors.Is(err, fairsem.ErrLost):
			more = true // the job was not done, and is given out again
		case err != nil:
			return err
		}
	}
	return nil
}

// work does one job with the database that the permit stands for. The context ends the job if the permit is lost, and the database
// refuses a token that is lower than one it has seen: a worker that was stopped for too long does no harm.
func work(permit *fairsem.Permit, hub string) (more bool, err error) {
	url := fmt.Sprintf("%s/%d?token=%d&worker=%d", hub, permit.Number(), permit.Token(), os.Getpid())
	r, err := http.NewRequestWithContext(permit.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	if response.StatusCode == http.StatusConflict {
		err = fmt.Errorf("database %d refuses token %d", permit.Number(), permit.Token())
	}
	return response.StatusCode == http.StatusOK, errors.Join(err, response.Body.Close())
}

func main() { stage.Run(run) }

func run(ctx context.Context, redis *stage.Redis, checks *stage.Checks) error {
	if len(os.Args) > 1 {
		return worker(ctx, redis, os.Args[1])
	}
	h := newHub()
	defer h.Close()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Printf("%d processes do %d jobs on %d databases; one of them is killed in the middle of a job\n", workers, jobs, databases)
	var fleet []*exec.Cmd
	for range workers {
		process := exec.CommandContext(ctx, program, h.URL)
		process.Env, process.Stderr = redis.Env(), os.Stderr
		if err := process.Start(); err != nil {
			return err
		}
		fleet = append(fleet, process)
	}
	failed := 0
	for _, process := range fleet {
		if process.Wait() != nil {
			failed++
		}
	}
	h.Close()

	checks.That(failed == 1, "%d of %d processes failed: the one that was killed", failed, workers)
	checks.That(h.done() == jobs, "%d jobs were done, that of the killed process by another one", h.done())
	checks.That(h.shared == 0, "no database was used by two workers at once")
	checks.That(h.late == 0, "the tokens of each database increased")
	checks.That(h.heir != 0 && h.heir != h.killed, "the database of the killed process was used again, by another one")
	return nil
}
