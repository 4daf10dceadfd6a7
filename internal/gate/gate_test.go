package gate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/held"
)

// other is a limit of a type that no gate can acquire.
type other struct{}

func (other) Name() string                                         { return "other" }
func (other) Status(context.Context) (s fairsem.Status, err error) { return s, err }

func TestGateThatCanNeverWorkSaysWhy(t *testing.T) {
	t.Parallel()
	client := fairsemtest.NewServer(t).Client(fairsem.Options{})
	s, err := client.Semaphore("a", 1)
	require.NoError(t, err)
	lock, err := client.Mutex("lock")
	require.NoError(t, err)
	const none, unmade = "there is no limit", "is nil or a zero value"
	for _, one := range []struct {
		gate Gate[string, Limit]
		why  string
	}{
		{Gate[string, Limit]{}, none},
		{Gate[string, Limit]{Limit: (*fairsem.Semaphore)(nil)}, unmade},
		{Gate[string, Limit]{Limit: (*fairsem.Mutex)(nil)}, unmade},
		{Gate[string, Limit]{Limit: (*fairsem.Limiter)(nil)}, unmade},
		{Gate[string, Limit]{Limit: new(fairsem.Semaphore)}, unmade},
		{Gate[string, Limit]{Limit: new(fairsem.Mutex)}, unmade},
		{Gate[string, Limit]{Limit: new(fairsem.Limiter)}, unmade},
		{Gate[string, Limit]{Limit: client.Inspect("a")}, "not a *fairsem.Inspector"},
		{Gate[string, Limit]{Limit: other{}}, "not a gate.other"},
		{Gate[string, Limit]{Limit: s, LimitOf: func(string) (Limit, error) { return s, nil }}, "set one of them"},
		{Gate[string, Limit]{Limit: s, MaxWait: -2}, "MaxWait -2ns is below 0"},
		{Gate[string, Limit]{Limit: s, MaxWait: time.Second, OnUnavailable: 2}, "OnUnavailable 2"},
		{Gate[string, Limit]{Limit: s, OnUnavailable: Admit}, "Admit needs a MaxWait"},
		{Gate[string, Limit]{Limit: lock, Weight: func(string) int64 { return 1 }}, "a Mutex has one unit"},
	} {
		one.gate.Who = "fairsemx.New"
		err := one.gate.Check()
		require.ErrorIs(t, err, fairsem.ErrInvalid, one.why)
		assert.ErrorContains(t, err, "fairsemx.New: ")
		assert.ErrorContains(t, err, one.why)
	}
	for _, gate := range []Gate[string, Limit]{
		{Limit: s},
		{Limit: lock, OnUnavailable: Admit, MaxWait: time.Second},
		{LimitOf: func(string) (Limit, error) { return s, nil }, OnUnavailable: Admit, MaxWait: NoWait},
	} {
		assert.NoError(t, gate.Check())
	}
}

// The context of a loan that has not ended stays in the one around it for as long as that lasts.
func TestLoanHasEndedAfterAnErrorOrAPanic(t *testing.T) {
	t.Parallel()
	s, err := fairsemtest.NewServer(t).Client(fairsem.Options{}).Semaphore("a", 1)
	require.NoError(t, err)
	lend := func(gate Gate[string, Limit]) (loan *held.Loan, err error) {
		loan = new(held.Loan)
		defer func() {
			if panicked := recover(); panicked != nil {
				err = panicked.(error)
			}
		}()
		_, err = gate.Lend(t.Context(), loan, "request")
		return loan, err
	}
	lent, err := lend(Gate[string, Limit]{Limit: s})
	require.NoError(t, err)
	require.NoError(t, lent.Scope.Err())
	failure := errors.New("failure")
	for what, gate := range map[string]Gate[string, Limit]{
		"a refusal":           {Limit: s, MaxWait: NoWait},
		"an error of LimitOf": {LimitOf: func(string) (Limit, error) { return nil, failure }},
		"a panic of LimitOf":  {LimitOf: func(string) (Limit, error) { panic(failure) }},
		"a panic of Weight":   {Limit: s, Weight: func(string) int64 { panic(failure) }},
	} {
		loan, err := lend(gate)
		require.Error(t, err, what)
		assert.ErrorIs(t, loan.Scope.Err(), context.Canceled, what)
	}
	lent.End()
}
