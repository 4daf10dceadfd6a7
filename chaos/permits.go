package main

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// porcupinePatience is how long the search for an order may take. Where it does not end, nothing is known.
const porcupinePatience = 20 * time.Second

// undecided marks what porcupine could not decide, which is neither a violation nor a proof of none.
const undecided = "undecided"

// permitsState is a semaphore in the model: so many units are in use, and the last token was that.
type permitsState struct{ used, token int64 }

// step is one operation: a grant of n units with that token or, with token 0, the end of n units.
type step struct{ n, token int64 }

// permits is the model of a semaphore: a grant fits and has a token above all before it, an end gives
// back. Who asks first is not in it: an order of arrival is not to be seen from outside.
func permits(limit int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return permitsState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, in := state.(permitsState), input.(step)
			if in.token == 0 {
				return s.used >= in.n, permitsState{s.used - in.n, s.token}
			}
			return s.used+in.n <= limit && in.token > s.token, permitsState{s.used + in.n, in.token}
		},
	}
}

// operations is the history of a semaphore for porcupine. A grant took effect while Acquire ran. Its end
// did while Release ran or, where nobody knows, at any time after the permit was last seen to be live. An
// Acquire that returned nothing may have held something for a moment, which makes the others' case no
// better: it is left out.
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
			porcupine.Operation{Input: step{c.Weight, c.Token}, Call: c.Asked, Return: c.Granted},
			porcupine.Operation{Input: step{c.Weight, 0}, Call: c.Released, Return: done})
	}
	return all
}
