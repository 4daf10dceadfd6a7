package demo

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// past is a side with jobs that have ended.
func past(grants ...history.Grant) *side {
	s := &side{title: "with tenants", shared: true, most: 1, inQueue: make(map[string]int64), grants: make(map[*job]struct{})}
	for _, g := range grants {
		s.grants[&job{Grant: g, customer: g.Tenant}] = struct{}{}
	}
	return s
}

func grantOf(tenant, id string, token, asked, position, granted, released int64) history.Grant {
	return history.Grant{
		Process: tenant, Tenant: tenant, ID: id, Weight: 1, Token: token, Asked: asked, Position: position, Granted: granted, Released: released, Done: released + 1,
	}
}

func brokenPromises(s *side, left int64) (all []string) {
	for _, v := range s.judge(left) {
		if !v.Held {
			all = append(all, v.Promise)
		}
	}
	return all
}

func TestEachPromiseToTenantsCanBeBroken(t *testing.T) {
	t.Parallel()
	fair := []history.Grant{ // n:4 is in the queue when q:1 comes
		grantOf(noisy, "n:1", 1, 1, 0, 2, 50), grantOf(noisy, "n:2", 2, 1, 0, 2, 50), grantOf(noisy, "n:3", 3, 1, 0, 2, 9),
		grantOf(quiet, "q:1", 4, 7, 8, 11, 30), grantOf(noisy, "n:4", 5, 5, 6, 32, 50),
	}
	assert.Empty(t, brokenPromises(past(fair...), 0))
	assert.Equal(t, []string{"with tenants: nothing is left"}, brokenPromises(past(fair...), 1))
	assert.True(t, past(fair...).hasEvidence())
	assert.Contains(t, brokenPromises(past(), 0), "with tenants: next is the tenant that holds least", "without a job there is no evidence")
	assert.False(t, past().hasEvidence())

	over := append(slices.Clone(fair), grantOf(noisy, "n:5", 6, 1, 0, 12, 50))
	assert.Contains(t, brokenPromises(past(over...), 0), "with tenants: at most 3 units in use")

	alone := past(fair[:3]...)
	assert.Contains(t, brokenPromises(alone, 0), "with tenants: next is the tenant that holds least", "nobody waits")
	assert.False(t, alone.hasEvidence())
	late := past(fair...)
	late.see(20, []fairsem.Ticket{{ID: "q:1"}}) // n:3 had been released by then
	assert.Equal(t, []string{"with tenants: no unit stays free"}, brokenPromises(late, 0))

	// First come, first served, as without tenants: n:4 was in the queue before q:1, and was seen there after that.
	swapped := past(slices.Concat(fair[:3], []history.Grant{grantOf(noisy, "n:4", 4, 5, 6, 11, 30), grantOf(quiet, "q:1", 5, 7, 8, 32, 50)})...)
	swapped.see(9, []fairsem.Ticket{{ID: "n:4"}})
	assert.Equal(t, []string{"with tenants: next is the tenant that holds least"}, brokenPromises(swapped, 0))

	unfair := []history.Grant{
		grantOf(noisy, "n:1", 1, 1, 0, 2, 90), grantOf(noisy, "n:2", 2, 1, 0, 3, 90), grantOf(noisy, "n:3", 3, 1, 0, 4, 20),
		grantOf(noisy, "n:4", 4, 21, 0, 22, 60), grantOf(quiet, "q:1", 5, 5, 6, 61, 70),
	}
	assert.Contains(t, brokenPromises(past(unfair...), 0), "with tenants: next is the tenant that holds least")
}

func TestBothSidesAreBesideEachOtherOrBelow(t *testing.T) {
	t.Parallel()
	f := neighbourFrame{elapsed: 1200 * time.Millisecond, place: "here"}
	for i, title := range []string{"without tenants", "with tenants"} {
		f.sides[i] = sideFrame{title, map[string]int64{noisy: 2, quiet: 1}, map[string]int64{noisy: 28}, []time.Duration{12 * time.Millisecond, 2 * time.Second}}
	}
	for _, size := range [][2]int{{100, 30}, {40, 30}, {20, 4}} {
		drawn := ansi.Strip(f.render(time.Time{}, size[0], size[1], coarse))
		for _, line := range strings.Split(drawn, "\n") {
			assert.LessOrEqual(t, lipgloss.Width(line), size[0])
		}
		assert.LessOrEqual(t, strings.Count(drawn, "\n")+1, size[1])
	}
	assert.Regexp(t, `# # #  +# # #`, ansi.Strip(f.render(time.Time{}, 100, 30, coarse)))
	assert.Contains(t, ansi.Strip(f.render(time.Time{}, 40, 30, coarse)), "they waited 12 ms, 2.0 s")
}

func TestTheLogOfTenantsHasALineForEachSideAndSecond(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &neighbourLog{logWriter: logWriter{&out}}
	for _, at := range []time.Duration{100, 900, 1100, 1900, 2100} {
		f := neighbourFrame{elapsed: at * time.Millisecond}
		f.sides[0].title, f.sides[1].title = "without tenants", "with tenants"
		l.show(f)
	}
	assert.Equal(t, 6, strings.Count(out.String(), "noisy holds"), out.String())
	assert.Equal(t, 1, strings.Count(out.String(), "fairsem demo tenants"), out.String())
}
