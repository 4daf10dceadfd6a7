package protocol

import (
	"errors"
	"slices"
	"time"
)

// State is the state of an id in a reply. states.lua has the same list.
type State int64

// The states.
const (
	Gone State = iota
	Held
	Waiting
	Refused
	Full
	TooBig
	Early
	Evicted

	states // the number of states
)

// Result is the state of one id. Number is the token of a holder, the position of a waiter, or, if the request was early
// or was refused by a rate, the milliseconds after which to retry.
type Result struct {
	State   State
	Number  int64
	Numbers []int64 // of the units of a holder, where they have numbers, and unless its caller knows them
}

// wait returns the milliseconds after which to retry, or 0.
func (r Result) wait() int64 {
	if r.State == Early || r.State == Refused {
		return r.Number
	}
	return 0
}

// Grant says that the waiter at that position was granted that token. Token 0: it must poll.
type Grant struct {
	Seq, Position, Token int64
	Numbers              []int64 // of its units, where they have numbers
}

// Equal reports whether g and other are the same.
func (g Grant) Equal(other Grant) bool {
	return g.Seq == other.Seq && g.Position == other.Position && g.Token == other.Token && slices.Equal(g.Numbers, other.Numbers)
}

// Reply is the reply of a script that can change something. A full script returns it as one list of numbers.
type Reply struct {
	Since   int64         // when this client first used the limit that was sent
	Next    time.Duration // until the nearest deadline; negative: not reported
	More    bool          // the script stopped at its bound
	Epoch   int64         // of the name; if it differs from the one before, state may have been lost. 0: not reported
	Room    int64         // of a rate: available units; of another limit, what is in force, if the call released a permit that is missing since others were granted some
	Server  int64         // which one replied; 0: unknown
	Plain   Plain         // which plain scripts may answer the next call
	Waiters int64         // in the queue after the call
	Results []Result
	Grants  []Grant
}

// ErrReply means that a reply has another form.
var ErrReply = errors.New("unexpected reply from a script: is another program using its keys?")

// Head is the count of numbers with which every [Reply] begins.
const Head = 8

// numberMark, where a grant has a position, is that of a token and one number of its units.
const numberMark = -1

// MaxWait is the most milliseconds that a reply may ask to wait. A Duration holds little more.
const MaxWait = 1 << 43

// DecodeReply checks and converts the reply to a call with n ids.
func DecodeReply(raw []int64, n int) (Reply, error) {
	if len(raw) < Head+2*n || (len(raw)-Head-2*n)%3 != 0 || raw[1] > MaxWait {
		return Reply{}, ErrReply
	}
	r := Reply{
		Since:   raw[0],
		Next:    time.Duration(raw[1]) * time.Millisecond,
		More:    raw[2] != 0,
		Epoch:   raw[3],
		Room:    raw[4],
		Server:  raw[5],
		Plain:   Plain(raw[6]),
		Waiters: raw[7],
		Results: make([]Result, 0, n),
	}
	if !r.addResults(raw[Head:Head+2*n]) || !r.addGrants(raw[Head+2*n:]) {
		return Reply{}, ErrReply
	}
	return r, nil
}

// addResults adds a result for each two numbers, and reports whether all are possible.
func (r *Reply) addResults(raw []int64) bool {
	for ; len(raw) > 0; raw = raw[2:] {
		one := Result{State: State(raw[0]), Number: raw[1]}
		if one.State < 0 || one.State >= states || one.Number < 0 || one.wait() > MaxWait {
			return false
		}
		r.Results = append(r.Results, one)
	}
	return true
}

// addGrants adds the rest of a reply, after its results, and reports whether it has the right form.
func (r *Reply) addGrants(raw []int64) bool {
	var numbers map[int64][]int64 // by token
	for ; len(raw) > 0; raw = raw[3:] {
		if raw[1] != numberMark {
			r.Grants = append(r.Grants, Grant{Seq: raw[0], Position: raw[1], Token: raw[2]})
			continue
		}
		if raw[2] < 0 || raw[2] > MaxUnits {
			return false
		}
		if numbers == nil {
			numbers = make(map[int64][]int64)
		}
		numbers[raw[0]] = append(numbers[raw[0]], raw[2])
	}
	if numbers == nil {
		return true
	}
	for i := range r.Grants {
		r.Grants[i].Numbers = numbers[r.Grants[i].Token]
	}
	for i, one := range r.Results {
		if one.State == Held {
			r.Results[i].Numbers = numbers[one.Number]
		}
	}
	return true
}
