package redistest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSecureServerAcceptsOnlyTLS(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	require.NoError(t, s.Client().Ping(t.Context()).Err())
	require.Error(t, once(t, s.Addr(), soon).Ping(t.Context()).Err())
	require.Equal(t, map[string]string{"port": "0"}, s.Client().ConfigGet(t.Context(), "port").Val())
}

func TestSecureServerRefusesAWrongPassword(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	for _, password := range []string{"", "wrong"} {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: s.tls, Password: password, MaxRetries: -1})
		require.Error(t, c.Ping(t.Context()).Err())
		require.NoError(t, c.Close())
	}
}

// A test against a secure server proves nothing if the client accepts any certificate.
func TestClientTrustsOnlyItsOwnSecureServer(t *testing.T) {
	t.Parallel()
	s, other := NewSecure(t), NewSecure(t)
	for _, trust := range []*tls.Config{other.tls, {}} {
		_, err := tls.Dial("tcp", s.Addr(), trust)
		var unknown *tls.CertificateVerificationError
		require.ErrorAs(t, err, &unknown)
	}
}

func TestSecureServerKeepsItsPasswordAndCertificateAfterARestart(t *testing.T) {
	t.Parallel()
	s := NewSecure(t)
	require.NoError(t, s.Restart())
	require.Equal(t, "PONG", s.do("PING").Val())
	require.NoError(t, s.Pause())
	require.NoError(t, s.Resume())
}

// A server that was built without TLS reports an unknown directive in its log, as this script does.
func TestServerWithoutTLSFailsTheTestOutsideCIToo(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "redis-server")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\necho 'Bad directive: tls-port' >&2\nexit 1\n"), 0o700))
	t.Setenv("FAIRSEM_REDIS_SERVER", binary)
	t.Setenv("CI", "")
	o := runTest(func(t testing.TB) { t.Helper(); NewSecure(t) })
	require.True(t, o.failed)
	require.False(t, o.skipped)
}
