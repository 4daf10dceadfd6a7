package main

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

// A process that is stopped between its grant and its reading of the clock reads a time at which others have been granted more.
func TestGrantThatEndedBeforeItsProcessReadTheClockExplainsLaterOnes(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	for permit, legal := range map[context.Context]bool{t.Context(): false, over: true} {
		stopped := soloCall("a", "x:1", 10, 1, 20, 0)
		stopped.Granted, stopped.Done = 0, 0
		stopped.arrive(permit)
		stopped.Released, stopped.Ended = stopped.Granted, stopped.Returned+1
		calls := []*call{stopped, soloCall("b", "y:1", 20, 5, 6, 7)}
		assert.Equal(t, legal, porcupine.CheckOperations(permits(1), operations(calls, soloName)))
		assert.NotEmpty(t, deadOnArrival(evidenceOf(calls...)))
	}
}

func TestModelAcceptsOnlyHistoriesThatOneOrderExplains(t *testing.T) {
	unknown := soloCall("a", "x:1", 10, 1, 2, 3)
	unknown.Done = 0 // it is unknown whether its release arrived
	for name, c := range map[string]struct {
		calls []*call
		legal bool
	}{
		"no calls":                   {nil, true},
		"one after the other":        {[]*call{soloCall("a", "x:1", 10, 1, 2, 3), soloCall("b", "y:1", 20, 1, 5, 6)}, true},
		"at the same time":           {[]*call{soloCall("a", "x:1", 10, 1, 2, 9), soloCall("b", "y:1", 20, 1, 5, 6)}, false},
		"during a release":           {[]*call{soloCall("a", "x:1", 10, 1, 2, 5), soloCall("b", "y:1", 20, 1, 6, 7)}, true},
		"a token that decreases":     {[]*call{soloCall("a", "x:1", 20, 1, 2, 3), soloCall("b", "y:1", 10, 5, 6, 7)}, false},
		"a release that may be lost": {[]*call{unknown, soloCall("b", "y:1", 20, 5, 6, 7)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.legal, porcupine.CheckOperations(permits(1), operations(c.calls, soloName)))
		})
	}
}
