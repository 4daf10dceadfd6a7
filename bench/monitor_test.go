package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMonitorDistinguishesClientsFromScripts(t *testing.T) {
	process := redistest.NewServer(t)
	s := &server{process: process, rdb: process.Client()}
	const script = `redis.call("SET", KEYS[1], ARGV[1]) return redis.call("PUBLISH", "news", "a \"quoted\" word")`
	require.NoError(t, s.rdb.Ping(t.Context()).Err(), "the commands of a new connection are not counted")

	m, err := s.startMonitor()
	require.NoError(t, err)
	require.NoError(t, s.rdb.Eval(t.Context(), script, []string{"key"}, "value] \"get\"").Err())
	require.NoError(t, s.rdb.Get(t.Context(), "key").Err())
	seen, err := m.stop()

	require.NoError(t, err)
	assert.Equal(t, map[string]int{"EVAL": 1, "GET": 1}, seen.Commands)
	assert.Equal(t, map[string]int{"news": 1}, seen.Published)
	assert.Equal(t, 2, seen.commands())
}

func TestMeterMeasuresTheCPUOfRedis(t *testing.T) {
	s, err := startServer(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.stop()) })
	m, err := s.meter(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.rdb.Eval(t.Context(), "for i = 1, 3000000 do end return 1", nil).Err())
	cpu, err := m.cpu(t.Context())
	require.NoError(t, err)
	assert.Greater(t, cpu, 0.001)
	assert.Positive(t, s.pid)
}
