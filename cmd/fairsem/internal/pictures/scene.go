package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// part describes the calls of each process of the scene for one name.
type part struct {
	name    string
	limit   int64
	callers int // of each process
	weight  int64
	works   time.Duration // on average
	rests   time.Duration // on average
}

// parts are a full limit with a queue, one with room, a lock and a job that needs several units.
var parts = []part{
	{name: "payments-api", limit: 20, callers: 4, weight: 1, works: 900 * time.Millisecond, rests: 400 * time.Millisecond},
	{name: "image-resize", limit: 8, callers: 3, weight: 1, works: 700 * time.Millisecond, rests: 900 * time.Millisecond},
	{name: "exports", limit: 12, callers: 1, weight: 3, works: 3 * time.Second, rests: 2 * time.Second},
	{name: "ledger", limit: 1, callers: 1, weight: 1, works: 250 * time.Millisecond, rests: 2 * time.Second},
	{name: "staging", limit: 4, callers: 1, weight: 1, works: 2 * time.Second, rests: 6 * time.Second},
}

const processes = 6

// scene is processes that work.
type scene struct {
	clients []*fairsem.Client
	cancel  context.CancelFunc
	working sync.WaitGroup
}

func newScene(ctx context.Context, server *redistest.Server) (*scene, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &scene{cancel: cancel}
	for n := range processes {
		client, err := fairsem.New(server.Client(), fairsem.Options{Label: fmt.Sprintf("worker-%d", n+1)})
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.clients = append(s.clients, client)
		if err := s.play(ctx, client); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *scene) play(ctx context.Context, client *fairsem.Client) error {
	for _, p := range parts {
		sem, err := client.Semaphore(p.name, p.limit)
		if err != nil {
			return err
		}
		for range p.callers {
			s.working.Go(func() { work(ctx, sem, p) }) // ends with ctx; close waits for it
		}
	}
	rate, err := client.Limiter("geocoder", 100, 10*time.Second)
	if err != nil {
		return err
	}
	s.working.Go(func() { // ends with ctx; close waits for it
		for rate.Wait(ctx, 1) == nil {
			sleep(ctx, 700*time.Millisecond)
		}
	})
	return nil
}

func work(ctx context.Context, sem *fairsem.Semaphore, p part) {
	for ctx.Err() == nil {
		sleep(ctx, tide(p.rests))
		_ = sem.Do(ctx, p.weight, func(ctx context.Context) error { // errors show in the picture
			sleep(ctx, p.works)
			return nil
		})
	}
}

// tide has demand rise and fall, so that plots have something to show.
func tide(rests time.Duration) time.Duration {
	const period = 2 * time.Minute
	phase := float64(time.Now().UnixNano()%int64(period)) / float64(period)
	return time.Duration(float64(rests) * (1 + 0.9*math.Sin(2*math.Pi*phase)))
}

// sleep sleeps for up to twice as long, or until ctx ends.
func sleep(ctx context.Context, average time.Duration) { _ = pause(ctx, rand.N(2*average)) }

func (s *scene) close() (err error) {
	s.cancel()
	s.working.Wait()
	for _, client := range s.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}
