package main

import (
	"context"
	"time"

	"github.com/fairsem/fairsem"
)

// fairRater is fairsem's Limiter, by one of its two calls.
type fairRater struct {
	fairHouse
	per  time.Duration
	take func(*fairsem.Limiter) takeFunc
}

func openFairRate(take func(*fairsem.Limiter) takeFunc) opener {
	return func(j job, callers int) (house, error) {
		h, err := openFairsem(j, callers)
		if err != nil {
			return nil, err
		}
		return &fairRater{*h.(*fairHouse), j.Per, take}, nil
	}
}

func (r *fairRater) taker(name string) (takeFunc, error) {
	limiter, err := r.client.Limiter(name, r.limit, r.per)
	if err != nil {
		return nil, err
	}
	return r.take(limiter), nil
}

func byWait(l *fairsem.Limiter) takeFunc {
	return func(ctx context.Context) (held, error) { return held{give: keep}, l.Wait(ctx, 1) }
}

// byAllow has its callers do what those of a limiter without Wait have to.
func byAllow(l *fairsem.Limiter) takeFunc {
	return untilAllowed(func(ctx context.Context) (bool, time.Duration, error) {
		d, err := l.Allow(ctx, 1)
		return d.Allowed, d.RetryAfter, err
	})
}

// keep is the giving back of what nobody gives back.
func keep(context.Context) error { return nil }

// untilAllowed asks again after each refusal, when that says it is worth it.
func untilAllowed(allow func(context.Context) (ok bool, retryAfter time.Duration, err error)) takeFunc {
	return func(ctx context.Context) (held, error) {
		for {
			ok, retryAfter, err := allow(ctx)
			if ok || err != nil {
				return held{give: keep}, err
			}
			select {
			case <-ctx.Done():
				return held{}, ctx.Err()
			case <-time.After(retryAfter):
			}
		}
	}
}
