package redistest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSecureServerSpeaksNothingButTLS(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	require.NoError(t, s.Client().Ping(t.Context()).Err())
	require.Error(t, impatient(t, s.Addr()).Ping(t.Context()).Err())
	require.Equal(t, map[string]string{"port": "0"}, s.Client().ConfigGet(t.Context(), "port").Val())
}

func TestSecureServerLetsNobodyInWithoutItsPassword(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	for _, password := range []string{"", "wrong"} {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: s.tls, Password: password, MaxRetries: -1})
		require.Error(t, c.Ping(t.Context()).Err())
		require.NoError(t, c.Close())
	}
}

// A test that passes although nobody looked at the certificate would prove nothing.
func TestSecureServersTrustOfOneIsNotTrustOfAnother(t *testing.T) {
	t.Parallel()
	s, other := NewSecure(t), NewSecure(t)
	for _, trust := range []*tls.Config{other.tls, {}} {
		_, err := tls.Dial("tcp", s.Addr(), trust)
		var unknown *tls.CertificateVerificationError
		require.ErrorAs(t, err, &unknown)
	}
}

func TestSecureServerIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	require.NoError(t, s.Restart())
	require.Equal(t, "PONG", s.ask("PING").Val())
	require.NoError(t, s.Pause())
	require.NoError(t, s.Resume())
}

// A binary that does not know TLS says so in its log, as this one does of a directive that it does not know.
func TestServerWithoutTLSIsAFailureAlsoOutsideCI(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "redis-server")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho 'Bad directive: tls-port' >&2\nexit 1\n"), 0o700))
	t.Setenv("FAIRSEM_REDIS_SERVER", binary)
	t.Setenv("CI", "")
	v := judge(func(t testing.TB) { t.Helper(); NewSecure(t) })
	require.True(t, v.failed)
	require.False(t, v.skipped)
}
