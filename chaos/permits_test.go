package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
)

func TestPermitsHaveOneOrderThatExplainsThem(t *testing.T) {
	unknown := permit("a", "x:1", 10, 1, 2, 3)
	unknown.Done = 0 // nobody knows whether its release arrived
	for name, c := range map[string]struct {
		calls []*call
		legal bool
	}{
		"nothing happened":           {nil, true},
		"one after the other":        {[]*call{permit("a", "x:1", 10, 1, 2, 3), permit("b", "y:1", 20, 1, 5, 6)}, true},
		"at the same time":           {[]*call{permit("a", "x:1", 10, 1, 2, 9), permit("b", "y:1", 20, 1, 5, 6)}, false},
		"while a release is on":      {[]*call{permit("a", "x:1", 10, 1, 2, 5), permit("b", "y:1", 20, 1, 6, 7)}, true},
		"a token that goes back":     {[]*call{permit("a", "x:1", 20, 1, 2, 3), permit("b", "y:1", 10, 5, 6, 7)}, false},
		"a release that may be lost": {[]*call{unknown, permit("b", "y:1", 20, 5, 6, 7)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.legal, porcupine.CheckOperations(permits(1), operations(c.calls, soloName)))
		})
	}
}
