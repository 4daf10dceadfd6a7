//go:build unix

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

func TestRunDeclaresItsTenantAndPassesItOn(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	const tenant = "a\x1b[2J b\xff"
	cmd, out := s.begin("--limit", "3", "--tenant", tenant, "--share", "7", "--tenant-limit", "2", "--json", "-c",
		`printf %s "$FAIRSEM_TENANT" >`+dir+`/tenant; echo "$FAIRSEM_ID" >`+dir+`/id; until test -e `+dir+`/go; do sleep 0.01; done`)
	id := awaitFile(t, dir+"/id")
	raw, err := os.ReadFile(dir + "/tenant")
	require.NoError(t, err)
	assert.Equal(t, tenant, string(raw))
	tenants, err := inspect.Collect(s.client.Inspect("n").Tenants(t.Context()))
	require.NoError(t, err)
	assert.Equal(t, []fairsem.Tenant{{Name: tenant, Share: 7, Limit: 2, Used: 1, Holders: 1}}, tenants)
	holders, err := inspect.Collect(s.client.Inspect("n").Holders(t.Context()))
	require.NoError(t, err)
	assert.Equal(t, holders[0].ID, id)
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), `"tenant":"a\u001b[2J b`)
	requireHarmless(t, string(bytes.ReplaceAll([]byte(out.String()), []byte("\ufffd"), nil)))
}

// A run within a run has its own tenant, and none if it names none.
func TestARunWithoutATenantDoesNotInheritOne(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "-c", `echo "<$FAIRSEM_TENANT>"`)
	cmd.Env = append(cmd.Env, "FAIRSEM_TENANT=outer")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "<>\n", string(out))
}

// It passed on that of a command around it.
func TestLimitPassesOnTheTenantOfItsCall(t *testing.T) {
	s := newStation(t)
	for want, args := range map[string][]string{"<acme>\n": {"--tenant", "acme"}, "<>\n": nil} {
		cmd := s.limit(append([]string{"4/1h", "-c", `echo "<$FAIRSEM_TENANT>"`}, args...)...)
		cmd.Env = append(cmd.Env, "FAIRSEM_TENANT=outer", "FAIRSEM_TOKEN=7")
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
	}
}

func TestTheTenantThatHoldsLessIsGrantedFirst(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	run := func(tenant, script string) func() {
		cmd, out := s.begin("--limit", "2", "--tenant", tenant, "-c", script)
		return func() { assert.NoError(t, cmd.Wait(), out) }
	}
	until := func(file string) string { return `until test -e ` + dir + "/" + file + `; do sleep 0.01; done` }
	first := run("noisy", until("first"))
	s.awaitState(1, 0)
	second := run("noisy", until("second"))
	s.awaitState(2, 0)
	third := run("noisy", `echo noisy >>`+dir+`/order`)
	s.awaitState(2, 1)
	quiet := run("quiet", `echo quiet >>`+dir+`/order; `+until("second"))
	s.awaitState(2, 2)
	require.NoError(t, os.WriteFile(dir+"/first", nil, 0o644))
	first()
	assert.Equal(t, "quiet", awaitFile(t, dir+"/order"))
	require.NoError(t, os.WriteFile(dir+"/second", nil, 0o644))
	second()
	quiet()
	third()
	assert.Equal(t, "quiet\nnoisy", awaitFile(t, dir+"/order"))
}
