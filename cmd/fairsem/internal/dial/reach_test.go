package dial

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

func parse(t *testing.T, format string, args ...any) *Server {
	t.Helper()
	s, err := Parse(fmt.Sprintf(format, args...))
	require.NoError(t, err)
	return s
}

// requireWorks reaches the server, and writes and reads with a client of it.
func requireWorks(t *testing.T, s *Server) {
	t.Helper()
	require.NoError(t, s.Reach(t.Context()))
	client := s.Client()
	defer func() { _ = client.Close() }()
	key := "dial:" + t.Name()
	require.NoError(t, client.Set(t.Context(), key, "value", time.Minute).Err())
	require.Equal(t, "value", client.Get(t.Context(), key).Val())
}

// requireRefuses wants one line with all of these texts, and no password.
func requireRefuses(t *testing.T, s *Server, wants ...string) {
	t.Helper()
	err := s.Reach(t.Context())
	require.Error(t, err)
	for _, want := range append(wants, s.String()) {
		assert.Contains(t, err.Error(), want)
	}
	assert.NotContains(t, err.Error(), secret)
	assert.NotContains(t, err.Error(), "\n")
}

func TestEveryKindOfServerIsReached(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		requireWorks(t, parse(t, "redis://%s/3", redistest.SharedServer(t).Addr()))
		requireWorks(t, parse(t, "redis://%s?protocol=2", redistest.SharedServer(t).Addr()))
	})
	t.Run("unix", func(t *testing.T) {
		t.Parallel()
		socket := filepath.Join(t.TempDir(), "redis.sock")
		redistest.NewServer(t, "--unixsocket", socket)
		requireWorks(t, parse(t, "unix://%s", socket))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.SharedCluster(t).Nodes
		requireWorks(t, parse(t, "cluster://%s", nodes[0].Addr()))
		requireWorks(t, parse(t, "cluster://127.0.0.1:1?addr=%s", nodes[1].Addr()))
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		watchers := redistest.SharedSentinel(t).Addrs()
		requireWorks(t, parse(t, "sentinel://%s?master_name=%s", watchers[0], redistest.PrimaryName))
		requireWorks(t, parse(t, "sentinel://127.0.0.1:1/3?addr=%s&master_name=%s", watchers[1], redistest.PrimaryName))
	})
}

// guarded are servers that want TLS and a password: one, one that wants a certificate of its clients, too, a cluster of one node, and a
// sentinel of the first.
type guarded struct{ single, mutual, cluster, sentinel *redistest.Server }

// guards are all of them, for TestMain to stop.
var guards []*redistest.Server

// trusted starts guarded servers, and makes this process trust them. A process reads its trusted authorities only once.
var trusted = sync.OnceValues(func() (g guarded, err error) {
	for _, s := range []struct {
		server **redistest.Server
		args   []string
	}{
		{&g.single, nil},
		{&g.mutual, []string{"--tls-auth-clients", "yes"}},
		{&g.cluster, []string{"--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-announce-ip", "127.0.0.1"}},
		{&g.sentinel, []string{"--sentinel", "--tls-replication", "yes"}},
	} {
		if *s.server, err = redistest.StartSecure(s.args...); err != nil {
			return g, err
		}
		guards = append(guards, *s.server)
	}
	ctx := context.Background()
	host, port, _ := strings.Cut(g.single.Addr(), ":")
	watcher := g.sentinel.Client()
	return g, errors.Join(
		g.cluster.Client().ClusterAddSlotsRange(ctx, 0, 16383).Err(),
		watcher.Do(ctx, "SENTINEL", "MONITOR", "m", host, port, 1).Err(),
		watcher.Do(ctx, "SENTINEL", "SET", "m", "auth-pass", password(g.single)).Err(),
		g.trust(),
	)
})

// trust sets the variables that users with an authority of their own set.
func (g guarded) trust() error {
	var bundle []byte
	for _, s := range guards {
		text, err := os.ReadFile(s.CAFile())
		if err != nil {
			return err
		}
		bundle = append(bundle, text...)
	}
	file := filepath.Join(filepath.Dir(g.single.CAFile()), "bundle.crt")
	return errors.Join(os.WriteFile(file, bundle, 0o600), os.Setenv("SSL_CERT_FILE", file))
}

func password(s *redistest.Server) string { return s.Client().Options().Password }

func newGuarded(t *testing.T) guarded {
	t.Helper()
	if _, err := redistest.Binary(); err != nil {
		redistest.SharedServer(t) // skips, or fails in CI
	}
	g, err := trusted()
	require.NoError(t, err)
	return g
}

func TestTrustedServersWithTLSAreReached(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	requireWorks(t, parse(t, "rediss://:%s@%s", password(g.single), g.single.Addr()))
	require.Eventually(t, func() bool { // it has just got its slots
		return g.cluster.Client().Set(t.Context(), "k", "v", time.Minute).Err() == nil
	}, time.Minute, 10*time.Millisecond)
	requireWorks(t, parse(t, "clusters://:%s@%s", password(g.cluster), g.cluster.Addr()))
	requireWorks(t, parse(t, "sentinels://:%s@%s?master_name=m&sentinel_password=%s", password(g.single), g.sentinel.Addr(), password(g.sentinel)))
}

// Redis wants a certificate of its clients unless it is told not to, and the advice was to check the password.
func TestAServerThatWantsACertificateGetsTheOneOfTheURL(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	there := fmt.Sprintf("rediss://:%s@%s", password(g.mutual), g.mutual.Addr())
	requireWorks(t, parse(t, "%s?tls_cert=%s&tls_key=%s&read_timeout=5s", there, g.mutual.CertFile(), g.mutual.KeyFile()))
	requireRefuses(t, parse(t, "%s", there), "certificate of the client", "add ?tls_cert=FILE&tls_key=FILE")
	for scheme, config := range map[string]func(*Server) *tls.Config{
		"clusters://a?":                func(s *Server) *tls.Config { return s.Client().(*redis.ClusterClient).Options().TLSConfig },
		"sentinels://a?master_name=m&": func(s *Server) *tls.Config { return s.Client().(*redis.Client).Options().TLSConfig },
		"rediss://a:1/3?pool_size=5&":  func(s *Server) *tls.Config { return s.Client().(*redis.Client).Options().TLSConfig },
	} {
		s := parse(t, "%stls_cert=%s&tls_key=%s", scheme, g.mutual.CertFile(), g.mutual.KeyFile())
		got, err := config(s).GetClientCertificate(nil)
		require.NoError(t, err)
		assert.NotEmpty(t, got.Certificate, scheme)
	}
}

func TestAnUntrustedServerIsNotReached(t *testing.T) {
	t.Parallel()
	newGuarded(t)
	stranger := redistest.NewSecure(t)
	requireRefuses(t, parse(t, "rediss://:geheim@%s", stranger.Addr()), "tls_ca")
	requireRefuses(t, parse(t, "clusters://:geheim@%s", stranger.Addr()), "tls_ca")
	requireRefuses(t, parse(t, "sentinels://:geheim@%s?master_name=m", stranger.Addr()), "tls_ca")
	requireRefuses(t, parse(t, "redis://:geheim@%s", stranger.Addr()), "if it uses TLS, write rediss://")
	requireWorks(t, parse(t, "rediss://:%s@%s?tls_ca=%s", password(stranger), stranger.Addr(), stranger.CAFile()))
}

// What the system trusts does not count beside an authority of the URL.
func TestOnlyTheAuthorityOfTheURLIsTrusted(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	stranger := redistest.NewSecure(t)
	requireRefuses(t, parse(t, "rediss://:%s@%s?tls_ca=%s", password(g.single), g.single.Addr(), stranger.CAFile()), "unknown authority")
}

// A command that ran for longer than its certificate was valid could not connect again, though a new one was there.
func TestACertificateThatWasRenewedIsPresentedToTheNextConnection(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	cert, key := selfSigned(t)
	s := parse(t, "rediss://:%s@%s?tls_cert=%s&tls_key=%s", password(g.mutual), g.mutual.Addr(), cert, key)
	requireRefuses(t, s, "does not trust the authority")
	for renewed, file := range map[string]string{g.mutual.CertFile(): cert, g.mutual.KeyFile(): key} {
		text, err := os.ReadFile(renewed)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	requireWorks(t, s)
}

// A user who may not run CLIENT found a refusal of each connection in ACL LOG.
func TestAClientSendsNoCommandOfItsOwn(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "few", "on", ">geheim", "-@all", "+hello", "+ping").Err())
	there := parse(t, "redis://few:geheim@%s", s.Addr())
	require.NoError(t, there.Reach(t.Context()))
	client := there.Client()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, client.Close())
	log, err := s.Client().ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	assert.Empty(t, log)
}

// selfSigned writes a certificate that no server trusts, and its key, and returns both files.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stranger"}, NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	packed, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: signed}, "key": {Type: "PRIVATE KEY", Bytes: packed}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

// The advice was to check user and password.
func TestACertificateThatDoesNotServeIsNotTakenForAWrongPassword(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	_, port, _ := strings.Cut(g.single.Addr(), ":") // its certificate has the address 127.0.0.1
	for _, form := range []string{"rediss://localhost:%s", "clusters://localhost:%s", "sentinels://localhost:%s?master_name=m"} {
		requireRefuses(t, parse(t, form, port), "localhost", "use a host name in the address that its certificate has")
	}
	cert, key := selfSigned(t)
	requireRefuses(t, parse(t, "rediss://%s?tls_cert=%s&tls_key=%s", g.mutual.Addr(), cert, key),
		"unknown certificate authority", "check tls_cert and tls_key: the server does not trust the authority")
	refused := errors.New("remote error: tls: expired certificate")
	assert.Equal(t, "check tls_cert and tls_key: the server does not accept that certificate", (&Server{secure: true}).advice(refused))
	expired := x509.CertificateInvalidError{Reason: x509.Expired}
	for _, err := range []error{expired, errors.New(expired.Error())} {
		assert.Equal(t, "its certificate is not valid now: renew it, and check the clock of this machine", (&Server{secure: true}).advice(err))
	}
}

// Of a connection that was closed early, what the server said of the certificate is not read.
func TestWhatAServerSaysOfACertificateIsReportedWhereItClosesEarly(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pair, err := tls.LoadX509KeyPair(g.mutual.CertFile(), g.mutual.KeyFile())
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for connections := 1; ; connections++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			config := &tls.Config{Certificates: []tls.Certificate{pair}}
			if connections < 3 {
				assert.NoError(t, tls.Server(conn, config).HandshakeContext(t.Context()))
				assert.NoError(t, conn.(*net.TCPConn).SetLinger(0)) // closed with a reset
			} else {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
				assert.Error(t, tls.Server(conn, config).HandshakeContext(t.Context()))
				_, _ = io.Copy(io.Discard, conn) // until the client closes it
			}
			assert.NoError(t, conn.Close())
		}
	}()
	cert, key := selfSigned(t)
	requireRefuses(t, parse(t, "rediss://%s?tls_cert=%s&tls_key=%s", listener.Addr().String(), cert, key), "the server does not trust the authority")
	require.NoError(t, listener.Close())
	<-served
}

func TestAWrongPasswordIsReportedAndNotShown(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	requireRefuses(t, parse(t, "rediss://:geheim@%s", g.single.Addr()), "WRONGPASS", "check address, user and password")
	requireRefuses(t, parse(t, "rediss://geheim:geheim@%s", g.single.Addr()), "WRONGPASS")
	requireRefuses(t, parse(t, "rediss://%s", g.single.Addr()), "NOAUTH")
	requireRefuses(t, parse(t, "clusters://:geheim@%s", g.cluster.Addr()), "WRONGPASS")
	requireRefuses(t, parse(t, "sentinels://:geheim@%s?master_name=m&sentinel_password=%s", g.sentinel.Addr(), password(g.sentinel)), "WRONGPASS")
	requireRefuses(t, parse(t, "sentinels://:geheim@%s?master_name=m&sentinel_password=geheim", g.sentinel.Addr()), "WRONGPASS")
}

// It said that the password may be wrong.
func TestAMissingRightIsNamedAndNotTakenForAWrongPassword(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "few", "on", ">geheim", "-@all", "+hello").Err())
	few := parse(t, "redis://few:geheim@%s", s.Addr())
	requireRefuses(t, few, "'ping' command", "this user needs more rights: fairsem doctor lists them")
	assert.NotContains(t, few.Reach(t.Context()).Error(), "check address")
}

// Each was said to be no Redis, with the advice to check user and password.
func TestAServerThatRefusesIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t, "--lua-time-limit", "1")
	requireRefuses(t, parse(t, "redis://%s/99", s.Addr()), "Redis at", "refuses: ERR DB index is out of range; give the number of a database that it has")
	requireRefuses(t, parse(t, "cluster://%s", redistest.SharedSentinel(t).Addrs()[0]),
		"ERR unknown command", "; if it is a sentinel, write sentinel://") // the quotes of the name are others before Redis 7
	requireRefuses(t, parse(t, "cluster://%s", redistest.NewServer(t, "--cluster-enabled", "yes").Addr()), "no primary of this cluster has any slots; redis-cli")

	ended := make(chan struct{})
	go func() { // ends with the kill below
		defer close(ended)
		_ = s.Client().Eval(context.Background(), "while true do end", nil).Err()
	}()
	busy := parse(t, "redis://%s", s.Addr())
	require.Eventually(t, func() bool { return busy.Reach(t.Context()) != nil }, time.Minute, 5*time.Millisecond)
	requireRefuses(t, busy, "refuses: BUSY a script is running for long; fairsem doctor says more")
	require.NoError(t, s.Kill())
	<-ended
}

// It was said that Redis replies with an error that contains the password.
func TestAPasswordThatIsOneOfTheWordsOfRedisIsNotTakenForARepeatedOne(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "few", "on", ">user", "-@all", "+hello").Err())
	requireRefuses(t, parse(t, "redis://few:pass@%s", s.Addr()), "WRONGPASS invalid username-password pair", "check address, user and password")
	requireRefuses(t, parse(t, "redis://few:user@%s", s.Addr()), "refuses: NOPERM this user may not run the 'ping' command; address and password are right")
}

// An immediate error of the network is not replaced by a timeout.
func TestADeadServerIsReportedWithTheWordsOfTheNetwork(t *testing.T) {
	t.Parallel()
	requireRefuses(t, parse(t, "redis://user:geheim@127.0.0.1:1"), "no Redis at", "connection refused", "check the address, and whether the server runs")
	requireRefuses(t, parse(t, "redis://user:connection@127.0.0.1:1"), "connection refused") // where nobody has replied, nobody repeats a password
	requireRefuses(t, parse(t, "unix://user:geheim@/nowhere/redis.sock"), "no such file")
	requireRefuses(t, parse(t, "cluster://user:geheim@127.0.0.1:1?addr=127.0.0.1:2"), "connection refused")
	requireRefuses(t, parse(t, "sentinel://user:geheim@127.0.0.1:1?addr=127.0.0.1:2&master_name=m&sentinel_password=geheim"), "connection refused")
}

// The PING of go-redis fails for one primary that is down. Before it go-redis sent COMMAND, which the administrator saw in ACL LOG.
func TestAClusterIsReachedAsLongAsOnePrimaryAnswers(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t)
	few := []any{"ACL", "SETUSER", "few", "on", ">geheim", "-@all", "+hello", "+ping", "+cluster|slots"}
	for _, n := range c.Nodes {
		require.NoError(t, n.Client().Do(t.Context(), few...).Err())
	}
	there := parse(t, "cluster://few:geheim@%s?read_timeout=1h", c.Nodes[1].Addr()) // a call that waits for the paused node hangs
	s, err := there.Open(fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, c.Lose(0))
	require.NoError(t, there.Reach(t.Context()))
	require.NoError(t, s.Ping(t.Context()))
	require.NoError(t, c.Nodes[2].Pause())
	for range 5 { // go-redis may query the paused one first, or the other
		require.NoError(t, there.Reach(t.Context()))
		require.NoError(t, s.Ping(t.Context()))
	}
	log, err := c.Nodes[1].Client().ACLLog(t.Context(), 100).Result()
	require.NoError(t, err)
	assert.Empty(t, log)

	for _, n := range c.Nodes {
		require.NoError(t, n.Kill())
	}
	requireRefuses(t, there, "no Redis at", "connection refused")
	require.Error(t, s.Ping(t.Context()))
}

func TestAServerThatHangsIsReportedAfterATimeout(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	require.NoError(t, server.Pause())
	var all sync.WaitGroup
	for _, form := range []string{
		"redis://user:geheim@%s",
		"rediss://user:geheim@%s",
		"cluster://user:geheim@%s",
		"sentinel://user:geheim@%s?master_name=m",
		"sentinels://user:geheim@%s?master_name=m",
	} {
		hung, want := parse(t, form, server.Addr()), "timeout; check the address, and whether the server is stopped or overloaded"
		if hung.secure {
			want = "whether it speaks TLS there"
		}
		all.Go(func() { // ends with the time-outs, waited for below
			err := hung.Reach(t.Context())
			assert.ErrorContains(t, err, "no Redis at "+hung.String())
			assert.ErrorContains(t, err, want)
			assert.NotContains(t, fmt.Sprint(err), secret)
		})
	}
	all.Wait()
}

func TestReachEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	require.NoError(t, server.Pause())
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	require.ErrorIs(t, parse(t, "redis://%s", server.Addr()).Reach(ctx), why, "not the timeout that comes later")
}

// A query of one node for all names would find a third of them.
func TestAServerOfAnotherKindIsExplained(t *testing.T) {
	t.Parallel()
	single := redistest.SharedServer(t).Addr()
	watcher := redistest.SharedSentinel(t).Addrs()[0]
	requireRefuses(t, parse(t, "redis://:geheim@%s", redistest.SharedCluster(t).Nodes[0].Addr()), "write cluster://")
	requireRefuses(t, parse(t, "redis://:geheim@%s", watcher), "write sentinel://"+watcher+"?master_name=NAME")
	requireRefuses(t, parse(t, "cluster://%s", single), "write redis://")
	requireRefuses(t, parse(t, "sentinel://%s?master_name=m", single), "not a sentinel: write redis://")
	requireRefuses(t, parse(t, "sentinel://%s?master_name=other", watcher), `the sentinels know no primary "other"; check master_name`)
}

func TestAPasswordThatRedisRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	const long = 100 // Redis repeats only the beginning of a text longer than 128 bytes
	for _, password := range []string{secret, strings.Repeat(secret, long), secret + "%0d%0a" + secret} {
		requireRefuses(t, parse(t, "redis://user:%s@%s", password, server.Addr()), "unknown command")
	}
}

// A server that is no Redis may repeat commands that it does not understand in its own words, such as HELLO 3 AUTH user password.
func TestAPasswordThatAServerRepeatsIsNotShown(t *testing.T) {
	t.Parallel()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = door.Close() })
	go func() { // ends with the listener; not waited for
		for {
			conn, err := door.Accept()
			if err != nil {
				return
			}
			go repeat(conn) // ends with the client
		}
	}()
	for _, form := range []string{"redis://user:geheim@%s", "cluster://user:geheim@%s", "sentinel://%s?master_name=m&sentinel_password=geheim"} {
		requireRefuses(t, parse(t, form, door.Addr()), "contains the password")
	}
	requireRefuses(t, parse(t, "redis://u:p4ss@%s", door.Addr()), "contains the password")
}

// repeat answers every command, which begins with "*N", with all that came so far.
func repeat(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var said []string
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		said = append(said, lines.Text())
		if len(said) > 1 && strings.HasPrefix(lines.Text(), "*") || strings.EqualFold(lines.Text(), secret) || lines.Text() == "p4ss" {
			_, _ = fmt.Fprintf(conn, "-ERR what is %s?\r\n", strings.Join(said, " "))
		}
	}
}
