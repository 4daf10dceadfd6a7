package look

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockScript has the key of a name only so that the server of that name answers: in a cluster each has a
// clock of its own.
var clockScript = redis.NewScript(`return redis.call("TIME")`)

// ClockOf asks the server that has the name for its time. Tickets tell their times by it, so how long ago
// they are must not depend on the clock of this machine.
func ClockOf(ctx context.Context, rdb redis.Scripter, prefix, name string) (time.Time, error) {
	type answer struct {
		parts []int64
		err   error
	}
	answers := make(chan answer, 1)
	go func() { // ends with the time-outs of rdb; waited for below unless ctx ends, which go-redis would not heed
		parts, err := clockScript.Run(ctx, rdb, []string{prefix + ":{" + name + "}:meta"}).Int64Slice()
		answers <- answer{parts, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return time.Time{}, a.err
		}
		return time.Unix(a.parts[0], a.parts[1]*int64(time.Microsecond)), nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}
