package fairsem

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Grants that survive a failover. With Options.WaitReplicas a batch ends with WAIT, which answers when that many replicas
// have everything that was written before it on the connection. If fewer have, an acquire or a renewal counts as not
// answered: it is tried again, and trusted no sooner. A permit that was granted by a call about other tickets is
// queried first, with a WAIT. A release need not be certain: at worst a failover undoes it until the lease ends.

// needsReplicas reports whether the effect of a script must survive a failover.
func needsReplicas(s *protocol.Script) bool {
	return s == protocol.AcquireScript || s == protocol.RefreshScript || s == protocol.RestoreScript
}

// waitFor is a WAIT with its answer.
type waitFor struct {
	*redis.IntCmd
	replicas int
}

func (l *pipeline) newWait(timeout time.Duration) waitFor {
	return waitFor{redis.NewIntCmd(background, "wait", l.replicas, (timeout / 2).Milliseconds()), l.replicas}
}

// failed returns why the commands before the WAIT may not count, nil if they do.
func (w waitFor) failed() error {
	if err := w.Err(); err != nil {
		return fmt.Errorf("%w: %w", failure.ErrFewReplicas, err)
	}
	if n := w.Val(); n < int64(w.replicas) {
		return fmt.Errorf("%w: %d of %d", failure.ErrFewReplicas, n, w.replicas)
	}
	return nil
}

// redisPipeline returns a pipeline to a single server, which WAIT needs: it has no key that selects a node of a cluster.
func (l *pipeline) redisPipeline() (redis.Pipeliner, error) {
	cluster, ok := l.rdb.(cluster)
	if !ok {
		return l.rdb.Pipeline(), nil
	}
	node, err := cluster.MasterForKey(l.goroutines.Context, l.key)
	if err != nil {
		return nil, fmt.Errorf("no node for %q: %w", l.key, err)
	}
	return node.Pipeline(), nil
}

// runDurable is run for calls that may need replicas. Those that too few replicas have count as not answered.
func (l *pipeline) runDurable(calls []protocol.Call, commands []redis.Cmder, timeout time.Duration) []response {
	if l.replicas == 0 || !slices.ContainsFunc(calls, func(c protocol.Call) bool { return needsReplicas(c.Script) }) {
		return l.run(l.rdb.Pipeline(), commands)
	}
	pipe, err := l.redisPipeline()
	if err != nil {
		return slices.Repeat([]response{{err: err}}, len(calls))
	}
	wait := l.newWait(timeout)
	responses := l.run(pipe, append(slices.Clip(commands), wait))
	for i, c := range calls {
		if err := wait.failed(); err != nil && responses[i].err == nil && needsReplicas(c.Script) {
			responses[i] = response{err: err}
		}
	}
	return responses[:len(calls)]
}
