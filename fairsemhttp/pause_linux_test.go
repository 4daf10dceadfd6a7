package fairsemhttp_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// Timers of a process that continues fire some time after its code runs again.
func TestFirstCheckOfTheContextAfterAPauseReportsTheLoss(t *testing.T) {
	w := newWorld(t)
	s := w.semaphore(1)
	p := w.start(order{Redis: w.addr, Name: w.name, Limit: 1, TTL: time.Second, Spin: true})
	line, err := p.out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	w.eventuallyUsed(s, 0)
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	line, err = p.out.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, fairsem.ErrLost.Error())
}
