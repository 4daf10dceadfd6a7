package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

const (
	soon  = time.Minute
	often = 10 * time.Millisecond
)

func everyName(string) bool { return true }

// watch finds names until the test ends.
func watch(t *testing.T, client *fairsem.Client, most int) *inspect.Finder {
	t.Helper()
	names := inspect.NewFinder(client, everyName, most, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var walking sync.WaitGroup
	walking.Go(func() { names.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		walking.Wait()
	})
	return names
}

// seen are the names of a query.
func seen(t *testing.T, names *inspect.Finder) (all []string) {
	t.Helper()
	survey, err := names.Query(t.Context())
	require.NoError(t, err)
	for _, s := range survey.Statuses {
		all = append(all, s.Name)
	}
	return all
}

func TestNamesAreFoundInTheBackgroundAndDroppedWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	client := newClientOn(t, rdb)
	names := watch(t, client, 0)
	<-names.Complete()
	assert.Empty(t, seen(t, names))
	acquire(t, client, "b", 1, 1)
	sem, err := client.Semaphore("a", 1)
	require.NoError(t, err)
	require.NoError(t, sem.SetLimit(t.Context(), 1)) // known without an end
	require.Eventually(t, func() bool { return fmt.Sprint(seen(t, names)) == "[a b]" }, soon, often)
	expire(t, rdb, "a")
	require.Eventually(t, func() bool { return fmt.Sprint(seen(t, names)) == "[b]" }, soon, often)
}

// expire deletes the keys that Redis deletes by itself some 20 s after the last use of a name.
func expire(t *testing.T, rdb redis.UniversalClient, name string) {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "fairsem:{"+name+"}:*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	require.NoError(t, rdb.Del(t.Context(), keys...).Err())
}

func TestARemovedNameMakesRoomForAnother(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	client := newClientOn(t, rdb)
	sem, err := client.Semaphore("a", 1)
	require.NoError(t, err)
	require.NoError(t, sem.SetLimit(t.Context(), 1))
	names := watch(t, client, 1)
	require.Eventually(t, func() bool { return fmt.Sprint(seen(t, names)) == "[a]" }, soon, often)
	expire(t, rdb, "a")
	acquire(t, client, "b", 1, 1)
	require.Eventually(t, func() bool { return fmt.Sprint(seen(t, names)) == "[b]" }, soon, often)
}

// A flood of names hides none that was there, and is said to be one.
func TestKnownNamesStayIfThereAreTooMany(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for _, name := range []string{"a", "b"} {
		acquire(t, client, name, 1, 1)
	}
	names := watch(t, client, 3)
	<-names.Complete()
	survey, err := names.Query(t.Context())
	require.NoError(t, err)
	assert.False(t, survey.More)
	for i := range 20 {
		acquire(t, client, fmt.Sprint("flood ", i), 1, 1)
	}
	require.Eventually(t, func() bool {
		survey, err := names.Query(t.Context())
		return err == nil && survey.More
	}, soon, often)
	found := seen(t, names)
	assert.Len(t, found, 3)
	assert.Subset(t, found, []string{"a", "b"})
}

// clusterWithout returns a client of a cluster, the names on the first primary, which goes away when lose is called, and those on the
// others. The client itself would wait for an hour.
func clusterWithout(t *testing.T) (client *fairsem.Client, lost, others []string, lose func()) {
	t.Helper()
	cluster := redistest.NewCluster(t)
	client, err := fairsem.New(cluster.Client(), fairsem.Options{TTL: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // a primary is gone
	for i := range 250 {                     // on the first one more than are queried in parallel
		name := fmt.Sprintf("n%03d", i)
		require.NoError(t, client.Inspect(name).SetLimit(t.Context(), 1))
		switch owner, err := cluster.Owner(protocol.DefaultKeyspace.Key(name, protocol.Meta)); {
		case err != nil:
			require.NoError(t, err)
		case owner == cluster.Nodes[0]:
			lost = append(lost, name)
		default:
			others = append(others, name)
		}
	}
	require.Greater(t, len(lost), 64)
	return client, lost, others, func() { require.NoError(t, cluster.Lose(0)) }
}

// The first name that was not answered ended the query of all.
func TestNamesOnThePrimariesThatAnswerAreSeen(t *testing.T) {
	t.Parallel()
	client, lost, others, lose := clusterWithout(t)
	before := watch(t, client, 0)
	<-before.Complete()
	assert.Len(t, seen(t, before), len(lost)+len(others))
	lose()
	assert.Equal(t, others, seen(t, before))
	survey, err := before.Query(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(lost), len(survey.Unreadable))
	for i, err := range survey.Unreadable {
		require.ErrorIs(t, err, fairsem.ErrUnavailable)
		require.EqualError(t, err, fmt.Sprintf("fairsem: status %q: only other names are answered", lost[i]), "ls --watch shows it once in a pipe")
	}

	after := watch(t, client, 0) // which never knew the others
	<-after.Complete()
	survey, err = after.Query(t.Context())
	require.NoError(t, err)
	require.EqualError(t, survey.Missing, "fairsem: list: a primary of the cluster does not answer, so names may be missing")
	assert.Len(t, survey.Statuses, len(others))
	assert.Empty(t, survey.Unreadable)
	assert.False(t, survey.Partial)

	survey, err = inspect.Scan(t.Context(), client, everyName)
	require.NoError(t, err)
	require.ErrorContains(t, survey.Missing, "the names of some primaries are missing: 1 of 3")
	assert.Len(t, survey.Statuses, len(others))
}

func TestAServerThatIsDownIsAnErrorForAllNames(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{TTL: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // its server is gone
	for i := range 100 {
		require.NoError(t, client.Inspect(fmt.Sprint(i)).SetLimit(t.Context(), 1))
	}
	names := watch(t, client, 0)
	<-names.Complete()
	assert.Len(t, seen(t, names), 100)
	require.NoError(t, server.Kill())
	_, err = names.Query(t.Context())
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	_, err = inspect.Scan(t.Context(), client, everyName)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
}

// A password that was changed, or a right that was lost, emptied the last picture, which then said that no name is in use.
func TestAServerThatRefusesEveryNameIsAnErrorForAllOfThem(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	admin := server.Client()
	as := func(command ...any) { require.NoError(t, admin.Do(t.Context(), command...).Err()) }
	as("ACL", "SETUSER", "few", "on", ">geheim", "~*", "&*", "+@all")
	few := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "few", Password: "geheim"})
	t.Cleanup(func() { assert.NoError(t, few.Close()) })
	finder := func(prefix string) (*fairsem.Client, *inspect.Finder) {
		client, err := fairsem.New(few, fairsem.Options{Prefix: prefix, TTL: time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() }) // its password is wrong
		names := watch(t, client, 0)
		<-names.Complete()
		assert.Empty(t, seen(t, names))
		return client, names
	}
	_, none := finder("empty")
	client, names := finder("fairsem")
	other := newClientOn(t, admin)
	require.NoError(t, other.Inspect("a").SetLimit(t.Context(), 1))
	require.NoError(t, other.Inspect("b").SetLimit(t.Context(), 1))
	require.Eventually(t, func() bool { return len(seen(t, names)) == 2 }, soon, often)

	as("ACL", "SETUSER", "few", "-eval", "-evalsha")
	_, err := names.Query(t.Context())
	require.ErrorContains(t, err, "NOPERM")
	_, err = inspect.Scan(t.Context(), client, everyName)
	require.ErrorContains(t, err, "NOPERM")
	as("ACL", "SETUSER", "few", "+eval", "+evalsha")
	assert.Equal(t, []string{"a", "b"}, seen(t, names), "they are still known")
	as("SET", protocol.DefaultKeyspace.Key("a", protocol.Meta), "of another type")
	assert.Equal(t, []string{"b"}, seen(t, names))
	as("SET", protocol.DefaultKeyspace.Key("b", protocol.Meta), "of another type")
	survey, err := names.Query(t.Context())
	require.NoError(t, err, "each says something about its name only")
	assert.Len(t, survey.Unreadable, 2)

	as("ACL", "SETUSER", "few", "resetpass", ">other")
	as("CLIENT", "KILL", "USER", "few")
	require.Eventually(t, func() bool {
		_, err := none.Query(t.Context())
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	}, soon, often, "there is no name to ask for, but the scans fail")
}

// whileAsked calls f once, before the first command of a client leaves.
type whileAsked struct {
	once sync.Once
	f    func()
}

func (w *whileAsked) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *whileAsked) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.once.Do(w.f)
		return next(ctx, cmd)
	}
}

func (w *whileAsked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.once.Do(w.f)
		return next(ctx, cmds)
	}
}

// afterReply calls f once, when a first pipeline was answered and before the next one is sent.
type afterReply struct {
	whileAsked
	mu sync.Mutex
}

func (a *afterReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		defer a.once.Do(a.f)
		return next(ctx, cmds)
	}
}

// Names that it had not answered before it stopped were left out, as those on a dead primary of a cluster are.
func TestAServerThatStopsForAMomentLeavesOutNoName(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	rdb := server.Client()
	client := newClientOn(t, rdb)
	names := inspect.NewFinder(client, everyName, 0, 0)
	for i := range 200 { // more than are queried in parallel
		name := fmt.Sprint(i)
		require.NoError(t, client.Inspect(name).SetLimit(t.Context(), 1))
		names.Add(name)
	}
	resumed := make(chan error, 1)
	rdb.AddHook(&afterReply{whileAsked: whileAsked{f: func() {
		assert.NoError(t, server.Pause())
		time.AfterFunc(1600*time.Millisecond, func() { resumed <- server.Resume() })
	}}})
	survey, err := names.Query(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-resumed)
	assert.Empty(t, survey.Unreadable)
	assert.Len(t, survey.Statuses, 200)
}

func TestASurveyReportsMoreNamesOnlyIfItIsFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	client, err := fairsem.New(rdb, fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	acquire(t, client, "a", 1, 1)
	names := inspect.NewFinder(client, everyName, 2, 0)
	names.Add("a")
	rdb.AddHook(&whileAsked{f: func() { // the walk goes on
		names.Add("b")
		names.Add("c")
	}})
	survey, err := names.Query(t.Context())
	require.NoError(t, err)
	require.Len(t, survey.Statuses, 1)
	assert.False(t, survey.More)
	survey, err = names.Query(t.Context())
	require.NoError(t, err)
	assert.True(t, survey.More)
}

// Polling every second used to take four fifths of a server with a million keys of other programs.
func TestFindingNamesTakesAFiftiethOfTheServersTime(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	pipe := server.Client().Pipeline()
	for i := range 30_000 {
		pipe.Set(t.Context(), "foreign:"+strconv.Itoa(i), "", 0)
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	for setting, value := range map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "100000"} { // every command
		require.NoError(t, server.Client().ConfigSet(t.Context(), setting, value).Err())
	}
	client, err := fairsem.New(server.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	began := time.Now()
	names := watch(t, client, 0)
	<-names.Complete()
	elapsed := time.Since(began)
	pages := scans(t, server.Client())
	require.Greater(t, len(pages), 10)
	var paused time.Duration // after the last page there is no pause
	for _, page := range pages[:len(pages)-1] {
		paused += page
	}
	assert.LessOrEqual(t, paused, elapsed/50+2*time.Millisecond, "its share, of which that of a tenth of a second may come at once")
}

// scans returns how long the server took for each SCAN.
func scans(t *testing.T, rdb redis.UniversalClient) (all []time.Duration) {
	t.Helper()
	log, err := rdb.SlowLogGet(t.Context(), -1).Result()
	require.NoError(t, err)
	for _, entry := range slices.Backward(log) {
		if entry.Args[0] == "scan" {
			all = append(all, entry.Duration)
		}
	}
	return all
}

func TestAPatternWithoutASignIsOneName(t *testing.T) {
	t.Parallel()
	for pattern, exact := range map[string]bool{"a b": true, "a/b": true, "": false, "a*": false, "?": false, "[a]": false, `\[`: false} {
		assert.Equal(t, exact, inspect.Exact(pattern), pattern)
	}
}
