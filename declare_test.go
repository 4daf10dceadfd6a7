package fairsem

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Tenants are many more than limits, and must not make a client forget these: it would declare a new limit as an old one.
func TestManyTenantsDoNotMakeANewLimitAnOldOne(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now().Add(-time.Hour)}
	q := protocol.LimitSpec{Limit: 10}
	d.declare("api", q)
	for i := range 2*rememberedDeclarations + 1 {
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1}, time.Now())
	}
	assert.WithinDuration(t, time.Now(), d.declare("api", protocol.LimitSpec{Limit: 20}).First, time.Minute)
}

func TestShareThatChangesAfterItsTenantWasForgottenIsTheNewest(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now().Add(-time.Hour)}
	q := protocol.LimitSpec{Limit: 10}
	d.declare("api", q)
	before := d.declareTenant("api", q, account{tenant: "x", share: 1}, time.Now())
	for i := range 2*rememberedDeclarations + 1 {
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1}, time.Now())
	}
	assert.Greater(t, d.declareTenant("api", q, account{tenant: "x", share: 2}, time.Now()), before)
}

// In a rolling deployment the old processes repeat the share that a new one has replaced.
// It counted as newer once they had used enough other tenants.
func TestManyTenantsDoNotMakeAnOldShareANewOne(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	q := protocol.LimitSpec{Limit: 10}
	paying, plain := account{tenant: "x", share: 3}, account{tenant: "y", share: 1}
	first, second := d.declareTenant("api", q, paying, time.Now()), d.declareTenant("api", q, plain, time.Now())
	for i := range 2*rememberedDeclarations + 1 {
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1}, time.Now())
	}
	assert.Equal(t, first, d.declareTenant("api", q, paying, time.Now()))
	assert.LessOrEqual(t, d.declareTenant("api", q, plain, time.Now()), second)
}

// It counted as older than the declarations of others in the meantime.
func TestShareThatIsFirstDeclaredAfterManyTenantsIsNew(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	q := protocol.LimitSpec{Limit: 10}
	for i := range 2*rememberedDeclarations + 1 {
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1}, time.Now())
	}
	asked := time.Now()
	d.declareTenant("api", q, account{tenant: "x", share: 2}, asked)
	assert.Equal(t, asked, d.tenants.now[handle{name: "api", tenant: "x"}].here)
}

func TestShareThatChangesBackIsTheNewest(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	q := protocol.LimitSpec{Limit: 10}
	one, two := account{tenant: "x", share: 1}, account{tenant: "x", share: 2}
	at := time.Now()
	first := d.declareTenant("api", q, one, at)
	assert.Equal(t, first, d.declareTenant("api", q, one, at.Add(time.Second)), "repeating it makes it no newer")
	second := d.declareTenant("api", q, two, at.Add(2*time.Second))
	assert.Greater(t, second, first)
	assert.Greater(t, d.declareTenant("api", q, one, at.Add(3*time.Second)), second)
}

// The times were those of each limit, so the process repeated an old declaration that it had replaced by a call with another limit.
func TestShareThatChangesBackIsTheNewestWhateverLimitItsCallsDeclare(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	one, two := account{tenant: "x", share: 1}, account{tenant: "x", share: 2}
	at := time.Now()
	used := make(map[int64]time.Time) // since when each limit is
	declared := func(limit int64, a account, asked time.Time) time.Time {
		q := protocol.LimitSpec{Limit: limit}
		after := d.declareTenant("api", q, a, asked)
		if _, known := used[limit]; !known {
			used[limit] = d.limits.now[handle{name: "api", spec: q}].here
		}
		return used[limit].Add(after)
	}
	first := declared(10, one, at)
	second := declared(20, two, at.Add(2*time.Second))
	assert.True(t, second.After(first))
	assert.True(t, declared(10, one, at.Add(3*time.Second)).After(second))
	third := declared(10, one, at.Add(4*time.Second))
	assert.Zero(t, declared(30, one, at.Add(5*time.Second)).Sub(third), "repeating it makes it no newer")
}

// A call that waits since before another share or limit was declared asks again when its position is lost, and a permit from before is
// restored. That brought back its declaration.
func TestCallFromBeforeAChangeDoesNotUndoIt(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	q := protocol.LimitSpec{Limit: 10}
	of := func(share int64) *CallOptions { return &CallOptions{Tenant: "x", Share: share} }
	one, two := of(1).account(), of(2).account()
	before, after := time.Now(), time.Now().Add(time.Second)
	first := d.declareTenant("api", q, one, before)
	second := d.declareTenant("api", q, two, after)
	assert.Equal(t, first, d.declareTenant("api", q, one, before))
	assert.Equal(t, second, d.declareTenant("api", q, two, after.Add(time.Second)), "it is still what was declared last")

	r := &request{state: &nameState{name: "api", host: &host{declared: d}}, key: requestKey{spec: q}}
	older, newer := &ticket{opts: of(1), asked: before}, &ticket{opts: of(2), asked: after}
	for _, tickets := range [][]*ticket{{older, newer}, {newer, older}} {
		r.tickets = tickets
		assert.Equal(t, []protocol.TenantSpec{{Name: "x", Share: 2, After: second}}, r.tenantsLocked(), "of two tickets in one call")
	}
}
