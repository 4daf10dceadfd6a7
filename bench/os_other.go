//go:build !linux

package main

import "time"

func rest(d time.Duration) { time.Sleep(d) }

// placed leaves it to the system where processes run: there is no portable way to say it.
func (p placement) placed(_ int, start func() error) (restore func(), err error) {
	return func() {}, start()
}
