package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

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
