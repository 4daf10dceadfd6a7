package fairsem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
