//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestServeEndsWithASignalEvenIfSomebodyWatches(t *testing.T) {
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

func TestServeTellsWhereItIsAsJSON(t *testing.T) {
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

func TestServeSaysThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	cmd := exec.CommandContext(t.Context(), "fairsem", "serve", "--listen", taken.Addr().String(), "--redis", "redis://"+server.Addr())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	assert.Equal(t, 125, exitCode(cmd.Run()))
	assert.Regexp(t, `^fairsem: cannot listen on 127\.0\.0\.1:\d+: .*address already in use; stop what is there, or give another address with --listen\n$`, stderr.String())
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
		new(serveOptions).announce(cmd, addr, "redis.example:6379")
		assert.Equal(t, want.url+"\n", stdout.String())
		assert.Equal(t, want.warned, strings.Contains(stderr.String(), "warning: the page is not encrypted"), at)
	}
}
