package fairsem

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// PositionOf returns the position in the queue from which a permit was granted: its token if it never waited.
func PositionOf(p *Permit) int64 {
	p.ticket.state.mu.Lock()
	defer p.ticket.state.mu.Unlock()
	if p.ticket.position == 0 {
		return p.ticket.token
	}
	return p.ticket.position
}

// ScriptTexts returns every script as it is sent.
func ScriptTexts() (all []string) {
	for _, s := range slices.Concat(protocol.Scripts, protocol.PlainScripts) {
		all = append(all, s.Text())
	}
	return all
}

// CountedCalls is a hook that counts the script calls.
type CountedCalls struct {
	testclient.Hook
	atomic.Int64
}

// ProcessPipelineHook counts script calls.
func (h *CountedCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, c := range cmds {
			if c.Name() == "evalsha" {
				h.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// permit is the permit that the caller of t gets.
func (t *ticket) permit() *Permit { return &Permit{ticket: t} }

// await waits for the outcome of t, as Acquire does.
func (t *ticket) await(ctx context.Context, latest time.Time) error {
	s := &Semaphore{Inspector: &Inspector{client: &Client{host: *t.state.host}}}
	return s.await(ctx, t, latest)
}
