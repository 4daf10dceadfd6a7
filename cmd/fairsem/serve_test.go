//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

// serving is a fairsem serve that runs.
type serving struct {
	cmd *exec.Cmd
	url string // the first line that it wrote
	log *transcript.Transcript
}

func startServe(t *testing.T, redis string, args ...string) *serving {
	t.Helper()
	s := &serving{log: &transcript.Transcript{}}
	s.cmd = exec.CommandContext(t.Context(), "fairsem", append([]string{"serve", "--listen", "127.0.0.1:0", "--redis", redis}, args...)...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", s.log)
	s.url = strings.TrimSpace(line)
	return s
}

func fetch(t *testing.T, url string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestServeEndsWithASignalEvenWithViewers(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		s := startServe(t, "redis://"+server.Addr())
		assert.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, s.url)
		stream := fetch(t, s.url+"stream")
		_, err := bufio.NewReader(stream.Body).ReadString('\n')
		require.NoError(t, err)
		require.NoError(t, s.cmd.Process.Signal(signal))
		assert.Equal(t, code, exitCode(s.cmd.Wait()))
		assert.Equal(t, 1, strings.Count(s.log.String(), "\n"), "where it is, and no more: %s", s.log)
	}
}

func TestServeOnAnAddressOfIPv4IsNotReachedByIPv6(t *testing.T) {
	t.Parallel()
	s := startServe(t, "redis://"+redistest.NewServer(t).Addr(), "--listen", "0.0.0.0:0")
	there, err := url.Parse(s.url)
	require.NoError(t, err)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "[::1]:"+there.Port())
	if !assert.Error(t, err) {
		_ = conn.Close() // it has shown that it can be made
	}
	assert.Equal(t, http.StatusOK, fetch(t, "http://127.0.0.1:"+there.Port()+"/static/style.css").StatusCode)
	for address, want := range map[string]string{"0.0.0.0:0": "tcp4", "127.0.0.1:80": "tcp4", "[::]:0": "tcp", ":0": "tcp", "localhost:80": "tcp"} {
		assert.Equal(t, want, network(address), address) // also where the machine has no IPv6
	}
}

func TestServeHasMetricsOfTenantsWithItsFlag(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	_, err = sem.With(fairsem.CallOptions{Tenant: "acme"}).Acquire(t.Context(), 1)
	require.NoError(t, err)
	figures := func(s *serving) string {
		text, err := io.ReadAll(fetch(t, s.url+"metrics").Body)
		require.NoError(t, err)
		return string(text)
	}
	with, without := startServe(t, "redis://"+server.Addr(), "--tenant-metrics"), startServe(t, "redis://"+server.Addr())
	require.Eventually(t, func() bool {
		return strings.Contains(figures(with), `fairsem_tenant_permits_in_use{name="n",tenant="acme"} 1`)
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(figures(without), `fairsem_permits_in_use{name="n"} 1`) }, time.Minute, 10*time.Millisecond)
	assert.NotContains(t, figures(without), "acme")
	for _, s := range []*serving{with, without} {
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, exitCode(s.cmd.Wait()))
	}
}

func TestServeShowsNamesThatMatchThePattern(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	for _, name := range []string{"team-a/db", "team-b/db"} {
		sem, err := client.Semaphore(name, 1)
		require.NoError(t, err)
		_, err = sem.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	s := startServe(t, "redis://"+server.Addr(), "team-a/*", "--busy")
	body := func(path string) string {
		text, err := io.ReadAll(fetch(t, s.url+path).Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Eventually(t, func() bool { return strings.Contains(body("metrics"), `fairsem_permits_in_use{name="team-a/db"} 1`) }, time.Minute, 10*time.Millisecond)
	assert.NotContains(t, body("metrics")+body(""), "team-b")
	assert.Equal(t, http.StatusNotFound, fetch(t, s.url+"semaphore?name=team-b%2Fdb").StatusCode)
	assert.Contains(t, s.log.String(), "the semaphores on "+server.Addr()+` that match "team-a/*" are at `)
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool { return strings.Contains(body(""), "No holders, no waiters.") }, time.Minute, 10*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(s.cmd.Wait()))
}

// The configuration scrapes it by a name, which it refused as deploy/README.md said to start it.
func TestServeAsTheGuideStartsItIsScrapedByTheNameInTheConfiguration(t *testing.T) {
	t.Parallel()
	read := func(file, pattern string) string {
		text, err := os.ReadFile(filepath.Join("../../deploy", file))
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		require.NotNil(t, found, "%s has no %s", file, pattern)
		return string(found[1])
	}
	name := read("prometheus.yml", `job_name: fairsem\b[^[]*targets: \["([^"]+)"\]`)
	server := redistest.NewServer(t)
	for _, command := range []string{read("README.md", "`fairsem serve (--listen [^`]*)`"), read("prometheus.yml", "# fairsem serve (--listen .*)")} {
		s := startServe(t, "redis://"+server.Addr(), append(strings.Fields(command), "--listen", "127.0.0.1:0")...)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"metrics", nil)
		require.NoError(t, err)
		r.Host = name
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, exitCode(s.cmd.Wait()))
	}
}

// The URL that is written ends in a slash, and the command of the help added another one.
func TestTheHelpOfServeShowsACallThatWorks(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	sem, err := client.Semaphore("NAME", 1)
	require.NoError(t, err)
	_, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	const token = "a token of some length"
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	s := startServe(t, "redis://"+server.Addr(), "--allow-writes", "--token-file", file)
	command := regexp.MustCompile(`(?m)^  printf 'Authorization: Bearer %s\\n' "\$TOKEN" \| curl -H @- \\\n +-d (\S+) -d (\S+) (\S+)$`).FindStringSubmatch(newServe().Long)
	require.NotNil(t, command)
	at := strings.Replace(command[3], "http://localhost:7420/", s.url, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(command[1]+"&"+command[2]))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultTransport.RoundTrip(r) // curl follows no redirects either
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)
	status, err := sem.Status(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 5, status.Limit)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(s.cmd.Wait()))
}

func TestServeWritesItsAddressAsJSON(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a token of some length\n"), 0o600))
	s := startServe(t, "redis://:geheim@"+server.Addr(), "--json", "--allow-writes", "--token-file", token)
	var at struct {
		URL    string
		Writes bool
	}
	require.NoError(t, json.Unmarshal([]byte(s.url), &at), s.url)
	assert.True(t, at.Writes)
	assert.Equal(t, http.StatusOK, fetch(t, at.URL+"login").StatusCode)
	page, err := io.ReadAll(fetch(t, at.URL).Body)
	require.NoError(t, err)
	assert.Contains(t, string(page), server.Addr())
	assert.NotContains(t, string(page)+s.log.String(), "geheim")
	assert.NotContains(t, s.log.String(), "a token")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(s.cmd.Wait()))
}

func TestServeReportsThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	cmd := exec.CommandContext(t.Context(), "fairsem", "serve", "--listen", taken.Addr().String(), "--redis", "redis://"+server.Addr())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	assert.Equal(t, 125, exitCode(cmd.Run()))
	assert.Regexp(t, `^fairsem: cannot listen on 127\.0\.0\.1:\d+: .*address already in use; stop the program that listens there, or give another address with --listen\n$`, stderr.String())
}

// A client ended the page with a wrong token: the line about it was written to a pipe that nobody reads.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a token of some length\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "fairsem", "serve", "--listen", "127.0.0.1:0", "--redis", "redis://"+redistest.NewServer(t).Addr(), "--allow-writes", "--token-file", token)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	page, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	page = strings.TrimSpace(page)
	require.NoError(t, log.Close())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page+"act/pause", strings.NewReader("name=n"))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer another token")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusUnauthorized, response.StatusCode)
	assert.Equal(t, http.StatusOK, fetch(t, page+"login").StatusCode)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(cmd.Wait()))
}

// A token that can be read on the way protects nothing.
func TestChangesFromBeyondThisMachineNeedTLS(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("a token of some length\n"), 0o600))
	for line, want := range map[string]string{
		"--listen 0.0.0.0:0":            "--insecure",
		"--listen :0":                   "--insecure",
		"--listen somewhere.example:0":  "--insecure",
		"--listen [::]:0":               "--insecure",
		"--listen 0.0.0.0:0 --insecure": "",
		"--listen 0.0.0.0:0 --tls-cert " + cert + " --tls-key " + key: "",
		"--listen 127.0.0.2:0":                                "",
		"--listen [::1]:0":                                    "",
		"--listen localhost:0":                                "",
		"--tls-cert " + cert:                                  "give both or neither",
		"--tls-cert " + key + " --tls-key " + cert:            "not a certificate with its key",
		"--insecure --tls-cert " + cert + " --tls-key " + key: "leave it out",
	} {
		var o serveOptions
		cmd := &cobra.Command{}
		o.flags(cmd)
		args := append(strings.Fields(line), "--allow-writes", "--token-file", token, "--redis", "redis://127.0.0.1:1")
		require.NoError(t, cmd.ParseFlags(args))
		err := o.complete(cmd)
		if want == "" {
			assert.NoError(t, err, line)
		} else {
			assert.ErrorContains(t, err, want, line)
		}
	}
}

func TestServeEncryptsThePage(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	cert, key, trusted := certificate(t)
	s := startServe(t, "redis://"+server.Addr(), "--tls-cert", cert, "--tls-key", key)
	assert.Regexp(t, `^https://127\.0\.0\.1:\d+/$`, s.url)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	t.Cleanup(transport.CloseIdleConnections)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	require.NoError(t, err)
	response, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.NotEqual(t, http.StatusOK, fetch(t, strings.Replace(s.url, "https", "http", 1)).StatusCode)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(s.cmd.Wait()))
}

// certificate makes one for this machine that is its own authority, and the files of it and its key.
func certificate(t *testing.T) (cert, key string, trusted *x509.CertPool) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, secret.Public(), secret)
	require.NoError(t, err)
	rawKey, err := x509.MarshalPKCS8PrivateKey(secret)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "page.crt"), filepath.Join(dir, "page.key")
	pemCert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	require.NoError(t, os.WriteFile(cert, pemCert, 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rawKey}), 0o600))
	trusted = x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(pemCert))
	return cert, key, trusted
}

func TestServeWarnsWhereOthersCanReadThePage(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]struct {
		url    string
		warned bool
	}{
		"127.0.0.1:7420": {"http://127.0.0.1:7420/", false},
		"127.1.2.3:7420": {"http://127.1.2.3:7420/", false},
		"[::1]:7420":     {"http://[::1]:7420/", false},
		"0.0.0.0:7420":   {"http://localhost:7420/", true},
		"[::]:7420":      {"http://localhost:7420/", true},
		"10.1.2.3:80":    {"http://10.1.2.3:80/", true},
	} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		require.NoError(t, err)
		var stdout, stderr bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		require.NoError(t, new(serveOptions).announce(cmd, addr, "redis.example:6379"))
		assert.Equal(t, want.url+"\n", stdout.String())
		assert.Equal(t, want.warned, strings.Contains(stderr.String(), "warning: the page is not encrypted"), at)
	}
}
