package pipeline

import (
	"io"
	"testing"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipeline breaks half-way: a command without a value of its own was not answered.
func TestCommandsThatWereNotReachedHaveNoAnswer(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		commands := []redis.Cmder{
			protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "a")}, protocol.Values{SliceCmd: redis.NewSliceCmd(background, "b")},
			protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "c")}, protocol.Values{SliceCmd: redis.NewSliceCmd(background, "d")},
		}
		got := make(chan []response, 1)
		go func() { got <- c.shared.run(c.rdb.Pipeline(), commands) }() // ends with the answer
		f := w.next()
		f.cmds[0].(protocol.Numbers).SetVal([]int64{42})
		f.cmds[1].SetErr(said("ERR no"))
		f.end <- io.EOF
		responses := <-got
		assert.Equal(t, []response{{numbers: []int64{42}}, {err: said("ERR no")}}, responses[:2])
		for _, r := range responses[2:] {
			assert.ErrorIs(t, r.err, failure.ErrNoAnswer)
			assert.ErrorIs(t, r.err, io.EOF)
		}
	})
}

// If go-redis re-sends a script by itself, the outcome is unknown.
func TestScriptWhoseReplyIsCutOffIsExecutedOnce(t *testing.T) {
	t.Parallel()
	count := func(key string) redis.Cmder {
		return protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "eval", "return { redis.call('INCR', KEYS[1]) }", 1, key)}
	}
	label := func(key string) redis.Cmder {
		return redis.NewStatusCmd(background, "set", key+":label", "x", "px", 1000)
	}
	for name, commandsOf := range map[string][]func(string) redis.Cmder{
		"alone":          {count},
		"after a label":  {label, count},
		"before a label": {count, label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := redistest.SettledClient(t)
			proxy := redistest.NewProxy(t, redistest.SharedServer(t).Addr())
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()}) // with go-redis's default number of tries
			t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
			l := &pipeline{rdb: rdb, goroutines: goroutines.New(), clock: clock.New(), suspect: func() {}, disconnected: func() {}}
			l.run(rdb.Pipeline(), []redis.Cmder{redis.NewCmd(background, "ping")}) // it is connected now
			key := "fairsem-test-" + uuid.NewString()
			t.Cleanup(func() { assert.NoError(t, direct.Del(background, key, key+":label").Err()) })
			var commands []redis.Cmder
			for _, make := range commandsOf {
				commands = append(commands, make(key))
			}
			got := make(chan []response, 1)
			proxy.HoldReplies()
			go func() { got <- l.run(rdb.Pipeline(), commands) }() // ends when the connection is cut
			executed := func() string { return direct.Get(background, key).Val() }
			require.Eventually(t, func() bool { return executed() == "1" }, 10*time.Second, time.Millisecond)
			proxy.Cut()
			proxy.Resume()
			for _, r := range <-got {
				assert.Error(t, r.err)
			}
			assert.Equal(t, "1", executed())
		})
	}
}
