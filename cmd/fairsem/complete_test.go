//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

// hold has each name in use until the test ends.
func (s *station) hold(names ...string) {
	s.t.Helper()
	for _, name := range names {
		sem, err := s.client.Semaphore(name, 1)
		require.NoError(s.t, err)
		_, err = sem.Acquire(s.t.Context(), 1)
		require.NoError(s.t, err)
	}
}

// candidates returns the candidates that fairsem offers to a shell, and the directive.
func (s *station) candidates(args ...string) (all []string, directive string) {
	s.t.Helper()
	if args[0] != "completion" && !slices.Contains(args, "--redis") {
		args = slices.Insert(args, 1, "--redis=redis://"+s.server.Addr())
	}
	var stdout, stderr transcript.Transcript
	root := newRoot()
	root.SetArgs(append([]string{"__complete"}, args...))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	require.NoError(s.t, root.ExecuteContext(s.t.Context()))
	require.Regexp(s.t, `^Completion ended with directive: \w+(, \w+)*\n$`, stderr.String(), "no noise")
	all = strings.Split(strings.TrimSpace(stdout.String()), "\n")
	return all[:len(all)-1], all[len(all)-1]
}

const (
	shellsTurn = ":0" // the shell completes files
	noFilesNow = ":4"
)

func TestNamesAreOfferedForNameArguments(t *testing.T) {
	s := newStation(t)
	s.hold("alpha", "alpine", "beta", "team/disk:1", "häuser")
	for _, c := range []struct {
		args      []string
		want      []string
		directive string
	}{
		{[]string{"run", ""}, []string{"alpha", "alpine", "beta", "häuser", "team/disk:1"}, noFilesNow},
		{[]string{"run", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"doctor", "--redis=redis://" + s.server.Addr(), "beta", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"run", "team/disk:"}, []string{"team/disk:1"}, noFilesNow},
		{[]string{"run", "--limit", "3", "b"}, []string{"beta"}, noFilesNow},
		{[]string{"run", "nowhere"}, nil, noFilesNow},
		{[]string{"run", "--prefix", "other", ""}, nil, noFilesNow},
		{[]string{"run", "alpha", "--", ""}, nil, shellsTurn},
		{[]string{"run", "alpha", "--", "make", "al"}, nil, shellsTurn},
		{[]string{"run", "-c", ""}, nil, shellsTurn},
		{[]string{"run", "--limit", ""}, nil, noFilesNow},
		{[]string{"run", "--redis", ""}, nil, noFilesNow},
		{[]string{"run", "alpha", "--on-lost", ""}, []string{"term\tTERM, and KILL before the units can be granted again", "kill\tKILL at once", "ignore\tonly a warning"}, noFilesNow},
		{[]string{"limit", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"limit", "alpha", ""}, nil, noFilesNow},
		{[]string{"limit", "alpha", "5/s", "--", "make", "al"}, nil, shellsTurn},
		{[]string{"serve", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"show", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"show", "alpha", "al"}, nil, noFilesNow},
		{[]string{"doctor", "alpha", "al"}, []string{"alpha", "alpine"}, noFilesNow},
		{[]string{"completion", "z"}, []string{"zsh"}, noFilesNow},
		{[]string{"completion", "bash", ""}, nil, noFilesNow},
		{[]string{"demo", "tenants", ""}, nil, noFilesNow},
	} {
		all, directive := s.candidates(c.args...)
		assert.ElementsMatch(t, c.want, all, "%q", c.args)
		assert.Equal(t, c.directive, directive, "%q", c.args)
	}
}

// Any client of the server can choose names, and the completed line is run with the next key.
func TestANameThatIsSpecialToAShellIsNotOffered(t *testing.T) {
	s := newStation(t)
	s.hold("fine", "a b", "new\nline", "tab\there", "esc\x1b[31m", "$(id)", "`id`", "a;b", "a&b", "a|b", "a>b", "'a", `"a`, `back\slash`,
		"~root", "-n", "--limit=1", "=ls", "%1", "*", "?", "[a]", "{a,b}", "!1", "#x", "bidi\u202edata", "zero\u200bwidth", "nul\x00byte", "bad\xff", "^a")
	all, _ := s.candidates("run", "")
	assert.Equal(t, []string{"fine"}, all)
}

func TestTheNumberOfCandidatesIsBounded(t *testing.T) {
	s := newStation(t)
	for i := range completeMost + 50 {
		sem, err := s.client.Semaphore(fmt.Sprintf("n%d", i), 1)
		require.NoError(t, err)
		_, err = sem.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
	}
	all, _ := s.candidates("run", "n")
	assert.Len(t, all, completeMost)
}

func TestAnUnreachableServerYieldsNoCandidatesAndNoError(t *testing.T) {
	s := newStation(t)
	s.hold("alpha")
	hung := redistest.NewServer(t)
	require.NoError(t, hung.Pause())
	for _, url := range []string{"redis://127.0.0.1:1", "redis://user:geheim@" + s.server.Addr(), "http://:geheim@localhost", "redis://" + hung.Addr()} {
		all, directive := s.candidates("run", "--redis", url, "")
		assert.Empty(t, all, url)
		assert.Equal(t, noFilesNow, directive)
	}
}

func TestIDsAreOfferedAfterTheNameWithTheirLabels(t *testing.T) {
	s := newStation(t)
	client, err := fairsem.New(s.server.Client(), fairsem.Options{Label: "host\n\x1b[31m:7"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	p, err := sem.With(fairsem.CallOptions{Tenant: "$(id)"}).Acquire(t.Context(), 1)
	require.NoError(t, err)
	go func() { _, _ = s.sem(1).Acquire(t.Context(), 1) }() // ends with the test; not waited for
	s.awaitState(1, 1)
	id := inspect.PlainID(p.ID()) // the tenant is special to a shell

	cmd := &cobra.Command{}
	(&connection{}).flags(cmd.Flags())
	require.NoError(t, cmd.Flags().Set("redis", "redis://"+s.server.Addr()))
	cmd.SetContext(t.Context())
	all, directive := completeIDs(cmd, []string{"n"}, "")
	assert.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive)
	require.Len(t, all, 2)
	assert.Equal(t, id+"\t"+`host\n\x1b[31m:7`, all[0])
	all, _ = completeIDs(cmd, []string{"n"}, id[:8])
	assert.Len(t, all, 1)
	all, _ = completeIDs(cmd, []string{"n", id}, "")
	require.Len(t, all, 1, "the other one")
	assert.NotContains(t, all[0], id)
	all, _ = completeIDs(cmd, nil, "")
	assert.Equal(t, []string{"n"}, all)
}

// The completed line is run with the next key, and the offered text has to mean that tenant when it comes back.
func TestTenantsOfTheNameOnTheLineAreOfferedIfTheyNeedNoQuotes(t *testing.T) {
	s := newStation(t)
	for _, name := range []string{"n", "other"} {
		sem, err := s.client.Semaphore(name, 10)
		require.NoError(t, err)
		for _, tenant := range []string{name + "-acme", name + "-beta", "häuser", "", "a b", "$(id)", `back\slash`, "bad\xff", "-x", "esc\x1b[31m"} {
			_, err = sem.With(fairsem.CallOptions{Tenant: tenant}).Acquire(t.Context(), 1)
			require.NoError(t, err)
		}
	}
	all := []string{"n-acme", "n-beta", "häuser"}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"evict", "n", "--tenant", ""}, all},
		{[]string{"evict", "n", "--tenant="}, all},
		{[]string{"evict", "n", "--tenant", "n-a"}, []string{"n-acme"}},
		{[]string{"evict", "other", "--tenant", "n"}, nil},
		{[]string{"evict", "--tenant", ""}, nil},
		{[]string{"evict", "nowhere", "--tenant", ""}, nil},
		{[]string{"run", "n", "--limit", "9", "--tenant", "n-"}, []string{"n-acme", "n-beta"}},
		{[]string{"limit", "n", "5/s", "--tenant", "h"}, []string{"häuser"}},
	} {
		all, directive := s.candidates(c.args...)
		assert.ElementsMatch(t, c.want, all, "%q", c.args)
		assert.Equal(t, noFilesNow, directive, "%q", c.args)
	}
}
