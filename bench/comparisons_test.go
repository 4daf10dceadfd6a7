package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCPUIsComparedWithThePINGsOnTheSameCoresInTheSameRound(t *testing.T) {
	s := &section{}
	for round := range 2 {
		times := float64(round + 1)
		s.add(fair, figures{"cpu": 12 * times})
		s.add(pings, figures{"cpu": 4 * times})
		s.add(fair+ownCoreLabel, figures{"cpu": 10 * times})
		s.add(pings+ownCoreLabel, figures{"cpu": 5 * times * float64(1-round)}) // none was seen in the second round
	}
	s.relateCPU(pings)
	assert.Equal(t, []float64{3, 3}, s.of(fair, cpuOfPings))
	assert.Equal(t, []float64{1, 1}, s.of(pings, cpuOfPings))
	assert.Equal(t, []float64{2}, s.of(fair+ownCoreLabel, cpuOfPings))
}
