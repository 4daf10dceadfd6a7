//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// Each of two runs at once has a number of its own, and the next one that of the one that ended.
func TestRunPassesTheNumberOfItsUnitOn(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	numbered := func(name string) (end func()) {
		cmd, out := s.begin("--limit", "2", "--numbered", "-c", `echo "$FAIRSEM_NUMBER" >`+dir+"/"+name+`; until test -e `+dir+"/end-"+name+`; do sleep 0.01; done`)
		awaitFile(t, dir+"/"+name)
		return func() {
			require.NoError(t, os.WriteFile(dir+"/end-"+name, nil, 0o644))
			assert.NoError(t, cmd.Wait(), out)
		}
	}
	endFirst, endSecond := numbered("first"), numbered("second")
	endFirst()
	numbered("third")()
	endSecond()
	for name, want := range map[string]string{"first": "0", "second": "1", "third": "0"} {
		assert.Equal(t, want, awaitFile(t, dir+"/"+name), name)
	}
}

func TestRunPassesAllNumbersOfItsUnitsOn(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "5", "-w", "3", "--numbered", "--json", "-c", `echo "$FAIRSEM_NUMBER|$FAIRSEM_NUMBERS"`)
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "0|0 1 2\n")
	assert.Contains(t, string(out), `"numbers":[0,1,2]`)
}

// A run within a run has its own numbers, and none if it asks for none.
func TestARunWithoutNumbersDoesNotInheritOne(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "-c", `echo "<$FAIRSEM_NUMBER><$FAIRSEM_NUMBERS>"`)
	cmd.Env = append(cmd.Env, "FAIRSEM_NUMBER=7", "FAIRSEM_NUMBERS=7 8")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "<><>\n", string(out))
}

// Nothing is asked of a server for a call that can never work: there is none here.
func TestCallsThatCanNeverWorkAreRefusedWithoutAServer(t *testing.T) {
	s := newStation(t)
	for _, args := range [][]string{
		{"run", "n", "--limit", "2000", "-w", "1001", "--numbered", "--", "true"},
		{"run", "n", "--limit", "3", "-w", "2", "--tenant", "a", "--tenant-limit", "1", "--", "true"},
		{"limit", "n", "3/1s", "-w", "2", "--tenant", "a", "--tenant-limit", "1"},
		{"limit", "n", "3/1s", "--tenant", "a", "--share", "-1"},
	} {
		out, err := s.program(append(args, "--redis", "redis://127.0.0.1:1")...).CombinedOutput()
		assert.Equal(t, exit.Usage, exitCode(err), "%v: %s", args, out)
	}
}

// A tenant that had its part of the window is refused, another is not.
func TestTenantsShareARate(t *testing.T) {
	s := newStation(t)
	limit := func(tenant string) ([]byte, error) {
		return s.limit("4/1h", "--tenant", tenant, "--tenant-limit", "1", "--no-wait", "--json").CombinedOutput()
	}
	out, err := limit("a")
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), `"tenant":"a"`)
	out, err = limit("a")
	assert.Equal(t, exit.NotAcquired, exitCode(err), "%s", out)
	out, err = limit("b")
	assert.NoError(t, err, "%s", out)
}
