//go:build unix

package main

import (
	"encoding/base64"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// tenant is the semaphore of a process with that label, on the account of a tenant.
func (o *office) tenant(label, name string, limit int64, account fairsem.CallOptions) *fairsem.Semaphore {
	o.t.Helper()
	sem, err := o.client(label).Semaphore(name, limit)
	require.NoError(o.t, err)
	return sem.With(account)
}

func (o *office) holdAs(name string, limit, units int64, account fairsem.CallOptions) *fairsem.Permit {
	o.t.Helper()
	p, err := o.tenant("h", name, limit, account).Acquire(o.t.Context(), units)
	require.NoError(o.t, err)
	return p
}

func (o *office) waitAs(name string, limit int64, account fairsem.CallOptions) <-chan error {
	o.t.Helper()
	sem, before := o.tenant("w", name, limit, account), o.status(name).Waiting
	end := make(chan error, 1)
	go func() { // ends with the test's context or the client
		_, err := sem.Acquire(o.t.Context(), 1)
		end <- err
	}()
	require.Eventually(o.t, func() bool { return o.status(name).Waiting > before }, time.Minute, 5*time.Millisecond)
	return end
}

func TestShowListsTenants(t *testing.T) {
	o := newOffice(t)
	acme := fairsem.CallOptions{Tenant: "acme inc", Share: 3, TenantLimit: 4}
	o.holdAs("n", 4, 3, acme)
	o.holdAs("n", 4, 1, fairsem.CallOptions{Tenant: hostile})
	o.waitAs("n", 4, acme)
	o.waitAs("n", 4, fairsem.CallOptions{})

	out, _ := o.does(0, "show", "n")
	requireHarmless(t, out)
	assert.Regexp(t, `(?m)^TENANT +USED  SHARE  LIMIT  WAITING  OLDEST\n'acme inc' +3      3      4        1 +[0-9.]+s\n'\\x1b\[2J.*' +1      1      -        0       -\n'' +0      1      -        1 +[0-9.]+s\n`, out)
	assert.Regexp(t, `'acme inc' +[\w-]{11}:1\n`, out)
	assert.Regexp(t, `'' +[\w-]{11}:1\n`, out)
	out, _ = o.does(0, "show", "n", "--rows", "1")
	assert.Contains(t, out, "… and 2 more: --rows shows them")

	d := o.json("show", "n")
	tenants := d["tenants"].([]any)
	require.Len(t, tenants, 3)
	first := tenants[0].(object)
	assert.NotNil(t, first["oldest_wait_ms"])
	delete(first, "oldest_wait_ms")
	assert.Equal(t, object{"tenant": "acme inc", "share": 3.0, "limit": 4.0, "used": 3.0, "holders": 1.0, "waiting": 1.0}, first)
	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(hostile)), tenants[1].(object)["tenant_base64"])
	assert.Equal(t, "acme inc", d["held_by"].([]any)[0].(object)["tenant"])
	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(hostile)), d["held_by"].([]any)[1].(object)["tenant_base64"])
	assert.Equal(t, "", d["queue"].([]any)[1].(object)["tenant"])
	out, _ = o.does(0, "show", "n", "--json")
	requireHarmless(t, strings.ReplaceAll(out, "\ufffd", ""))
}

func TestShowHasNoTenantsWhereNoCallNamesOne(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	o.wait("w", "n", 1, 1)
	out, _ := o.does(0, "show", "n")
	assert.NotContains(t, out, "TENANT")
	assert.Equal(t, []any{}, o.json("show", "n")["tenants"])
}

func TestEvictOfATenantRevokesAllItsPermitsAndRemovesItsWaiters(t *testing.T) {
	o := newOffice(t)
	acme, other := fairsem.CallOptions{Tenant: "acme inc"}, fairsem.CallOptions{Tenant: "acme"}
	held := []*fairsem.Permit{o.holdAs("n", 3, 1, acme), o.holdAs("n", 3, 1, acme)}
	kept, waits, stays := o.holdAs("n", 3, 1, other), o.waitAs("n", 3, acme), o.waitAs("n", 3, other)
	_, notify := o.does(2, "evict", "n", "--tenant", "acme inc")
	assert.Contains(t, notify, "give --yes")
	out, notify := o.does(0, "evict", "n", "--tenant", "acme inc", "--yes")
	assert.Contains(t, notify, "This evicts 2 holders and 1 waiter from \"n\":")
	assert.Contains(t, notify, "'acme inc'")
	assert.Contains(t, out, "\"n\": evicted 2 holders and 1 waiter; limit 3,")
	require.ErrorIs(t, <-waits, fairsem.ErrEvicted)
	require.NoError(t, <-stays)
	for _, p := range held {
		<-p.Context().Done()
	}
	assert.NoError(t, kept.Context().Err())
	_, notify = o.does(1, "evict", "n", "--tenant", "acme inc", "--yes")
	assert.Equal(t, "fairsem: nothing to evict: no holder or waiter is of the tenant \"acme inc\"\n", notify)
}

func TestEvictOfTheEmptyTenantLeavesThoseWithAName(t *testing.T) {
	o := newOffice(t)
	nameless, kept := o.holdAs("n", 3, 1, fairsem.CallOptions{}), o.holdAs("n", 3, 1, fairsem.CallOptions{Tenant: "acme"})
	d := o.json("evict", "n", "--tenant", "", "--yes")
	<-nameless.Context().Done()
	assert.Len(t, d["evicted_holders"], 1)
	assert.NoError(t, kept.Context().Err())
}

// One is as it is what the other is as it is written. Which one is meant cannot be known, so neither is evicted.
func TestATenantThatReadsLikeAnotherIsNotEvicted(t *testing.T) {
	o := newOffice(t)
	raw := o.holdAs("n", 3, 1, fairsem.CallOptions{Tenant: "a\xff"})
	o.holdAs("n", 3, 1, fairsem.CallOptions{Tenant: `a\xff`})
	_, notify := o.does(1, "evict", "n", "--tenant", `a\xff`, "--yes")
	assert.Contains(t, notify, "means 2 tenants")
	assert.Equal(t, int64(2), o.status("n").Holders)
	out, _ := o.does(0, "show", "n")
	assert.Contains(t, out, `'a\xff' `)
	assert.Contains(t, out, `'a\\xff' `)
	o.does(0, "evict", "n", "--tenant", `a\\xff`, "--yes")
	assert.Equal(t, int64(1), o.status("n").Holders)
	assert.NoError(t, raw.Context().Err())
	o.does(0, "evict", "n", "--tenant", `a\xff`, "--yes") // now it can only mean one
	assert.Zero(t, o.status("n").Holders)
}

// Users paste the output: a tenant can contain text that a shell or a terminal obeys, and bytes that no argument can have.
func TestWhatShowWritesOfIDsAndTenantsCanBePastedIntoEvict(t *testing.T) {
	o := newOffice(t)
	for i, tenant := range []string{hostile, "$(touch pwned)", "it's; true", "nul\x00", "-x", "*", "~", `back\slash`, `\xff`} {
		name := string(rune('a' + i))
		for range 2 {
			o.holdAs(name, 2, 1, fairsem.CallOptions{Tenant: tenant})
		}
		out, _ := o.does(0, "show", name)
		_, table, _ := strings.Cut(out, "\nTENANT")
		row := strings.Split(table, "\n")[1]
		written, _, _ := strings.Cut(row, "     2 ")
		_, holders, _ := strings.Cut(out, "\nHOLDER")
		fields := strings.Fields(strings.Split(holders, "\n")[1])
		id := fields[len(fields)-1]
		o.pastes("fairsem evict " + name + " --yes --prefix " + o.prefix + " " + id)
		assert.Equal(t, int64(1), o.status(name).Holders, id)
		o.pastes("fairsem evict " + name + " --yes --prefix " + o.prefix + " --tenant=" + strings.TrimSpace(written))
		assert.Zero(t, o.status(name).Holders, written)
	}
}

// The id of a permit contains the tenant, and FAIRSEM_ID and --json have the whole id.
func TestEvictAcceptsWholeIDsWithTheirTenants(t *testing.T) {
	o := newOffice(t)
	for _, tenant := range []string{"acme inc:7", hostile} {
		whole, written := o.holdAs("n", 2, 1, fairsem.CallOptions{Tenant: tenant}), o.holdAs("n", 2, 1, fairsem.CallOptions{Tenant: tenant})
		ids := o.json("show", "n")["held_by"].([]any)
		o.does(0, "evict", "n", whole.ID(), "--yes")
		<-whole.Context().Done()
		o.does(0, "evict", "n", ids[1].(object)["id"].(string), "--yes")
		<-written.Context().Done()
		assert.Zero(t, o.status("n").Holders)
	}
}

// An id that another program has stored can be anything.
func TestAForeignIDCanBePastedIntoEvict(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 9, 1)
	const id = "it's \x1b[2J\x00;$(id)"
	far := float64(time.Now().Add(time.Minute).UnixMilli())
	require.NoError(t, o.rdb.Do(t.Context(), "ZADD", o.key("n", "timeout"), far, id).Err())
	require.NoError(t, o.rdb.Do(t.Context(), "ZADD", o.key("n", "owner"), 7, id).Err())
	out, _ := o.does(0, "show", "n")
	_, written, found := strings.Cut(out, "  7  ")
	require.True(t, found, out)
	written, _, _ = strings.Cut(written, "\n")
	assert.Equal(t, `'it'\''s \x1b[2J\x00;$(id)'`, written)
	o.pastes("fairsem evict n --yes --prefix " + o.prefix + " " + written)
	assert.Equal(t, int64(1), o.status("n").Holders)
}

// pastes runs a line in a shell.
func (o *office) pastes(line string) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = o.t.TempDir(), append(os.Environ(), "REDIS_URL="+o.url)
	out, err := cmd.CombinedOutput()
	require.NoError(o.t, err, "%s: %s", line, out)
}
