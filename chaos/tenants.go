package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// load describes the calls of a tenant.
type load struct {
	options fairsem.CallOptions
	weights int64         // the largest weight of a call
	hold    time.Duration // the longest
}

// loads has the load of each tenant. Tenants with a smaller share hold for longer: if grants were counted instead of units held, they would
// get too much. While all wait, the last one has the 2 units of its limit, and the others share 7 as 1:2.
var loads = []load{
	{fairsem.CallOptions{Tenant: "a", Share: 1}, 1, 100 * time.Millisecond},
	{fairsem.CallOptions{Tenant: "b", Share: 2}, 2, 60 * time.Millisecond},
	{fairsem.CallOptions{Tenant: "c", Share: 3, TenantLimit: 2}, 1, 20 * time.Millisecond},
}

// tenantActions returns an action for each tenant.
func (w *worker) tenantActions() []action {
	var all []action
	for _, l := range loads {
		all = append(all, func(ctx context.Context, random *rand.Rand) error { return w.useShared(ctx, random, l) })
	}
	return all
}

// useShared acquires the semaphore that tenants share, on the account of one of them. Unless calls are to be usual,
// half of them ask for numbers.
func (w *worker) useShared(ctx context.Context, random *rand.Rand, l load) error {
	c := &call{Name: sharedName, Try: random.IntN(16) == 0, Grant: history.Grant{
		Weight: 1, Tenant: l.options.Tenant, Share: l.options.Share, TenantLimit: l.options.TenantLimit,
		Numbered: !w.config.UsualTenants && random.IntN(2) == 0,
	}}
	l.options.Numbered = c.Numbered
	if !w.config.UsualTenants && random.IntN(8) == 0 {
		c.Weight = l.weights
	}
	hold := time.Duration((0.2 + 0.8*random.Float64()) * float64(l.hold))
	return w.acquireAndHold(ctx, w.shared.With(l.options), c, 4*time.Second, hold, random)
}
