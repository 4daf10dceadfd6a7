package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// Programs take an error of a context for a client that is gone: they neither log it nor try again.
func TestMaxWaitThatEndsWhileRedisDoesNotAnswerIsNoEndOfAContext(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{time.Second, NoWait} {
		for kind := range limits(t, fairsemtest.NewServer(t).Client(fairsem.Options{})) {
			synctest.Test(t, func(t *testing.T) {
				server := fairsemtest.NewServer(t)
				g := Gate[string, Limit]{Who: "fairsemx.New", Limit: limits(t, server.Client(fairsem.Options{}))[kind], MaxWait: wait}
				server.Down()
				loan := new(held.Loan)
				_, err := g.Lend(t.Context(), loan, "")
				for _, is := range []error{fairsem.ErrUnavailable, fairsem.ErrNotAcquired} {
					assert.ErrorIs(t, err, is, "%s, %v", kind, wait)
				}
				for _, not := range []error{context.Canceled, context.DeadlineExceeded} {
					assert.NotErrorIs(t, err, not, "%s, %v", kind, wait)
				}
				assert.Equal(t, Unavailable, VerdictOf(err))
			})
		}
	}
}

// limits are one of each kind.
func limits(t *testing.T, c *fairsem.Client) map[string]Limit {
	t.Helper()
	s, err := c.Semaphore("semaphore", 1)
	require.NoError(t, err)
	lock, err := c.Mutex("lock")
	require.NoError(t, err)
	limiter, err := c.Limiter("limiter", 1, time.Hour)
	require.NoError(t, err)
	return map[string]Limit{"semaphore": s, "lock": lock, "limiter": limiter}
}

func TestEndOfTheContextOfTheCallerIsToldAsSuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		for kind, limit := range limits(t, server.Client(fairsem.Options{})) {
			g := Gate[string, Limit]{Who: "fairsemx.New", Limit: limit, MaxWait: time.Hour}
			if limiter, is := limit.(*fairsem.Limiter); is { // it would know that the wait is in vain
				g.Limit = limiter.With(fairsem.CallOptions{HeadStart: time.Second})
			}
			loan := new(held.Loan)
			_, err := g.Lend(t.Context(), loan, "")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = g.Lend(ctx, new(held.Loan), "")
			cancel()
			assert.ErrorIs(t, err, context.DeadlineExceeded, kind)
			loan.End()
		}
	})
}

// Admit would let everything through for as long as the mistake stands.
func TestRequestOnANameOfTheOtherKindIsAMistake(t *testing.T) {
	t.Parallel()
	client := fairsemtest.NewServer(t).Client(fairsem.Options{})
	limiter, err := client.Limiter("a", 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	s, err := client.Semaphore("a", 1)
	require.NoError(t, err)
	g := Gate[string, Limit]{Who: "fairsemx.New", Limit: s, MaxWait: time.Minute, OnUnavailable: Admit}
	_, err = g.Lend(t.Context(), new(held.Loan), "")
	require.ErrorContains(t, err, "FAIRSEMKIND")
	assert.Equal(t, Mistake, VerdictOf(err))
	assert.Zero(t, RetryAfter(t.Context(), s, err))
}
