//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// place is a server that a URL names, and a client of the same.
type place struct {
	url string
	env []string
	rdb redis.UniversalClient
}

func (p place) command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "fairsem", args...)
	cmd.Env = append(append(os.Environ(), p.env...), "REDIS_URL="+p.url)
	return cmd
}

// places starts one of each kind.
var places = map[string]func(t *testing.T) place{
	"unix": func(t *testing.T) place {
		socket := filepath.Join(t.TempDir(), "redis.sock")
		return place{url: "unix://" + socket, rdb: redistest.NewServer(t, "--unixsocket", socket).Client()}
	},
	"tls": func(t *testing.T) place {
		s := redistest.NewSecure(t)
		password := s.Client().Options().Password
		return place{"rediss://:" + password + "@" + s.Addr(), []string{"SSL_CERT_FILE=" + s.CAFile()}, s.Client()}
	},
	"cluster": func(t *testing.T) place {
		c := redistest.NewCluster(t)
		return place{url: "cluster://" + c.Nodes[0].Addr(), rdb: c.Client()}
	},
	"sentinel": func(t *testing.T) place {
		s := redistest.NewSentinel(t)
		return place{url: "sentinel://" + s.Addrs()[0] + "?master_name=" + redistest.PrimaryName, rdb: s.Client()}
	},
}

func TestRunWorksOnEveryKindOfServer(t *testing.T) {
	t.Parallel()
	for kind, start := range places {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			p.requireOneAfterAnother(t)
			p.requirePrefixesApart(t)
			p.requireNothingForEver(t)
		})
	}
}

// requireOneAfterAnother has one wait for another, and be granted when that ends.
func (p place) requireOneAfterAnother(t *testing.T) {
	t.Helper()
	client, err := fairsem.New(p.rdb, fairsem.Options{})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	s := &station{t: t, client: client}
	dir := t.TempDir()
	first, firstOut := p.begin(t, "run", "n", "--limit", "1", "-c", `echo "$FAIRSEM_TOKEN" >`+dir+`/first; until test -e `+dir+`/go; do sleep 0.01; done`)
	token := atoi(t, awaitFile(t, dir+"/first"))
	second, secondOut := p.begin(t, "run", "n", "--limit", "1", "-c", `echo "$FAIRSEM_TOKEN" >`+dir+`/second`)
	s.awaitState(1, 1)
	out, err := p.command(t, "run", "n", "--limit", "1", "-n", "--", "true").CombinedOutput()
	assert.Equal(t, exit.NotAcquired, exitCode(err), "%s", out)
	third, _ := p.begin(t, "run", "n", "--limit", "1", "--", "true")
	s.awaitState(1, 2)
	require.NoError(t, third.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(third.Wait()))
	s.awaitState(1, 1)
	assert.NoFileExists(t, dir+"/second")
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	assert.NoError(t, first.Wait(), firstOut)
	assert.NoError(t, second.Wait(), secondOut)
	assert.Greater(t, atoi(t, awaitFile(t, dir+"/second")), token)
	s.awaitState(0, 0)
}

func (p place) begin(t *testing.T, args ...string) (*exec.Cmd, *transcript.Transcript) {
	t.Helper()
	cmd, out := p.command(t, args...), &transcript.Transcript{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	return cmd, out
}

// requirePrefixesApart holds the same name with two prefixes at once.
func (p place) requirePrefixesApart(t *testing.T) {
	t.Helper()
	out, err := p.command(t, "run", "n", "--limit", "1", "--prefix", "here", "--pass-redis-url", "--", "fairsem", "run", "n", "--limit", "1", "--prefix", "there", "-n", "--", "echo", "both").CombinedOutput()
	assert.NoError(t, err, "%s", out)
	assert.Equal(t, "both\n", string(out))
	for _, prefix := range []string{"here", "there"} {
		n, err := p.rdb.Exists(t.Context(), protocol.Keyspace{Prefix: prefix}.Key("n", protocol.Counter)).Result()
		require.NoError(t, err)
		assert.EqualValues(t, 1, n, "what %s leaves behind for a while is its own", prefix)
	}
}

// requireNothingForEver checks that all keys of all primaries expire.
func (p place) requireNothingForEver(t *testing.T) {
	t.Helper()
	var seen atomic.Int64
	look := func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, "*").Result()
		for _, key := range keys {
			seen.Add(1)
			left, err := node.PTTL(ctx, key).Result()
			assert.NoError(t, err)
			assert.NotEqual(t, time.Duration(-1), left, "%s stays for ever", key)
		}
		return err
	}
	switch rdb := p.rdb.(type) {
	case *redis.ClusterClient:
		require.NoError(t, rdb.ForEachMaster(t.Context(), look))
	case *redis.Client:
		require.NoError(t, look(t.Context(), rdb))
	}
	assert.NotZero(t, seen.Load())
}
