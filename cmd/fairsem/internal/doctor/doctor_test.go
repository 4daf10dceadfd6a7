package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as the command does
	os.Exit(redistest.Main(m))
}

// usual are options with a prefix of the test's own.
func usual() Options { return Options{Prefix: "doctor-" + uuid.NewString(), TTL: time.Hour} }

// examine is the whole examination.
func examine(t *testing.T, url string, o Options) Report {
	t.Helper()
	server, err := dial.Parse(url)
	require.NoError(t, err)
	var r Report
	require.NoError(t, Examine(t.Context(), server, o, r.Add))
	return r
}

// meet is a patient of whom single checks can be run.
func meet(t *testing.T, url string, o Options) *target {
	t.Helper()
	server, err := dial.Parse(url)
	require.NoError(t, err)
	p := &target{Options: o, server: server, rdb: server.Client()}
	t.Cleanup(func() { _ = p.rdb.Close() })
	f, met := p.connect(t.Context())
	require.True(t, met, f.Message)
	return p
}

// runs a single check.
func (p *target) runs(t *testing.T, name string) []Finding {
	t.Helper()
	i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
	require.GreaterOrEqual(t, i, 0)
	return p.bounded(t.Context(), checks[i])
}

// one is the only finding of a check.
func one(t *testing.T, all []Finding) Finding {
	t.Helper()
	require.Len(t, all, 1, "%v", all)
	return all[0]
}

func (r Report) of(check string) (all []Finding) {
	for _, f := range r.Checks {
		if f.Check == check {
			all = append(all, f)
		}
	}
	return all
}

// troubles are all findings but those that are well.
func (r Report) troubles() (all []string) {
	for _, f := range r.Checks {
		if f.State != OK {
			all = append(all, fmt.Sprintf("%s %s: %s", f.State, f.Check, f.Message))
		}
	}
	return all
}

// everyKey lists the keys of a prefix, but for the labels of others, which come when they like.
func everyKey(t *testing.T, rdb redis.UniversalClient, prefix string) (keys []string) {
	t.Helper()
	list := func(ctx context.Context, n *redis.Client) error {
		some, err := n.Keys(ctx, "*").Result()
		for _, key := range some {
			ours := strings.HasPrefix(key, prefix+":")
			if ours && (!strings.HasPrefix(key, prefix+":client:") || n.Get(ctx, key).Val() == doctorLabel) {
				keys = append(keys, key)
			}
		}
		return err
	}
	if cluster, is := rdb.(*redis.ClusterClient); is {
		for _, n := range nodes(t, cluster) {
			require.NoError(t, list(t.Context(), n))
		}
	} else {
		require.NoError(t, list(t.Context(), rdb.(*redis.Client)))
	}
	slices.Sort(keys)
	return keys
}

func nodes(t *testing.T, cluster *redis.ClusterClient) (all []*redis.Client) {
	t.Helper()
	p := &target{rdb: cluster}
	require.NoError(t, p.primaries(t.Context(), cluster))
	for _, n := range p.nodes {
		all = append(all, n.rdb)
	}
	return all
}

// occupy holds 4 of 5 units of a name, as permits of 1 and of 3, and has a call wait for 2. It returns
// the ids of the permits. Nothing is renewed before the test is over.
func occupy(t *testing.T, rdb redis.UniversalClient, prefix, name string) (light, heavy string) {
	t.Helper()
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: prefix, TTL: time.Hour, Grace: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // some tests break the permits to be released
	sem, err := client.Semaphore(name, 5)
	require.NoError(t, err)
	one, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	three, err := sem.Acquire(t.Context(), 3)
	require.NoError(t, err)
	go func() { _, _ = sem.Acquire(t.Context(), 2) }() // ends with the test, or with the client
	require.Eventually(t, func() bool {
		return rdb.ZCard(t.Context(), protocol.Keyspace{Prefix: prefix}.Key(name, protocol.Queue)).Val() == 1
	}, time.Minute, time.Millisecond)
	return one.ID(), three.ID()
}

func sentinelURL(s *redistest.Sentinel) string {
	addrs := s.Addrs()
	return "sentinel://" + addrs[0] + "?master_name=" + redistest.PrimaryName + "&addr=" + strings.Join(addrs[1:], "&addr=")
}

func TestOnHealthyServersAllIsWellAndNoKeyIsLeft(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(t *testing.T) (url string, rdb redis.UniversalClient){
		"single": func(t *testing.T) (string, redis.UniversalClient) {
			s := redistest.SharedServer(t)
			return "redis://" + s.Addr(), s.Client()
		},
		"cluster": func(t *testing.T) (string, redis.UniversalClient) {
			c := redistest.SharedCluster(t)
			return "cluster://" + c.Nodes[0].Addr(), c.Client()
		},
		"sentinel": func(t *testing.T) (string, redis.UniversalClient) {
			s := redistest.SharedSentinel(t)
			return sentinelURL(s), s.Client()
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url, rdb := start(t)
			o := usual()
			for i := range 5 {
				occupyShared(t, rdb, o.Prefix, fmt.Sprint("name ", i))
			}
			before := everyKey(t, rdb, o.Prefix)
			require.Len(t, before, 5*(len(protocol.Kinds)-1), "all but the numbers")

			report := examine(t, url, o)
			assert.Empty(t, report.troubles())
			assert.Equal(t, before, everyKey(t, rdb, o.Prefix))

			for _, c := range checks {
				if c.name != "slots" || kind == "cluster" {
					assert.NotEmpty(t, report.of(c.name), c.name)
				}
			}
			assert.Equal(t, "5 names, 10 permits, 5 waiting: all are consistent", one(t, report.of("semaphores")).Message)
			mode := map[string]string{"single": "standalone", "cluster": "cluster; the same on 2 more", "sentinel": "sentinel"}[kind]
			assert.Contains(t, one(t, report.of("mode")).Message, mode)
			assert.Equal(t, "message", one(t, report.of("wake")).Details["by"])
		})
	}
}

func TestOnlyNamedSemaphoresAreCheckedAndUnknownNamesAreFailures(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	o := usual()
	occupyShared(t, s.Client(), o.Prefix, "here")
	occupyShared(t, s.Client(), o.Prefix, "beside")
	o.Names = []string{"here", "here"}
	p := meet(t, "redis://"+s.Addr(), o)
	assert.Equal(t, "1 name, 2 permits, 1 waiting: all are consistent", one(t, p.runs(t, "semaphores")).Message)

	p.Names = []string{"elsewhere"}
	all := p.runs(t, "semaphores")
	require.Len(t, all, 2)
	assert.Equal(t, Fail, all[1].State)
	assert.Contains(t, all[1].Message, `"elsewhere": Redis knows no such name`)
}

func TestAnAddressThatLeadsToTheWrongKindOfServerIsAFailureWithTheRightForm(t *testing.T) {
	t.Parallel()
	sentinel := redistest.SharedSentinel(t)
	replicas, err := sentinel.Replicas()
	require.NoError(t, err)
	for what, c := range map[string]struct{ url, check, message, advice string }{
		"a node of a cluster":       {"redis://" + redistest.SharedCluster(t).Nodes[0].Addr(), "mode", "one node of a cluster", "cluster://"},
		"a cluster that is none":    {"cluster://" + redistest.SharedServer(t).Addr(), "mode", "not part of a cluster", "redis://"},
		"a replica":                 {"redis://" + replicas[0].Addr(), "role", "this is a replica of 127.0.0.1:", "sentinel://"},
		"a sentinel":                {"redis://" + sentinel.Addrs()[0], "mode", "this is a sentinel", "sentinel://"},
		"a replica in a cluster":    {"redis://" + redistest.SharedCluster(t).Nodes[4].Addr(), "mode", "one node of a cluster", "cluster://"},
		"a number too high":         {"redis://" + redistest.SharedServer(t).Addr() + "/99", "mode", "no database of the number", "another number"},
		"any node, to find them by": {"cluster://" + redistest.SharedCluster(t).Nodes[4].Addr(), "", "", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			report := examine(t, c.url, usual())
			if c.check == "" {
				assert.Empty(t, report.troubles())
				return
			}
			assert.EqualValues(t, 1, report.Count[Fail], "%v", report.troubles())
			f := one(t, report.of(c.check))
			assert.Equal(t, Fail, f.State)
			assert.Contains(t, f.Message, c.message)
			assert.Contains(t, f.Advice, c.advice)
			assert.Empty(t, report.of("scripts"), "nothing is tried on it")
		})
	}
}

func TestAServerThatAScriptKeepsBusyIsAFailureAndNothingMoreIsAsked(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t, "--lua-time-limit", "1")
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "uninformed", "on", ">pw", "~*", "&*", "+@all", "-info").Err())
	ended := make(chan struct{})
	go func() { // ends with the kill below
		defer close(ended)
		_ = s.Client().Eval(context.Background(), "while true do end", nil).Err()
	}()
	require.Eventually(t, func() bool {
		err := s.Client().Ping(t.Context()).Err()
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}, time.Minute, 5*time.Millisecond)
	for _, user := range []string{"", "uninformed:pw@"} { // the latter is told of the right that it lacks
		report := examine(t, "redis://"+user+s.Addr(), usual())
		f := one(t, report.of("busy"))
		assert.Equal(t, Fail, f.State)
		assert.Contains(t, f.Advice, "SCRIPT KILL")
		assert.Contains(t, one(t, report.of("others")).Message, "scripts")
	}
	require.NoError(t, s.Kill())
	<-ended
}

func TestAServerThatDiesMeanwhileIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	server, err := dial.Parse("redis://" + s.Addr())
	require.NoError(t, err)
	var r Report
	require.NoError(t, Examine(t.Context(), server, usual(), func(f Finding) {
		r.Add(f)
		if f.Check == "writes" {
			assert.NoError(t, s.Kill())
		}
	}))
	assert.EqualValues(t, 1, r.Count[Fail])
	assert.Contains(t, one(t, r.of("ping")).Message, "no answer any more")
	assert.Contains(t, one(t, r.of("others")).Message, "semaphores")
}

func TestWithoutAServerThereIsAnErrorAndNoFinding(t *testing.T) {
	t.Parallel()
	server, err := dial.Parse("redis://user:geheim@127.0.0.1:1")
	require.NoError(t, err)
	err = Examine(t.Context(), server, usual(), func(f Finding) { assert.Fail(t, "a finding", "%v", f) })
	require.ErrorContains(t, err, "127.0.0.1:1")
	assert.NotContains(t, err.Error(), "geheim")
}

func TestAWrongPasswordIsAnErrorThatDoesNotShowIt(t *testing.T) {
	t.Parallel()
	s := redistest.SharedSecure(t)
	server, err := dial.Parse("rediss://default:geheim@" + s.Addr() + "?skip_verify=true")
	require.NoError(t, err)
	err = Examine(t.Context(), server, usual(), func(f Finding) { assert.Fail(t, "a finding", "%v", f) })
	require.ErrorContains(t, err, "WRONGPASS")
	assert.NotContains(t, err.Error(), "geheim")
}

func TestNamesThatCanNeverWorkAreAnErrorBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	server, err := dial.Parse("redis://127.0.0.1:1")
	require.NoError(t, err)
	for _, o := range []Options{
		{Prefix: "p", TTL: time.Second, Names: []string{"good", ""}},
		{Prefix: "p", TTL: time.Second, Names: []string{"}"}},
		{Prefix: "{p", TTL: time.Second},
		{Prefix: "p", TTL: time.Millisecond},
	} {
		require.ErrorIs(t, Examine(t.Context(), server, o, nil), fairsem.ErrInvalid)
	}
}

func TestAnExaminationEndsWithItsContextAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	o := usual()
	server, err := dial.Parse("redis://" + s.Addr())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := fmt.Errorf("stopped")
	err = Examine(ctx, server, o, func(f Finding) {
		if f.Check == "channel" { // scripts are next
			cancel(stop)
		}
	})
	require.ErrorIs(t, err, stop)
	assert.Empty(t, everyKey(t, s.Client(), o.Prefix))
}

func TestWhereThereIsNoSemaphoreOtherPrefixesAreTold(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	p := meet(t, "redis://"+s.Addr(), Options{Prefix: "fairsem", TTL: time.Hour})
	assert.Equal(t, "0 names, 0 permits, 0 waiting", one(t, p.runs(t, "semaphores")).Message)
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: "staging"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, client.Close()) }()
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	_, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, names := range [][]string{nil, {"n"}} {
		p.Names = names
		f := p.runs(t, "semaphores")[0]
		assert.Equal(t, OK, f.State)
		assert.Equal(t, `0 names, 0 permits, 0 waiting with the prefix "fairsem"; there are semaphores with the prefix "staging": select it with --prefix`, f.Message)
		assert.Equal(t, []string{"staging"}, f.Details["other_prefixes"])
	}
}

// It was reported with an empty list where the last check failed.
func TestOtherChecksAreReportedOnlyIfThereAreAny(t *testing.T) {
	t.Parallel()
	assert.Empty(t, others(nil))
	assert.Equal(t, "not checked, because of the failure above: a, b", one(t, others([]check{{name: "a"}, {name: "b"}})).Message)
}
