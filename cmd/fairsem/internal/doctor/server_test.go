package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

func TestVersionsAreJudgedByWhatWasTested(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info string
		want State
		says string
	}{
		{"redis_version:6.0.16", Fail, "Redis 6.0.16 lacks required commands"},
		{"redis_version:6.2.14", OK, "Redis 6.2.14"},
		{"redis_version:7.0.15", OK, "Redis 7.0.15"},
		{"redis_version:8.6.1", OK, "Redis 8.6.1"},
		{"redis_version:9.0.0", Warn, "newer"},
		{"redis_version:255.255.255", Warn, "newer"},
		{"redis_version:x", Warn, "unknown version"},
		{"redis_version:", Warn, "unknown version"},
		{"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:7.2.5", Warn, "Valkey 7.2.5 is older than what was tested"},
		{"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.1", OK, "Valkey 8.1.1"},
		{"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:10.0.0", Warn, "Valkey 10.0.0 is newer"},
		{"redis_version:7.4.0\ndragonfly_version:df-v1.27", Warn, "Dragonfly"},
		{"redis_version:6.3.4\nmvcc_depth:0", Warn, "KeyDB"},
	} {
		f := version(fields(c.info))
		assert.Equal(t, c.want, f.State, c.info)
		assert.Contains(t, f.Message, c.says)
	}
}

// The versions that docs/compatibility.md lists as tested are well.
func TestVersionsThatWereTestedAreWell(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "compatibility.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (Redis|Valkey) ([0-9.]+) \|`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		info := map[string]string{"redis_version": row[2]}
		if row[1] == "Valkey" {
			info = map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": row[2]}
		}
		assert.Equal(t, OK, version(info).State, row[0])
	}
}

// It reported nothing but that there is no Redis.
func TestAPrimaryOfAClusterThatIsDownIsAFailureAndTheOthersAreChecked(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t)
	o := usual()
	occupy(t, c.Client(), o.Prefix, "here")
	lost, err := c.Owner(protocol.Keyspace{Prefix: o.Prefix}.Key("elsewhere", protocol.Meta))
	require.NoError(t, err)
	holds, err := c.Owner(protocol.Keyspace{Prefix: o.Prefix}.Key("here", protocol.Meta))
	require.NoError(t, err)
	require.NotEqual(t, lost, holds)
	require.NoError(t, c.Lose(slices.Index(c.Nodes, lost)))
	report := examine(t, "cluster://"+holds.Addr(), o)
	f := one(t, report.of("slots"))
	assert.Equal(t, Fail, f.State)
	assert.Contains(t, f.Message, lost.Addr()+" does not answer, so names there cannot be used: dial tcp")
	assert.EqualValues(t, 1, report.Count[Fail], "%v", report.troubles())
	assert.Contains(t, one(t, report.of("rights")).Message, "the same on 1 more")
	assert.Contains(t, one(t, report.of("semaphores")).Message, "1 name, 2 permits, 1 waiting")
}

func TestReplicasThatAreBehindAreWarnedOf(t *testing.T) {
	t.Parallel()
	const good = "ip=10.0.0.1,port=6379,state=online,offset=10,lag=1"
	for info, want := range map[string]State{
		"connected_slaves:0":                 OK,
		"connected_slaves:1\nslave0:" + good: OK,
		"connected_slaves:2\nslave0:" + good + "\nslave1:ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0": Warn,
		"connected_slaves:1\nslave0:ip=10.0.0.2,port=6379,state=online,offset=10,lag=60":                         Warn,
		"connected_slaves:1\nslave0:ip=10.0.0.2,port=6379,state=online":                                          Warn,
	} {
		assert.Equal(t, want, replicas(fields(info)).State, info)
	}
	assert.Contains(t, replicas(fields("connected_slaves:1\nslave0:"+good)).Message, "can be up to 1")
}

func TestEvictionPoliciesThatMayDropSemaphoresAreFound(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	for _, c := range []struct {
		policy, most string
		want         State
	}{
		{"noeviction", "0", OK},
		{"noeviction", "100mb", OK},
		{"allkeys-lru", "100mb", Fail},
		{"allkeys-random", "100mb", Fail},
		{"volatile-ttl", "100mb", Fail},
		{"volatile-lfu", "100mb", Fail},
		{"allkeys-lru", "0", Warn},
	} {
		require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory", c.most).Err())
		require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory-policy", c.policy).Err())
		f := one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "eviction"))
		assert.Equal(t, c.want, f.State, "%v: %s", c, f.Message)
		assert.Equal(t, c.want == OK, f.Advice == "")
	}
}

func TestMemoryThatIsNearlyFullIsFound(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	for most, want := range map[string]State{"0": OK, "1gb": OK, "1000": Fail} {
		require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory", most).Err())
		assert.Equal(t, want, one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "memory")).State, most)
	}
	require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1000").Err())
	report := examine(t, "redis://"+s.Addr(), usual())
	assert.Contains(t, one(t, report.of("scripts")).Message, "OOM")
	for policy, full := range map[string]string{"noeviction": "nothing new is granted", "allkeys-lru": "keys are evicted"} {
		for used, state := range map[float64]State{100: Fail, 95: Warn} {
			f := judgeMemory(used, 100, policy)
			assert.Equal(t, state, f.State)
			assert.Contains(t, f.Message, full)
		}
		assert.Equal(t, OK, judgeMemory(85, 100, policy).State)
	}
}

func TestPersistenceIsReportedWithTheCostOfARestart(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	for _, c := range []struct{ name, value, says string }{
		{"save", "", "none: a restart costs"},
		{"save", "3600 1", "snapshots (save 3600 1)"},
		{"appendonly", "yes", "fsync everysec"},
		{"appendfsync", "always", "fsync always: a restart costs nothing"},
	} {
		require.NoError(t, s.Client().ConfigSet(t.Context(), c.name, c.value).Err())
		f := one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "persistence"))
		assert.Equal(t, OK, f.State)
		assert.Contains(t, f.Message, c.says)
	}
	assert.Contains(t, judgePersistence(map[string]string{"aof_enabled": "1"}, nil, time.Now()).Message, "does not report")
	assert.Contains(t, judgePersistence(map[string]string{"aof_enabled": "0"}, nil, time.Now()).Message, "does not report")
}

// Such a server reports the time of its start as that of the last save.
func TestASnapshotThatWasNeverMadeIsNotReported(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t, "--save", "3600", "1")
	f := one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "persistence"))
	assert.Contains(t, f.Message, "snapshots (save 3600 1), none since the server was started: a restart costs")
	require.NoError(t, s.AwaitAge(1)) // before Redis 7.0 a save in the second of the start looks like none
	require.NoError(t, s.Client().Save(t.Context()).Err())
	f = one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "persistence"))
	assert.Regexp(t, `^snapshots \(save 3600 1\), the last \S+ ago: a restart costs`, f.Message)

	const runs = "\nserver_time_usec:1700000060900000\nuptime_in_seconds:60"
	for info, says := range map[string]string{
		"rdb_last_save_time:1700000000" + runs:              "none since", // before Redis 7.0
		"rdb_last_save_time:1699999999" + runs:              "none since", // it was starting
		"rdb_last_save_time:1700000001" + runs:              "the last ",  // by SAVE, too
		"rdb_saves:0\nrdb_last_save_time:1700000001" + runs: "none since",
		"rdb_saves:1\nrdb_last_save_time:1700000000" + runs: "the last ",
	} {
		assert.Contains(t, judgePersistence(fields(info), nil, time.Now()).Message, says, info)
	}
}

func TestASaveThatFailedIsAFailureAndSoIsWhatCannotBeGrantedThen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	s := redistest.NewServer(t, "--save", "3600", "1", "--dir", dir)
	require.NoError(t, os.Remove(dir))
	require.NoError(t, s.Client().BgSave(t.Context()).Err())
	require.Eventually(t, func() bool {
		return fields(s.Client().Info(t.Context(), "persistence").Val())["rdb_last_bgsave_status"] == "err"
	}, time.Minute, 10*time.Millisecond)
	report := examine(t, "redis://"+s.Addr(), usual())
	f := one(t, report.of("writes"))
	assert.Equal(t, Fail, f.State)
	assert.Contains(t, f.Message, "save failed, so the server refuses writes")
	assert.Contains(t, one(t, report.of("scripts")).Message, "MISCONF")

	// Each of two settings makes Redis accept writes all the same: that was a failure, too.
	for _, c := range []struct{ stop, save, says string }{
		{"no", "3600 1", "because stop-writes-on-bgsave-error is no"},
		{"yes", "", "because save is empty"},
	} {
		require.NoError(t, s.Client().ConfigSet(t.Context(), "stop-writes-on-bgsave-error", c.stop).Err())
		require.NoError(t, s.Client().ConfigSet(t.Context(), "save", c.save).Err())
		report := examine(t, "redis://"+s.Addr(), usual())
		f := one(t, report.of("writes"))
		assert.Equal(t, Warn, f.State)
		assert.Contains(t, f.Message, c.says)
		assert.NotEmpty(t, f.Advice)
		assert.Equal(t, OK, report.of("scripts")[0].State, "%v", report.troubles())
	}
}

func TestAFailedSaveIsAFailureWhereTheSettingsAreNotKnown(t *testing.T) {
	t.Parallel()
	info := map[string]string{"rdb_last_bgsave_status": "err"}
	for _, set := range []map[string]string{nil, {"save": "3600 1"}, {"stop-writes-on-bgsave-error": "yes"}} {
		f := judgeWrites(info, set)
		assert.Equal(t, Fail, f.State, set)
		assert.Contains(t, f.Message, "unless stop-writes-on-bgsave-error is no, or save is empty")
	}
}

func TestErrorsOfTheAppendOnlyFileAreFound(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]State{
		"aof_enabled:1\naof_last_write_status:err":     Fail,
		"aof_enabled:1\naof_last_bgrewrite_status:err": Warn,
		"aof_enabled:0\naof_last_write_status:err":     OK, // it was switched off, and the server accepts writes again
		"aof_enabled:0\naof_last_bgrewrite_status:err": OK,
		"aof_last_write_status:ok":                     OK,
	} {
		assert.Equal(t, want, judgeWrites(fields(info), nil).State, info)
	}
}

func TestALoadingServerIsTheLastFinding(t *testing.T) {
	t.Parallel()
	f := loading(fields("loading:1\nloading_loaded_perc:12.5"))
	assert.Equal(t, Fail, f.State)
	assert.Contains(t, f.Message, "12.5%")
	assert.True(t, f.final)
}

func TestSlowAnswersAreMeasuredAgainstTheTTL(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.SharedServer(t).Addr())
	proxy.Delay(20 * time.Millisecond)
	o := usual()
	f := one(t, meet(t, "redis://"+proxy.Addr(), o).runs(t, "ping"))
	assert.Equal(t, OK, f.State)
	assert.GreaterOrEqual(t, f.Details["median_ms"], 20.0)
	o.TTL = 100 * time.Millisecond
	p := meet(t, "redis://"+proxy.Addr(), o)
	f = one(t, p.runs(t, "ping"))
	assert.Equal(t, Warn, f.State)
	assert.Contains(t, f.Advice, "a TTL of")
	assert.Equal(t, OK, one(t, p.runs(t, "clock")).State)
}

func TestClocksThatAreApartAreWarnedOfOnlyWhereTheyCertainlyAre(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead, within time.Duration
		want          State
		says          string
	}{
		{0, time.Millisecond, OK, "as on this machine"},
		{900 * time.Millisecond, time.Millisecond, OK, "ahead of"},
		{-5 * time.Second, time.Millisecond, Warn, "5s behind this machine"},
		{5 * time.Second, time.Millisecond, Warn, "5s ahead of this machine"},
		{5 * time.Second, 6 * time.Second, OK, ""},
	} {
		f := judgeClock(c.ahead, c.within)
		assert.Equal(t, c.want, f.State, c)
		assert.Contains(t, f.Message, c.says)
	}
}

func TestACommandThatTookLongIsFoundAndItsArgumentsAreNotShown(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	require.NoError(t, s.Client().Eval(t.Context(), "local secret; for i = 1, 20000000 do end return 1", nil).Err())
	o := usual()
	o.TTL = 100 * time.Millisecond
	f := one(t, meet(t, "redis://"+s.Addr(), o).runs(t, "slow"))
	assert.Equal(t, Warn, f.State)
	assert.Contains(t, f.Message, `"EVAL"`)
	assert.NotContains(t, f.Message, "secret")
}

// PING had said it, and then INFO that this user lacks a right.
func TestWhatTheFirstAnswerSaidIsReportedToAUserWhoMayNotReadInfo(t *testing.T) {
	t.Parallel()
	const noInfo = "NOPERM this user has no permissions to run the 'info' command"
	for name, test := range map[string]struct {
		check  nodeCheck
		answer error
		says   string
	}{
		"loading": {loadingOf, testclient.Reply("LOADING Redis is loading the dataset in memory"), "is loading its data"},
		"kind":    {modeOf, fmt.Errorf("127.0.0.1:1 is a node of a cluster: %w", dial.ErrKind), "is a node of a cluster"},
	} {
		f := test.check(t.Context(), &target{answer: test.answer}, &node{err: testclient.Reply(noInfo), answer: test.answer})
		assert.Equal(t, Fail, f.State, name)
		assert.True(t, f.final, name)
		assert.Contains(t, f.Message, test.says, name)
		assert.Equal(t, Skip, test.check(t.Context(), new(target), &node{err: testclient.Reply(noInfo)}).State, name)
	}
}

// It was called full, while everything was granted.
func TestMemoryThatRedisDoesNotCountIsNotCounted(t *testing.T) {
	t.Parallel()
	info := fields("used_memory:60000000\nmaxmemory:30000000\nmaxmemory_policy:noeviction")
	assert.Equal(t, Fail, memory(info).State)
	info["mem_not_counted_for_evict"] = "55000000"
	assert.Equal(t, OK, memory(info).State)
}

// Without its log, there was "no slow command".
func TestWhereTheSlowLogLacksSlowCommandsTheyAreNotChecked(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	for _, c := range []struct {
		from, length string
		want         State
		says         string
	}{
		{"10000", "128", OK, "as far as its log reaches back"}, // to the start of the server
		{"0", "128", OK, "as far as its log reaches back"},
		{"0", "3", OK, "as far as its log reaches back"},
		{"-1", "128", Skip, "slowlog-log-slower-than is -1"},
		{"360000000", "128", OK, ""}, // a tenth of the TTL
		{"360000001", "128", Skip, "only what takes 360000001 us or more"},
		{"10000", "0", Skip, "slowlog-max-len is 0"},
	} {
		require.NoError(t, s.Client().ConfigSet(t.Context(), "slowlog-log-slower-than", c.from).Err())
		require.NoError(t, s.Client().ConfigSet(t.Context(), "slowlog-max-len", c.length).Err())
		f := one(t, meet(t, "redis://"+s.Addr(), usual()).runs(t, "slow"))
		assert.Equal(t, c.want, f.State, f.Message)
		assert.Contains(t, f.Message, c.says)
	}
	assert.Empty(t, hiddenSlow(nil, time.Second), "this user may not ask for it")
}

// It was called an hour, however short.
func TestASlowLogReachesBackToTheOldestEntryIfThereWereOlderOnes(t *testing.T) {
	t.Parallel()
	entries := func(newest int64) (all []redis.SlowLog) {
		for i := range int64(3) {
			all = append(all, redis.SlowLog{ID: newest - i, Time: time.Now().Add(-time.Duration(i+1) * time.Minute)})
		}
		return all
	}
	n := &node{info: map[string]string{"uptime_in_seconds": "7200"}}
	assert.Greater(t, n.logReaches(nil), slowSince)
	assert.Greater(t, n.logReaches(entries(2)), slowSince)
	assert.Less(t, n.logReaches(entries(3)), slowSince)
	assert.Greater(t, new(node).logReaches(entries(2)), slowSince, "this user may not ask for the age of the server")
	n.info["uptime_in_seconds"] = "60"
	assert.Less(t, n.logReaches(entries(2)), slowSince)
}

func TestTheGracePeriodOfAYoungServerIsReported(t *testing.T) {
	t.Parallel()
	assert.NotContains(t, judgeTrial(trial{}).Message, "grace")
	f := judgeTrial(trial{grace: true, first: 1200 * time.Millisecond})
	assert.Equal(t, OK, f.State)
	assert.Contains(t, f.Message, "the first took 1.2s")
	assert.Contains(t, f.Message, "grace period")
	assert.Equal(t, Fail, judgeTrial(trial{err: fairsem.ErrUnavailable}).State)
	assert.Equal(t, Fail, judgeTrial(trial{err: errors.New("NOREPLICAS")}).State)
	for silent, want := range map[bool]string{false: "the checks optional and channel above", true: "see the check slots"} {
		f := judgeWake(trial{by: fairsem.GrantedByRefresh}, silent)
		assert.Equal(t, Warn, f.State)
		assert.Contains(t, f.Advice, want)
	}
}

func TestAPrimaryWithoutSlotsIsLeftOut(t *testing.T) {
	t.Parallel()
	p := meet(t, "cluster://"+redistest.SharedCluster(t).Nodes[0].Addr(), usual())
	require.Len(t, p.nodes, 3)
	p.nodes = append(p.nodes, &node{addr: "empty:1"})
	for _, f := range p.runs(t, "scripts") {
		assert.Equal(t, OK, f.State, f.Message)
	}
	p.nodes = p.nodes[3:]
	assert.Equal(t, Fail, one(t, p.runs(t, "scripts")).State)
}

func TestInAClusterFindingsNameTheirServer(t *testing.T) {
	t.Parallel()
	p := &target{nodes: []*node{{addr: "a"}, {addr: "b"}, {addr: "c"}, {addr: "d"}}}
	all := each(func(_ context.Context, _ *target, n *node) Finding {
		if n.addr == "b" || n.addr == "c" {
			return fail("broken", "mend it")
		}
		return ok("fine").with("n", 1)
	})(t.Context(), p)
	require.Len(t, all, 3)
	assert.Equal(t, "b: broken", all[0].Message)
	assert.Equal(t, "c: broken", all[1].Message)
	assert.Equal(t, "a: fine; the same on 1 more", all[2].Message)
	assert.Len(t, all[2].Details, 4, "each tells its own")
}

// The advice is to look for the error there.
func TestErrorsOfAServerThatGrantsNothingAreInTheDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "failure-modes.md"))
	require.NoError(t, err)
	for word, setting := range map[string][2]string{
		"OOM":        {"maxmemory", "1"},
		"NOREPLICAS": {"min-replicas-to-write", "1"},
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := redistest.NewServer(t)
			p := meet(t, "redis://"+s.Addr(), usual())
			require.NoError(t, s.Client().ConfigSet(t.Context(), setting[0], setting[1]).Err())
			f := p.runs(t, "scripts")[0]
			assert.Contains(t, f.Message, " "+word+" ")
			assert.Contains(t, f.Advice, "docs/failure-modes.md")
			assert.Contains(t, string(docs), word)
		})
	}
}
