package top

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// shared is a name of two tenants.
func shared() inspect.Detail {
	d := inside
	alice, bob, carol := holder("k3X-9Q_7aZc:1:ac\x1bme", "alice"), holder("k3X-9Q_7aZc:2", "bob"), waiter("k3X-9Q_7aZc:3:ac\x1bme", "carol")
	alice.Tenant, carol.Tenant = "ac\x1bme", "ac\x1bme"
	d.Holders, d.Waiters = []fairsem.Ticket{alice, bob}, []fairsem.Ticket{carol}
	d.Tenants.All = []fairsem.Tenant{
		{Name: "ac\x1bme", Share: 3, Limit: 4, Used: 2, Holders: 1, Waiting: 1, OldestWait: 12 * time.Second},
		{Share: 1, Used: 2, Holders: 1},
	}
	return d
}

func TestTenantsAreALevelOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup)
	b.press("<enter>")
	b.showDetail(shared())
	b.sees("t tenants")
	assert.Regexp(t, `alice +'ac\\x1bme' .* k3X-9Q:1 *$`, b.row("holds    alice"), "the ticket is beside its tenant")
	assert.Regexp(t, `bob +'' `, b.row("holds    bob"))
	b.press("t")
	assert.Regexp(t, `^ 'ac\\x1bme' +2 +1 +12s +3 +4 *$`, b.row("'ac"))
	assert.Regexp(t, `^ '' +2 +0 +- +1 +- *$`, b.row("''"))
	b.seesNot("alice")
	b.seesNot("t tenants")
	b.press("x")
	b.sees("open a tenant with enter to evict")
	b.press("<enter>")
	for range 2 { // at once, and after the next answer
		b.sees("alice")
		b.sees("carol")
		b.seesNot("bob")
		b.sees(`only of the tenant 'ac\x1bme'`)
		b.showDetail(shared())
	}
	b.press("<esc>j<enter>")
	b.sees("bob")
	b.seesNot("alice")
	b.press("<esc><esc>")
	b.sees("alice")
	b.sees("bob")
	b.press("<esc>")
	b.sees("backup")
}

func TestTheListOfTenantsSaysHowManyItLeavesOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup)
	b.press("<enter>")
	d := shared()
	d.Tenants.More = 3
	b.showDetail(d)
	b.press("t")
	b.sees("   3 more tenants are not shown")
	d.Tenants.Unread = true
	b.showDetail(d)
	b.sees("more than 3 more tenants are not shown")
}

func TestANameWithoutTenantsHasNoSuchLevel(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.seesNot("t tenants")
	b.press("t")
	b.sees("alice")
	b.showDetail(shared())
	b.press("t<enter>")
	b.showDetail(inside) // the last tenant has gone
	b.sees("alice")
	b.sees("bob")
}

// The id is the whole one; the part that is shown can be pasted into fairsem evict.
func TestATicketOfATenantIsEvictedByItsWholeID(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.showDetail(shared())
	b.press("x")
	b.sees("id k3X-9Q_7aZc:1")
	b.run(b.press("y"))
	assert.Equal(t, []string{"evict api k3X-9Q_7aZc:1:ac\x1bme"}, b.source.asked)
}
