package main

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// porcupineTimeout is how long porcupine may search for an order. After that the result is undecided.
const porcupineTimeout = 20 * time.Second

// undecided marks a history that porcupine could not decide: neither a violation nor a proof that there is none.
const undecided = "undecided"

// permitsState is the state of a semaphore in the model: the units in use and the last token.
type permitsState struct{ used, token int64 }

// operation is a grant of n units with a token or, if token is 0, the release of n units.
type operation struct{ n, token int64 }

// permits returns the model of a semaphore: a grant must fit and must have a token above all earlier ones, and a release frees
// units. The model does not contain the order of the queue, because the histories do not show it.
func permits(limit int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return permitsState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(permitsState), input.(operation)
			if in.token == 0 {
				return s.used >= in.n, permitsState{s.used - in.n, s.token}
			}
			return s.used+in.n <= limit && in.token > s.token, permitsState{s.used + in.n, in.token}
		},
	}
}

// operations returns the history of a semaphore for porcupine. A grant took effect while Acquire ran. Its end took effect while
// Release ran or, if that is unknown, at any time after the permit was last seen to be live. An Acquire that returned no permit
// may have held units for a moment. It is left out, because that cannot explain any other grant.
func operations(calls []*call, name string) []porcupine.Operation {
	var all []porcupine.Operation
	for _, c := range calls {
		if c.Name != name || c.Granted == 0 {
			continue
		}
		done := int64(math.MaxInt64)
		if c.Done > 0 {
			done = c.Done
		}
		all = append(all,
			porcupine.Operation{Input: operation{c.Weight, c.Token}, Call: c.Asked, Return: c.Granted},
			porcupine.Operation{Input: operation{c.Weight, 0}, Call: c.Released, Return: done})
	}
	return all
}
