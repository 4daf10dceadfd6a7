package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislocker is rueidislock with the options of its README for one server of version 7.0.5 or newer: KeyMajority 1 and
// NoLoopTracking. The other options have their defaults (validity 5 s). The cancel function releases the lock and returns when
// Redis has confirmed it.
type rueidislocker struct{ locker rueidislock.Locker }

func openRueidislock(j job, _ int) (contender, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{j.Addr}},
		KeyMajority:    1,
		NoLoopTracking: true,
	})
	return rueidislocker{locker}, err
}

func (r rueidislocker) acquirer(name string) (acquireFunc, error) {
	return func(ctx context.Context) (acquired, error) {
		_, cancel, err := r.locker.WithContext(ctx, name)
		release := func(context.Context) error {
			cancel()
			return nil
		}
		return acquired{release: release}, err
	}, nil
}

func (r rueidislocker) close() error {
	r.locker.Close()
	return nil
}
