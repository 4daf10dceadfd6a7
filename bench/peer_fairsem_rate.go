package main

import (
	"context"
	"time"

	"github.com/fairsem/fairsem"
)

// fairRater is fairsem's Limiter with one of its two calls.
type fairRater struct {
	fairsemContender
	per  time.Duration
	call func(*fairsem.Limiter) acquireFunc
}

func openFairRate(acquire func(*fairsem.Limiter) acquireFunc) opener {
	return func(j job, callers int) (contender, error) {
		h, err := openFairsem(j, callers)
		if err != nil {
			return nil, err
		}
		return &fairRater{*h.(*fairsemContender), j.Per, acquire}, nil
	}
}

func (r *fairRater) acquirer(name string) (acquireFunc, error) {
	limiter, err := r.client.Limiter(name, r.limit, r.per)
	if err != nil {
		return nil, err
	}
	return r.call(limiter), nil
}

func byWait(l *fairsem.Limiter) acquireFunc {
	return func(ctx context.Context) (acquired, error) { return acquired{release: releaseNothing}, l.Wait(ctx, 1) }
}

// byAllow makes its callers do what callers of a limiter without Wait must do.
func byAllow(l *fairsem.Limiter) acquireFunc {
	return untilAllowed(func(ctx context.Context) (bool, time.Duration, error) {
		d, err := l.Allow(ctx, 1)
		return d.Allowed, d.RetryAfter, err
	})
}

// releaseNothing is the release of a grant that is never released.
func releaseNothing(context.Context) error { return nil }

// untilAllowed retries after each refusal, at the time that the refusal contains.
func untilAllowed(allow func(context.Context) (ok bool, retryAfter time.Duration, err error)) acquireFunc {
	return func(ctx context.Context) (acquired, error) {
		for {
			ok, retryAfter, err := allow(ctx)
			if ok || err != nil {
				return acquired{release: releaseNothing}, err
			}
			select {
			case <-ctx.Done():
				return acquired{}, ctx.Err()
			case <-time.After(retryAfter):
			}
		}
	}
}
