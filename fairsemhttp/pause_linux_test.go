package fairsemhttp_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// Timers of a process that continues fire some time after its code runs again.
func TestFirstCheckOfTheContextAfterAPauseReportsTheLoss(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	p := worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Limit: 1, TTL: time.Second, Spin: true})
	line, err := p.Out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	w.EventuallyUsed(s, 0)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	line, err = p.Out.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, fairsem.ErrLost.Error())
}
