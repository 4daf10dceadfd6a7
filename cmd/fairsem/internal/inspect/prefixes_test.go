package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/redistest"
)

// hold has a name in use with a prefix until the test ends.
func hold(t *testing.T, rdb redis.UniversalClient, prefix, name string) {
	t.Helper()
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	acquire(t, client, name, 1, 1)
}

func TestOtherPrefixesAreThoseOfSemaphoresAndNoMoreThanThree(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	others := func() []string { return inspect.OtherPrefixes(t.Context(), rdb, "fairsem") }
	require.Empty(t, others())
	hold(t, rdb, "app:staging", "n")
	hold(t, rdb, "app:staging", "m")
	for key, field := range map[string]string{"other:{x}:meta": "title", "a{b:{x}:meta": "layout", ":{x}:meta": "layout", "p:{}:meta": "layout", "q:{}x}:meta": "layout"} {
		require.NoError(t, rdb.HSet(t.Context(), key, field, "1").Err())
	}
	require.NoError(t, rdb.Set(t.Context(), "text:{x}:meta", "1", 0).Err())
	for i := range 3000 { // more than a page
		require.NoError(t, rdb.Set(t.Context(), fmt.Sprintf("noise:%d", i), "1", 0).Err())
	}
	assert.Equal(t, []string{"app:staging"}, others())
	for _, prefix := range []string{"d", "c", "b"} {
		hold(t, rdb, prefix, "n")
	}
	assert.Len(t, others(), 3)
	assert.IsIncreasing(t, others())
	hold(t, rdb, "fairsem", "n")
	assert.Len(t, inspect.OtherPrefixes(t.Context(), rdb, "e"), 3)
}

func TestNoOtherPrefixIsReportedIfTheOwnHasSemaphores(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	hold(t, rdb, "fairsem", "n")
	hold(t, rdb, "other", "n")
	assert.Empty(t, inspect.OtherPrefixes(t.Context(), rdb, "fairsem"))
	assert.Equal(t, []string{"fairsem", "other"}, inspect.OtherPrefixes(t.Context(), rdb, "third"))
}

func TestOtherPrefixesAreFoundOnEveryPrimaryOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t).Client()
	primaries := make(map[string]bool)
	var want []string
	for i := 0; len(primaries) < 3; i++ {
		name := fmt.Sprint(i)
		primary, err := cluster.MasterForKey(t.Context(), "{"+name+"}")
		require.NoError(t, err)
		if addr := primary.Options().Addr; !primaries[addr] {
			primaries[addr] = true
			prefix := fmt.Sprintf("prefix-%d", len(primaries))
			hold(t, cluster, prefix, name)
			want = append(want, prefix)
		}
	}
	assert.Equal(t, want, inspect.OtherPrefixes(t.Context(), cluster, "none"))
}

// A user without the right to read other keys, or to scan keys, gets no hint, and the administrator one line in ACL LOG
// at most.
func TestWithoutTheRightToReadOtherKeysNoPrefixIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	admin := server.Client()
	for i := range 5 {
		hold(t, admin, fmt.Sprintf("secret-%d", i), "n")
	}
	for user, words := range map[string]string{"narrow": "~fairsem:* +@all", "blind": "~* +@all -scan", "deaf": "~* +@all -hget"} {
		args := []any{"ACL", "SETUSER", user, "on", ">secret"}
		for word := range strings.FieldsSeq(words) {
			args = append(args, word)
		}
		require.NoError(t, admin.Do(t.Context(), args...).Err())
		require.NoError(t, admin.Do(t.Context(), "ACL", "LOG", "RESET").Err())
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user, Password: "secret"})
		assert.Empty(t, inspect.OtherPrefixes(t.Context(), rdb, "fairsem"), user)
		assert.NoError(t, rdb.Close())
		log, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
		require.NoError(t, err)
		assert.Len(t, log, 1, user)
	}
}

func TestTheSearchForPrefixesEndsWithItsContextIfTheServerHangs(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	rdb := server.Client()
	require.NoError(t, server.Pause())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Empty(t, inspect.OtherPrefixes(ctx, rdb, "fairsem"))
	require.NoError(t, server.Resume())
}
