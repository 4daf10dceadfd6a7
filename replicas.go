package fairsem

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Grants that survive a failover. With Options.WaitReplicas a batch ends with WAIT, which answers when
// so many replicas have all that was written before it on the connection. Where too few have, an
// acquire or a renewal counts as not answered: it is tried again, and trusted no sooner. A permit that
// was granted in an exchange of somebody else's is asked about first, with a WAIT of our own. What is
// given back need not be certain: at worst a failover brings it back until its lease ends.

var errFewReplicas = errors.New("too few replicas have acknowledged it")

// mustLast reports whether what a script did has to survive a failover.
func needsReplicas(s *script) bool {
	return s == acquireScript || s == refreshScript || s == restoreScript
}

// waitFor is a WAIT with its answer.
type waitFor struct {
	*redis.IntCmd
	replicas int
}

func (l *pipeline) newWait(timeout time.Duration) waitFor {
	return waitFor{redis.NewIntCmd(background, "wait", l.replicas, (timeout / 2).Milliseconds()), l.replicas}
}

// failed is why what stood before the WAIT may not count; nil: it may.
func (w waitFor) failed() error {
	if err := w.Err(); err != nil {
		return fmt.Errorf("%w: %w", errFewReplicas, err)
	}
	if n := w.Val(); n < int64(w.replicas) {
		return fmt.Errorf("%w: %d of %d", errFewReplicas, n, w.replicas)
	}
	return nil
}

// mayHaveRun reports whether err says that what was asked for was done, and only its WAIT was not.
func isUnreplicated(err error) bool { return errors.Is(err, errFewReplicas) }

// pipeline returns one that goes to a single server, which a WAIT must: it has no key to tell a cluster
// where to.
func (l *pipeline) redisPipeline() (redis.Pipeliner, error) {
	cluster, ok := l.rdb.(cluster)
	if !ok {
		return l.rdb.Pipeline(), nil
	}
	node, err := cluster.MasterForKey(l.goroutines.ctx, l.key)
	if err != nil {
		return nil, fmt.Errorf("no node for %q: %w", l.key, err)
	}
	return node.Pipeline(), nil
}

// runSurely is run for calls that must last: those that may not have count as not answered.
func (l *pipeline) runDurable(calls []call, commands []redis.Cmder, timeout time.Duration) []response {
	if l.replicas == 0 || !slices.ContainsFunc(calls, func(c call) bool { return needsReplicas(c.script) }) {
		return l.run(l.rdb.Pipeline(), commands)
	}
	pipe, err := l.redisPipeline()
	if err != nil {
		return slices.Repeat([]response{{err: err}}, len(calls))
	}
	wait := l.newWait(timeout)
	responses := l.run(pipe, append(slices.Clip(commands), wait))
	for i, c := range calls {
		if err := wait.failed(); err != nil && responses[i].err == nil && needsReplicas(c.script) {
			responses[i] = response{err: err}
		}
	}
	return responses[:len(calls)]
}
