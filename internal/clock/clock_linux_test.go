package clock

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The uptime of the kernel includes suspensions.
func TestSuspendedIsTheUptimeBeyondTheMonotonicClock(t *testing.T) {
	t.Parallel()
	uptime := func() time.Duration {
		text, err := os.ReadFile("/proc/uptime")
		require.NoError(t, err)
		seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
		require.NoError(t, err)
		return time.Duration(seconds * float64(time.Second))
	}
	before := uptime()
	var awake unix.Timespec
	require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake))
	total, known := suspended()
	after := uptime()
	require.True(t, known)
	const rounding = 10*time.Millisecond + Jitter
	booted := time.Duration(awake.Nano()) + total
	assert.GreaterOrEqual(t, booted, before-rounding)
	assert.LessOrEqual(t, booted, after+rounding)
}

// The clocks of this machine, which is not suspended during the test.
func TestClockOfThisMachineFindsNoSuspension(t *testing.T) {
	t.Parallel()
	c := New()
	for range 10 {
		c.checked.Store(0) // force a check
		assert.Zero(t, c.Now().Asleep)
	}
}
