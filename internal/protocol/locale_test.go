package protocol

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// danish returns a client of a server whose Lua has "aa" after "z", as Danish dictionaries do. Lua compares text as the locale of the
// server does, and Redis orders members by their bytes.
func danish(t *testing.T) *redis.Client {
	t.Helper()
	locales := t.TempDir()
	out, err := exec.Command(redistest.Program(t, "localedef"), "-i", "da_DK", "-f", "UTF-8", filepath.Join(locales, "da_DK.UTF-8")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	server, err := redistest.StartWith([]string{"LOCPATH=" + locales, "LC_ALL=da_DK.UTF-8"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	require.NoError(t, server.AwaitAge(2))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	require.ErrorIs(t, rdb.Eval(background, "return 'aa' < 'ab'", nil).Err(), redis.Nil, "it is true: the server has not that locale")
	return rdb
}

// grantAtAA has two calls granted a unit each of a limit, with tokens whose hexadecimal digits end with aaff and ab00.
func grantAtAA(t *testing.T, rdb *redis.Client, limit int64, asked []*ticket) *lab {
	t.Helper()
	for range 100 { // until no call comes so late that the clock has passed the tokens
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		next := (l.now().UnixMicro()+700_000)&^0xffff + 0x1_aaff // less than a second ahead
		require.NoError(t, rdb.Set(background, l.keys[3], next-1, time.Minute).Err())
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(l.space.About("name"), naming(limit, TenantSpec{Name: "a", Share: 1}), p, asked), 2)
		if scores(l.snapshot().owner)[asked[0].id] == float64(next) {
			return l
		}
	}
	require.Fail(t, "no call came in time")
	return nil
}

func TestTenantsHaveTheirTurnsWhateverTheLocaleOfTheServerIs(t *testing.T) {
	t.Parallel()
	rdb := danish(t)
	t.Run("of two that wait", func(t *testing.T) { t.Parallel(); takeTurns(t, rdb) })
	t.Run("of one that waits and one that comes", func(t *testing.T) { t.Parallel(); comesBeforeOneThatWaits(t, rdb) })
	t.Run("after the newest grant of each", func(t *testing.T) { t.Parallel(); newestGrantCounts(t, rdb) })
}

func takeTurns(t *testing.T, rdb *redis.Client) {
	t.Helper()
	asked := []*ticket{{"me:1:a", 1}, {"me:2:b", 1}}
	for kind, release := range map[string]func(about CallPrefix) Call{
		"plain": func(about CallPrefix) Call { return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, asked) },
		"full":  func(about CallPrefix) Call { return Release(about, known(2), 0, false, asked) },
	} {
		l := grantAtAA(t, rdb, 2, asked)
		about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(about, known(2), p, []*ticket{{"me:3:b", 1}, {"me:4:a", 1}}), 2)
		got := l.run(release(about))
		require.NoError(t, got.err)
		tokens := scores(l.snapshot().owner)
		require.Len(t, tokens, 2, kind)
		assert.Less(t, tokens["me:4:a"], tokens["me:3:b"], "%s: tenant a was granted something longer ago", kind)
		l.checkTenants(l.snapshot())
	}
}

// The units that b waits for do not fit, and a comes before b.
func comesBeforeOneThatWaits(t *testing.T, rdb *redis.Client) {
	t.Helper()
	l := grantAtAA(t, rdb, 3, []*ticket{{"me:1:a", 1}, {"me:2:b", 1}})
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), known(3), p, []*ticket{{"me:3:b", 2}}), 1)
	p.Wait = false
	r := l.ask(Acquire(l.space.About("name"), known(3), p, []*ticket{{"me:4:a", 1}}), 1)
	assert.Equal(t, Held, r.Results[0].State)
}

func newestGrantCounts(t *testing.T, rdb *redis.Client) {
	t.Helper()
	l := grantAtAA(t, rdb, 2, []*ticket{{"me:1:a", 1}, {"me:2:a", 1}})
	newest := int64(scores(l.snapshot().owner)["me:2:a"])
	assert.Regexp(t, fmt.Sprintf(" %014x1$", newest), l.rdb.HGet(background, l.keys[8], ":a").Val())
}
