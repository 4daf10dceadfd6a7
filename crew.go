package fairsem

import (
	"context"
	"sync"
)

// background is for what go-redis wants a context for and never looks at it.
var background = context.Background()

// crew are the goroutines of a client that come and go. ctx ends with them: go-redis honours it
// while it waits for a connection, though not while it reads, so what bounds a batch is its patience.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

func newCrew() *crew {
	ctx, cancel := context.WithCancel(background)
	return &crew{ctx: ctx, cancel: cancel}
}

// launch runs f in a goroutine that close waits for. False: it came too late.
func (c *crew) launch(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.busy.Go(f)
	return true
}

func (c *crew) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.busy.Wait()
}
