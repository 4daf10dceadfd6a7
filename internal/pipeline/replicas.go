package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
)

// Grants that survive a failover. With Config.Replicas a batch ends with WAIT, which answers when that many replicas
// have everything that was written before it on the connection. If fewer have, an acquire or a renewal counts as not
// answered: it is tried again, and trusted no sooner. A permit that was granted by a call about other tickets is
// queried first, with a WAIT. A release need not be certain: at worst a failover undoes it until the lease ends.

// waitFor is a WAIT with its answer.
type waitFor struct {
	*redis.IntCmd
	replicas int
}

func (p *Pipeline) newWait(timeout time.Duration) waitFor {
	return waitFor{redis.NewIntCmd(context.Background(), "wait", p.Replicas, (timeout / 2).Milliseconds()), p.Replicas}
}

// failed returns why the commands before the WAIT may not count, nil if they do.
func (w waitFor) failed() error {
	if err := failure.Discreet(w.Err()); err != nil {
		return fmt.Errorf("%w: %w", failure.ErrFewReplicas, err)
	}
	if n := w.Val(); n < int64(w.replicas) {
		return fmt.Errorf("%w: %d of %d", failure.ErrFewReplicas, n, w.replicas)
	}
	return nil
}

// redisPipeline returns a pipeline to a single server, which WAIT needs: it has no key that selects a node of a cluster.
func (p *Pipeline) redisPipeline() (redis.Pipeliner, error) {
	if p.Primary == nil {
		return p.Client.Pipeline(), nil
	}
	node, err := p.Primary(p.Goroutines.Context)
	if err != nil {
		return nil, fmt.Errorf("no node of the name: %w", failure.Discreet(err))
	}
	return node.Pipeline(), nil
}

// runDurable runs commands, of which some may need replicas. Commands that reached too few replicas count as not answered.
func (p *Pipeline) runDurable(commands []prepared, timeout time.Duration) []Response {
	all := make([]redis.Cmder, len(commands), len(commands)+1)
	for i := range commands {
		all[i] = commands[i].cmd()
	}
	if p.Replicas == 0 || !slices.ContainsFunc(commands, func(c prepared) bool { return c.Call.MustSurvive() }) {
		return p.run(p.Client.Pipeline(), all)
	}
	pipe, err := p.redisPipeline()
	if err != nil {
		return slices.Repeat([]Response{{Err: err}}, len(commands))
	}
	wait := p.newWait(timeout)
	responses := p.run(pipe, append(all, wait))
	for i, c := range commands {
		if err := wait.failed(); err != nil && responses[i].Err == nil && c.Call.MustSurvive() {
			responses[i] = Response{Err: err}
		}
	}
	return responses[:len(commands)]
}
