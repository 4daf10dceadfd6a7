package fairsem_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/redistest"
)

// The recommended setup: TLS, and a user with only the rights that docs/operations.md lists.

func connect(addr, user, password, caFile string) (*redis.Client, error) {
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool() // no other authority: &tls.Config{} would trust all those of the machine
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %s", caFile)
	}
	return redis.NewClient(&redis.Options{
		Addr:      addr, // the certificate must contain this host
		Username:  user,
		Password:  password,
		TLSConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},

		// go-redis itself would send CLIENT SETINFO and CLIENT MAINT_NOTIFICATIONS, which this user may not send.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}), nil
}

// The code of the guide is exactly the function connect above, which every test on all kinds of servers runs.
func TestSecurityGuideConnectsAsTheTestsDo(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("secure_test.go")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(source), "\nfunc connect(")
	require.True(t, found)
	body, _, found := strings.Cut(after, "\n}\n")
	require.True(t, found)
	assert.Equal(t, []string{"func connect(" + body + "\n}\n"}, blocks(t, "docs/security.md", "go"))
}

// blocks returns the code blocks of a document in a language.
func blocks(t testing.TB, file, language string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var all []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, block[1])
	}
	return all
}

// rights returns the line of least rights in docs/operations.md as the words of a command, with a password of the test.
func rights(t testing.TB) []string {
	t.Helper()
	page := readFile(t, "docs/operations.md")
	lines := regexp.MustCompile(`(?m)^ *(ACL SETUSER fairsem .*)$`).FindAllStringSubmatch(page, -1)
	require.Len(t, lines, 1, "lines of least rights in docs/operations.md")
	return strings.Fields(strings.Replace(lines[0][1], ">PASSWORD", ">secret", 1))
}

// grant creates the user fairsem, or changes its rights.
func grant(t testing.TB, admin redis.UniversalClient, setuser ...string) {
	t.Helper()
	var command []any
	for _, word := range setuser {
		command = append(command, word)
	}
	require.NoError(t, admin.Do(context.Background(), command...).Err())
}

var secured sync.Once

// sharedSecure returns the secure server that all tests share, with the user of docs/operations.md.
func sharedSecure(t testing.TB) *redistest.Server {
	t.Helper()
	server := redistest.SharedSecure(t)
	secured.Do(func() { grant(t, server.Client(), rights(t)...) })
	return server
}

func dialSecure(t testing.TB) redis.UniversalClient { return asFairsem(t, sharedSecure(t)) }

func asFairsem(t testing.TB, server *redistest.Server) redis.UniversalClient {
	t.Helper()
	rdb, err := connect(server.Addr(), "fairsem", "secret", server.CAFile())
	require.NoError(t, err)
	return rdb
}

func dialAdmin(t testing.TB) redis.UniversalClient { return administrator(sharedSecure(t)) }

// administrator returns a client with all rights that may be closed.
func administrator(server *redistest.Server) redis.UniversalClient {
	return redis.NewClient(server.Client().Options())
}

// nothingWasDenied checks the ACL log of the server, because a missing right may have no other visible effect. All tests on that
// server check it, so the last check covers all of them. An entry contains the command.
func (w *world) nothingWasDenied() {
	assert.Empty(w.t, w.denied())
}

// denied returns the commands that the server refused because of a missing right.
func (w *world) denied() []string {
	w.t.Helper()
	entries, err := w.rdb.(*redis.Client).ACLLog(context.Background(), 100).Result()
	require.NoError(w.t, err)
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%s of %s, %s (%s)", e.Object, e.Username, e.Reason, e.Context))
	}
	return all
}

// securely runs a test on its own TLS server, as the user fairsem with these rights.
func securely(t *testing.T, setuser ...string) *world {
	t.Helper()
	t.Parallel()
	server := redistest.NewSecure(t)
	grant(t, server.Client(), setuser...)
	return backend{
		dial:  func(t testing.TB) redis.UniversalClient { return asFairsem(t, server) },
		admin: func(testing.TB) redis.UniversalClient { return administrator(server) },
	}.newWorld(t)
}

// serves makes two processes share a limit.
func (w *world) serves() {
	t := w.t
	t.Helper()
	w.limit = 3
	a, b := w.semaphore(), w.semaphore()
	p := w.must(a.Acquire(t.Context(), 3))
	waiter := w.queue(t.Context(), b, 2)
	w.release(p)
	q := w.granted(waiter)
	for _, err := range a.Holders(t.Context()) {
		require.NoError(t, err)
	}
	w.release(q)
}

// The commands that the library sends outside scripts, and the one that only fairsem doctor sends.
var sentFromGo = []string{"evalsha", "eval", "hello", "ping", "subscribe", "getrange", "set", "del", "wait", "scan", "pttl"}

// No right is missing, and none is superfluous.
func TestListedRightsAreTheCommandsInUse(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("scripts/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	used, audits := map[string]bool{}, map[string]bool{}
	for _, command := range sentFromGo {
		used["+"+command] = true
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		in := used
		if strings.HasPrefix(filepath.Base(file), "audit") {
			in = audits
		}
		for _, call := range regexp.MustCompile(`redis\.p?call\(\s*"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
			in["+"+strings.ToLower(call[1])] = true
		}
	}
	var listed []string
	for _, word := range rights(t) {
		if strings.HasPrefix(word, "+") {
			listed = append(listed, word)
		}
	}
	assert.Equal(t, slices.Sorted(maps.Keys(used)), slices.Sorted(slices.Values(listed)))
	assert.NotEmpty(t, audits)
	assert.Subset(t, listed, slices.Collect(maps.Keys(audits)), "doctor needs no more")
}

// The guide explains the rights that docs/operations.md lists.
func TestSecurityGuideSaysWhatEachRightIsFor(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/security.md")
	require.NoError(t, err)
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(string(text), -1) {
		explained = append(explained, strings.Fields(strings.ReplaceAll(row[1], "`", ""))...)
	}
	given := strings.Fields(strings.Replace(strings.Join(rights(t)[3:], " "), ">secret", ">PASSWORD", 1))
	assert.Equal(t, slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(explained)))
}

// Each claim of the guide names the tests that check it.
func TestSecurityGuideNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, beside := range []string{"internal/*/*_test.go", "cmd/fairsem/*_test.go", "cmd/fairsem/internal/*/*_test.go"} {
		more, err := filepath.Glob(beside)
		require.NoError(t, err)
		files = append(files, more...)
	}
	var source strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source.Write(text)
	}
	guide, err := os.ReadFile("docs/security.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(string(guide), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		assert.True(t, strings.Contains(source.String(), "func "+name[1]+"("), name[1]) // not Contains, which prints the source
	}
}

// Without them, waiters find their grants by their renewals.
func TestRightsOnChannelsCanBeLeftOut(t *testing.T) {
	w := securely(t, append(rights(t), "resetchannels", "-publish", "-subscribe")...)
	w.ttl = 4 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	w.serves()
}

// Without it, nothing is counted, and everything else works.
func TestRightToCountCanBeLeftOut(t *testing.T) {
	w := securely(t, append(rights(t), "-hincrby")...)
	w.serves()
	s := w.semaphore()
	for range 2 { // the first declares the limit, so only the second uses the fast path
		w.release(w.must(s.Acquire(t.Context(), 1)))
	}
	st := w.status(s)
	assert.Equal(t, []any{true, int64(0)}, []any{st.Exists, st.Granted})
}

func TestMissingRightIsSeenInTheServersLog(t *testing.T) {
	w := securely(t, append(rights(t), "-publish")...)
	w.ttl = 4 * time.Second // the waiter must find its grant by a renewal
	w.serves()
	assert.Contains(t, strings.Join(w.denied(), "\n"), "publish of fairsem, command (") // in a script, which Redis 6.2 calls multi
}

// guide runs the commands of the guide with a redis-cli that records the scripts that it loads.
func guide(t *testing.T) (scripts []string) {
	t.Helper()
	commands := blocks(t, "docs/security.md", "sh")
	require.Len(t, commands, 1)
	dir := t.TempDir()
	cli := "#!/bin/sh\ntest \"$*\" = '-x SCRIPT LOAD' && cat > \"$0.$$\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-cli"), []byte(cli), 0o700))
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands[0])
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	files, err := filepath.Glob(filepath.Join(dir, "redis-cli.*"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		scripts = append(scripts, string(text))
	}
	return scripts
}

func TestSecurityGuideLoadsTheScriptsThatAreSent(t *testing.T) {
	t.Parallel()
	assert.ElementsMatch(t, fairsem.ScriptTexts(), guide(t))
}

// In this setup, an attacker who controls a process cannot make Redis run other scripts.
func TestScriptsLoadedAsTheGuideSaysNeedNoRightToEval(t *testing.T) {
	w := securely(t, append(rights(t), "-eval")...)
	t.Cleanup(w.nothingWasDenied) // EVAL was never tried
	for _, script := range guide(t) {
		require.NoError(t, w.rdb.ScriptLoad(t.Context(), script).Err())
	}
	w.ttl = 6 * time.Second // a busy machine takes a part of it
	w.serves()
	p := w.must(w.semaphore().Acquire(t.Context(), 1))
	deadline := func() float64 { return w.rdb.ZScore(t.Context(), w.key("timeout"), p.ID()).Val() }
	first := deadline()
	w.eventually(func() bool { return deadline() > first }, "it is not renewed")
	w.release(p)
}

func TestScriptThatIsNotLoadedAndMayNotBeSentIsAnErrorAtOnce(t *testing.T) {
	w := securely(t, append(rights(t), "-eval")...)
	w.ttl = time.Hour // no retry hides it
	s := w.semaphore()
	_, err := s.Acquire(t.Context(), 1)
	assert.ErrorContains(t, err, "rights that docs/operations.md lists")
	assert.ErrorContains(t, err, "eval")
	for _, script := range guide(t) {
		require.NoError(t, w.rdb.ScriptLoad(t.Context(), script).Err())
	}
	w.release(w.must(s.Acquire(t.Context(), 1)))
}

// The user has access only to its own keys and channels.
func TestUserWithTheListedRightsReachesNothingElse(t *testing.T) {
	w := securely(t, rights(t)...)
	require.NoError(t, w.rdb.Set(t.Context(), "elsewhere", "secret", 0).Err())
	rdb := w.connect()
	for _, command := range []string{
		"GET elsewhere", "SET elsewhere x", "PUBLISH elsewhere x", "SUBSCRIBE elsewhere", "KEYS *", "FLUSHALL", "CONFIG GET *",
		"ACL LIST", "CLIENT LIST", "MONITOR", "SHUTDOWN", "SCRIPT FLUSH", "FUNCTION LIST",
	} {
		words := strings.Fields(command)
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		err := rdb.Do(t.Context(), args...).Err()
		assert.True(t, redis.IsPermissionError(err) || failure.UnknownCommand(err, words[0]), "%s: %v", command, err) // Redis 6.2 has no functions
	}
	err := rdb.Eval(t.Context(), `return redis.call("GET", "elsewhere")`, nil).Err()
	require.Error(t, err, "a script has no more rights than its user")
	assert.NotContains(t, err.Error(), "secret")
}
