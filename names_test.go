package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/bridge"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// crowd writes keys that do not belong to fairsem.
func crowd(t *testing.T, rdb redis.UniversalClient, keys int) {
	t.Helper()
	pipe := rdb.Pipeline()
	for i := range keys {
		pipe.Set(t.Context(), "foreign:"+strconv.Itoa(i), "", 0)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
}

// among returns a client of a server that also has that many other keys.
func among(t *testing.T, n int) (*fairsem.Client, redis.UniversalClient) {
	t.Helper()
	rdb := redistest.NewServer(t).Client()
	crowd(t, rdb, n)
	c, err := fairsem.New(rdb, fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c, rdb
}

// A walk over millions of other keys once used four fifths of the time of the server.
func TestListUsesNoMoreThanItsShareOfTheServer(t *testing.T) {
	t.Parallel()
	c, rdb := among(t, 30_000)
	const share = 0.01
	require.NoError(t, rdb.ConfigSet(t.Context(), "slowlog-max-len", "1000").Err())
	require.NoError(t, rdb.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	began := time.Now()
	for _, err := range c.ListAt(t.Context(), share) {
		require.NoError(t, err)
	}
	took := time.Since(began)
	commands, err := rdb.SlowLogGet(t.Context(), 1000).Result() // the last one first
	require.NoError(t, err)
	var pages []time.Duration
	for _, command := range commands {
		if strings.EqualFold(command.Args[0], "scan") {
			pages = append(pages, command.Duration)
		}
	}
	require.Greater(t, len(pages), 10)
	var spent time.Duration
	for _, page := range pages[1:] { // nothing follows the last one: nobody waits until it is paid for
		spent += page
	}
	// The first burst of a walk exceeds the share. Twice the share is still far less than all of the time.
	assert.LessOrEqual(t, float64(spent), 2*share*float64(took+100*time.Millisecond), "%v", pages)
}

func TestListAmongManyKeysFindsAllNames(t *testing.T) {
	t.Parallel()
	c, _ := among(t, 5000)
	var want, got []string
	for i := range 100 {
		s, err := c.Semaphore(fmt.Sprint("name ", i), 1)
		require.NoError(t, err)
		_, err = s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		want = append(want, s.Name())
	}
	for name, err := range c.List(t.Context()) {
		require.NoError(t, err)
		got = append(got, name)
	}
	assert.ElementsMatch(t, want, got)
}

// It ended at the first primary that did not answer, which was any.
func TestListInAClusterHasTheNamesOfThePrimariesThatAnswer(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	c, err := fairsem.New(cluster.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a primary is gone
	var want []string
	for i := range 9 {
		name := fmt.Sprintf("n%d", i)
		require.NoError(t, c.Inspect(name).SetLimit(t.Context(), 1))
		if owner, err := cluster.Owner(protocol.DefaultKeyspace.Key(name, protocol.Meta)); assert.NoError(t, err) && owner != cluster.Nodes[0] {
			want = append(want, name)
		}
	}
	require.Less(t, len(want), 9)
	require.NoError(t, cluster.Lose(0))
	var names []string
	var failed error
	for name, err := range c.List(t.Context()) {
		if failed = err; err == nil {
			names = append(names, name)
		}
	}
	require.ErrorIs(t, failed, fairsem.ErrUnavailable)
	require.ErrorContains(t, failed, "the names of some primaries are missing: 1 of 3")
	assert.ElementsMatch(t, want, names)

	for _, n := range cluster.Nodes {
		require.NoError(t, n.Kill())
	}
	err = listed(t.Context(), c)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	assert.NotContains(t, err.Error(), "some primaries")
}

// go-redis waits for the paused primary for an hour, so a List that waits for it, too, hangs.
func TestListInAClusterYieldsTheNamesOfOtherPrimariesBeforeASilentOneAnswers(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Client().Options().Addrs, ReadTimeout: time.Hour})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := fairsem.New(rdb, fairsem.Options{TTL: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	others := make(map[string]bool)
	for i := range 9 {
		name := fmt.Sprintf("n%d", i)
		require.NoError(t, c.Inspect(name).SetLimit(t.Context(), 1))
		if owner, err := cluster.Owner(protocol.DefaultKeyspace.Key(name, protocol.Meta)); assert.NoError(t, err) && owner != cluster.Nodes[0] {
			others[name] = true
		}
	}
	require.NoError(t, cluster.Nodes[0].Pause())
	defer func() { require.NoError(t, cluster.Nodes[0].Resume()) }() // what waits for it ends before the client is closed
	for range 5 {                                                    // go-redis may query the paused one first, or another
		missing := maps.Clone(others)
		for name, err := range c.List(t.Context()) {
			require.NoError(t, err)
			if delete(missing, name); len(missing) == 0 {
				break
			}
		}
		require.Empty(t, missing)
	}
}

func TestListThatPausesEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c, _ := among(t, 5000)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("out of patience"))
	defer cancel()
	var ended error
	for _, err := range c.ListAt(ctx, 1e-9) { // it would take a day
		ended = err
	}
	require.ErrorIs(t, ended, context.DeadlineExceeded)
	require.ErrorContains(t, ended, "out of patience")
}

func TestInvalidShareIsRefused(t *testing.T) {
	t.Parallel()
	c, err := fairsem.New(offline(t), fairsem.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	for _, share := range []float64{0, -1, 1.1, math.NaN(), math.Inf(1)} {
		results := 0
		for _, err := range c.ListAt(t.Context(), share) {
			assert.ErrorIs(t, err, fairsem.ErrInvalid)
			results++
		}
		assert.Equal(t, 1, results)
	}
}

func TestLabelHasAtMost256Bytes(t *testing.T) {
	t.Parallel()
	rdb := offline(t)
	c, err := fairsem.New(rdb, fairsem.Options{Label: strings.Repeat("é", 128)})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = fairsem.New(rdb, fairsem.Options{Label: strings.Repeat("x", 257)})
	wrong(t, err, fairsem.ErrInvalid, "label of 257 bytes")
}

// Another program can write labels of any length: showing 20 labels of 20 MiB needed more than a GB.
func TestLabelsAreReadUpToTheirMaximalLength(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour // no renewal writes the right label in between
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		defer w.release(p)
		id, _, _ := strings.Cut(p.ID(), ":")
		key := "fairsem:client:" + id
		w.eventually(func() bool { return w.rdb.Exists(t.Context(), key).Val() == 1 }, "the right label is written beside the call")
		for written, want := range map[string]string{
			strings.Repeat("x", 1<<20):              strings.Repeat("x", 256),
			strings.Repeat("x", 255) + "é and more": strings.Repeat("x", 255),
			strings.Repeat("x", 253) + "💥💥":         strings.Repeat("x", 253),
			strings.Repeat("x", 252) + "💥":          strings.Repeat("x", 252) + "💥",
			strings.Repeat("x", 254) + "é":          strings.Repeat("x", 254) + "é",
			strings.Repeat("\x80", 300):             strings.Repeat("\x80", 256),
			"short\xff":                             "short\xff",
		} {
			require.NoError(t, w.rdb.Set(t.Context(), key, written, 10*time.Minute).Err())
			label := ""
			w.eventually(func() bool { // a label that is not there within a second is left empty
				for ticket, err := range s.Holders(t.Context()) {
					require.NoError(t, err)
					label = ticket.Label
				}
				return label != ""
			}, "the label is not read")
			assert.Equal(t, want, label)
		}
	})
}

// One primary that did not answer took away the labels that others had sent, and nothing said so.
func TestLabelsOnThePrimariesThatAnswerAreReadAndTheOthersSayWhyNot(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	name, silent := "", cluster.Nodes[0]
	for i := 0; name == ""; i++ {
		if owner, err := cluster.Owner(protocol.DefaultKeyspace.Key(fmt.Sprint("n", i), protocol.Meta)); assert.NoError(t, err) && owner != silent {
			name = fmt.Sprint("n", i)
		}
	}
	unread := make(map[string]bool) // by label
	for seen := map[bool]int{}; seen[true] < 3 || seen[false] < 3; {
		label := fmt.Sprint("label ", len(unread))
		c, err := fairsem.New(cluster.Client(), fairsem.Options{Label: label, TTL: time.Hour})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() }) // the primary may answer too late
		s, err := c.Semaphore(name, 100)
		require.NoError(t, err)
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		id, _, _ := strings.Cut(p.ID(), ":")
		owner, err := cluster.Owner("fairsem:client:" + id)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return cluster.Client().Exists(t.Context(), "fairsem:client:"+id).Val() == 1 }, time.Minute, time.Millisecond)
		unread[label] = owner == silent
		seen[owner == silent]++
	}
	require.NoError(t, cluster.Nodes[3].Kill()) // nobody takes over
	for _, n := range cluster.Nodes[1:3] {
		require.NoError(t, n.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	require.NoError(t, silent.Pause())
	t.Cleanup(func() { assert.NoError(t, silent.Resume()) }) // before the clients are closed
	c, err := fairsem.New(cluster.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	for ticket, err := range c.Inspect(name).Holders(t.Context()) {
		require.NoError(t, err)
		if ticket.Label == "" {
			require.ErrorIs(t, bridge.Unread(ticket), fairsem.ErrUnavailable)
			continue
		}
		require.NoError(t, bridge.Unread(ticket))
		require.Contains(t, unread, ticket.Label)
		assert.False(t, unread[ticket.Label])
		delete(unread, ticket.Label)
	}
	for label, on := range unread {
		assert.True(t, on, "%s was there to be read", label)
	}
}

func TestLabelThatAUserMayNotReadSaysSo(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	c, err := fairsem.New(s.Client(), fairsem.Options{Label: "the label"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	sem, err := c.Semaphore("n", 1)
	require.NoError(t, err)
	_, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-getrange").Err())
	found := 0
	for ticket, err := range sem.Holders(t.Context()) {
		require.NoError(t, err)
		assert.Empty(t, ticket.Label)
		assert.ErrorContains(t, bridge.Unread(ticket), "give this Redis user the rights that docs/operations.md lists")
		found++
	}
	assert.Equal(t, 1, found)
}
