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
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1})
	}
	assert.Less(t, d.declare("api", protocol.LimitSpec{Limit: 20}).Age, time.Minute)
}

func TestShareThatChangesAfterItsTenantWasForgottenIsTheNewest(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now().Add(-time.Hour)}
	q := protocol.LimitSpec{Limit: 10}
	d.declare("api", q)
	before := d.declareTenant("api", q, account{tenant: "x", share: 1})
	for i := range 2*rememberedDeclarations + 1 {
		d.declareTenant("api", q, account{tenant: fmt.Sprint(i), share: 1})
	}
	assert.Greater(t, d.declareTenant("api", q, account{tenant: "x", share: 2}), before)
}

func TestShareThatChangesBackIsTheNewest(t *testing.T) {
	t.Parallel()
	d := &declarations{began: time.Now()}
	q := protocol.LimitSpec{Limit: 10}
	one, two := account{tenant: "x", share: 1}, account{tenant: "x", share: 2}
	first := d.declareTenant("api", q, one)
	assert.Equal(t, first, d.declareTenant("api", q, one), "repeating it makes it no newer")
	second := d.declareTenant("api", q, two)
	assert.Greater(t, second, first)
	assert.Greater(t, d.declareTenant("api", q, one), second)
}
