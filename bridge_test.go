package fairsem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/bridge"
)

func TestHandleWithoutMaxWaitKeepsItsOtherOptions(t *testing.T) {
	t.Parallel()
	s := &Semaphore{Inspector: &Inspector{name: "a"}}
	o := CallOptions{MaxWait: time.Second, MaxQueue: 5, Tenant: "x"}
	want := &CallOptions{MaxQueue: 5, Tenant: "x"}
	assert.Equal(t, want, bridge.WithoutMaxWait(s.With(o)).(*Semaphore).opts)
	assert.Equal(t, want, bridge.WithoutMaxWait(newMutex(s).With(o)).(*Mutex).sem.opts)
	assert.Equal(t, want, bridge.WithoutMaxWait(newLimiter(s).With(o)).(*Limiter).semaphore.opts)
}

func TestHandleWithoutMaxWaitOfNilFailsInItsCalls(t *testing.T) {
	t.Parallel()
	_, err := bridge.WithoutMaxWait((*Semaphore)(nil)).(*Semaphore).Acquire(background, 1)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, bridge.WithoutMaxWait((*Limiter)(nil)).(*Limiter).Wait(background, 1), ErrInvalid)
}
