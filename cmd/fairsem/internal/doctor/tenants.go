package doctor

import (
	"context"
	"fmt"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/protocol"
)

// accounts is the reply of audit_tenants.lua: the stored counts of the tenants of a name, and the differences from their entries.
type accounts struct {
	complete, counting bool
	sum, units         int64 // of all; a sum below 0: there is none
	wrong              int64 // tenants
	first              string
	counted, has       [2]int64 // units and permits of the first
	missing, surplus   int64    // of lanes
	waiter             string   // the first that is missing
	stuck, late        int64    // tenants
	firstStuck         string
	firstLate          string
}

func decodeAccounts(raw []any) (a accounts, err error) {
	const parts, wrongParts = 9, 6
	if len(raw) != parts {
		return a, errReply
	}
	a.complete, a.counting = number(raw[0]) == 1, number(raw[1]) == 1
	a.sum, a.units = number(raw[2]), number(raw[3])
	if wrong := list(raw[4]); len(wrong) == wrongParts {
		a.wrong, a.first = number(wrong[0]), word(wrong[1])
		a.counted, a.has = [2]int64{number(wrong[2]), number(wrong[3])}, [2]int64{number(wrong[4]), number(wrong[5])}
	}
	a.missing, a.waiter = some(raw[5])
	a.surplus = number(raw[6])
	a.stuck, a.firstStuck = some(raw[7])
	a.late, a.firstLate = some(raw[8])
	return a, nil
}

// judgeTenants checks the counts of the tenants of a name, if they share it. That cannot be done a part at a time.
func (p *target) judgeTenants(ctx context.Context, name string, f facts) ([]Finding, error) {
	if !f.shared || !f.complete() {
		return nil, nil
	}
	raw, err := p.audit(ctx, protocol.AuditTenantsScript, name, idsPerQuery)
	if err != nil {
		return nil, err
	}
	a, err := decodeAccounts(raw)
	return a.judge(), err
}

// Advice that says when the counts of tenants are corrected.
const (
	atNextCall    = "nothing, the next call counts again; find what wrote to the keys"
	atNextRenewal = "nothing, up to 149 permits: scripts count again when they renew the expiry of the keys, or at the next call if the sum is wrong; " +
		"find what wrote to the key"
)

// judge compares the stored counts with the entries. While the scripts count again they grant nothing, and nothing is compared.
func (a accounts) judge() (bad []Finding) {
	if !a.complete || a.counting {
		return nil
	}
	if a.sum != a.units && (a.sum >= 0 || a.units > 0) {
		bad = append(bad, warn(fmt.Sprintf("%d units in use are counted as %d for all tenants", a.units, max(0, a.sum)),
			atNextCall).with("problem", "tenant-sum"))
	}
	if a.wrong > 0 {
		bad = append(bad, fail(fmt.Sprintf("tenants that hold something else than is counted, so their shares are wrong: %d, the first %s, with %s in %s, counted as %d in %d",
			a.wrong, text.Word(a.first), render.Count(a.has[0], "unit"), render.Count(a.has[1], "permit"), a.counted[0], a.counted[1]),
			atNextRenewal).with("problem", "tenant").with("tenant", a.first))
	}
	return append(bad, a.judgeLanes()...)
}

// judgeLanes checks which waiters are known by tenant, and whose turn it may be.
func (a accounts) judgeLanes() (bad []Finding) {
	if a.missing > 0 {
		bad = append(bad, fail(fmt.Sprintf("waiters that are missing in the queue of their tenant: %d, the first %s", a.missing, idWord(a.waiter)),
			atNextCall+"; if it stays, fairsem evict NAME ID").with("problem", "lane").with("ids", []string{a.waiter}))
	}
	if a.surplus > 0 {
		bad = append(bad, fail(fmt.Sprintf("entries in the queues of tenants that are no waiters, which can hold up others: %d", a.surplus),
			atNextCall).with("problem", "lane-surplus"))
	}
	if a.missing > 0 || a.surplus > 0 {
		return bad // the turns follow from the lanes
	}
	if a.stuck > 0 {
		bad = append(bad, fail(fmt.Sprintf("tenants whose turn never comes although they wait: %d, the first %s", a.stuck, text.Word(a.firstStuck)),
			"fairsem evict NAME --tenant TENANT: its callers may call again; or DEL the key lanes, from which the next call makes both anew").with("problem", "turn").with("tenant", a.firstStuck))
	}
	if a.late > 0 {
		bad = append(bad, warn(fmt.Sprintf("tenants whose turn is not where the units that they hold put it: %d, the first %s", a.late, text.Word(a.firstLate)),
			"nothing, a grant to the tenant or a release corrects it; find what wrote to the key").with("problem", "turn-late").with("tenant", a.firstLate))
	}
	return bad
}
