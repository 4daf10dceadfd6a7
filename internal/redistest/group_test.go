package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	ctx := t.Context()
	seen := map[int64]bool{}
	pipe, cleanup := c.Client().Pipeline(), c.Client().Pipeline()
	for i := 0; len(seen) < slots; i++ {
		key := keyNumber(i)
		if slot := slotOf(key); !seen[slot] {
			seen[slot] = true
			pipe.Set(ctx, key, 1, 0)
			cleanup.Del(ctx, key)
		}
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	_, err = cleanup.Exec(ctx)
	require.NoError(t, err)
}

func TestClusterHasThreePrimariesAndOneReplicaEach(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	require.Equal(t, c.Nodes[:primaries], c.Primaries())
	for _, m := range c.Primaries() {
		info := m.Client().Info(t.Context(), "replication").Val()
		require.Equal(t, "1", field(info, "connected_slaves"))
	}
}

func TestOwnerOfAKeyIsTheNodeThatHoldsIt(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	owner, err := c.Owner("{owner}k")
	require.NoError(t, err)
	require.NoError(t, owner.Client().Set(t.Context(), "{owner}k", 1, 0).Err(), "no MOVED")
}

func TestClusterSurvivesTheLossOfAPrimary(t *testing.T) {
	t.Parallel()
	c := NewCluster(t)
	ctx := t.Context()
	old, err := c.Owner("k")
	require.NoError(t, err)
	require.NoError(t, old.Kill())
	require.Eventually(t, func() bool {
		now, err := c.Owner("k")
		return err == nil && now != old
	}, groupTimeout, pollEvery)
	require.Eventually(t, func() bool {
		// The client does not reload the topology when a node refuses connections.
		c.Client().ReloadState(ctx)
		return c.Client().Set(ctx, "k", 2, 0).Err() == nil
	}, groupTimeout, pollEvery)
	require.NoError(t, old.Restart())
	require.Eventually(t, old.inSync, groupTimeout, pollEvery, "the old primary returns as a replica")
}

// StartCluster once waited a minute for a cluster that could never become ready: one of its ports had belonged to a node of
// another cluster.
func TestClusterThatAForeignNodeJoinedIsRejected(t *testing.T) {
	t.Parallel()
	c := NewCluster(t)
	foreign, err := startAll(1, setup{config: clusterNode, busPort: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, StopAll(foreign)) })
	host, port, _ := strings.Cut(c.Nodes[0].Addr(), ":")
	require.NoError(t, foreign[0].do("CLUSTER", "MEET", host, port).Err())
	require.Eventually(t, func() bool { return errors.Is(c.ready(), errForeignNode) }, groupTimeout, pollEvery)
}

func TestSentinelsKnowThePrimaryAndAllReplicas(t *testing.T) {
	t.Parallel()
	s := SharedSentinel(t)
	primary, err := s.Primary()
	require.NoError(t, err)
	followers, err := s.Replicas()
	require.NoError(t, err)
	require.Len(t, followers, replicas)
	require.NotContains(t, followers, primary)
	require.NoError(t, s.Client().Set(t.Context(), "k", 1, 0).Err())
	require.EqualValues(t, 1, primary.Client().Exists(t.Context(), "k").Val())
}

func TestSentinelClientFollowsAPlannedFailover(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t)
	old, err := s.Primary()
	require.NoError(t, err)
	require.NoError(t, s.Client().Ping(t.Context()).Err())
	require.NoError(t, s.Failover())
	requireFollows(t, s, old)
}

func TestSentinelClientFollowsAKilledPrimary(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t)
	old, err := s.Primary()
	require.NoError(t, err)
	require.NoError(t, s.Client().Ping(t.Context()).Err())
	require.NoError(t, old.Kill())
	require.NoError(t, s.AwaitFailover(old))
	requireFollows(t, s, old)
}

// requireFollows requires that every sentinel reports another primary than old, and that the group's client writes to it.
func requireFollows(t *testing.T, s *Sentinel, old *Server) {
	t.Helper()
	now, err := s.Primary()
	require.NoError(t, err)
	require.NotEqual(t, old.Addr(), now.Addr())
	for _, sentinel := range s.Sentinels {
		require.Equal(t, now.Addr(), sentinel.primaryAddr())
	}
	require.Eventually(t, func() bool {
		if s.Client().Set(t.Context(), "followed", 1, 0).Err() != nil {
			return false
		}
		return now.do("EXISTS", "followed").Val() == int64(1)
	}, groupTimeout, pollEvery)
}

// When one server of a group fails to start, others already run.
func TestFailedGroupStartLeavesNoServer(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("FAIRSEM_REDIS_SERVER", failsOnce(t))
	servers, err := StartAll(3)
	require.ErrorContains(t, err, "the first one fails")
	require.Empty(t, servers)
	left, err := filepath.Glob(filepath.Join(temp, "fairsem-redis-*"))
	require.NoError(t, err)
	require.Empty(t, left, "the folder of a server is removed with it")
}

// failsOnce returns a server binary that fails when it is started for the first time. Which server of a group that is depends on
// the scheduler.
func failsOnce(t *testing.T) string {
	t.Helper()
	binary, err := Binary()
	require.NoError(t, err)
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nmkdir %s/started && echo the first one fails && exit 1\nexec %s \"$@\"\n", dir, binary)
	path := filepath.Join(dir, "server")
	require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

func keyNumber(i int) string { return "every-slot:" + strconv.Itoa(i) }

// slotOf returns the slot of a key: its CRC16 (XMODEM), modulo the number of slots, as the cluster specification defines it.
func slotOf(key string) int64 {
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int64(crc % slots)
}
