package fair

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

func TestEndOfAPermitPutsOffNoCheckThatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // or a Release on a busy machine can take more than the second that it waits
		s, err := fairsemtest.NewServer(t).Client(fairsem.Options{}).Semaphore("a", 1)
		require.NoError(t, err)
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		sensor := SensorOf(slices.Values([]*fairsem.Permit{p}))
		require.True(t, sensor.Fresh)
		require.NoError(t, p.Release(t.Context()))
		for range 100 { // which of two that are ready is seen is random
			assert.True(t, sensor.await(time.Now()))
		}
		assert.False(t, sensor.await(time.Now().Add(time.Hour)))
		assert.False(t, sensor.await(time.Time{}))
		assert.True(t, SensorOf(slices.Values([]*fairsem.Permit{p})).Ended())
	})
}

func TestScheduleChecksAtOnceAndThenAsOftenAsOthersRenew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Schedule
		assert.Equal(t, time.Now(), s.Due())
		s.Next(s.Pause())
		assert.Equal(t, time.Now().Add(time.Second), s.Due(), "no TTL is known")

		s.Follow(Census{TTL: 9 * time.Second})
		assert.Equal(t, time.Now().Add(time.Second), s.Due(), "what is due stays so")
		s.Next(s.Pause())
		time.Sleep(5 * time.Second)
		assert.Equal(t, time.Now().Add(-2*time.Second), s.Due(), "a check that is late")
	})
}
