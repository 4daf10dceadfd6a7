package protocol

import (
	"errors"
	"time"
)

// State is the state of an id in a reply. semaphore.lua has the same list.
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
	State  State
	Number int64
}

// wait returns the milliseconds after which to retry, or 0.
func (r Result) wait() int64 {
	if r.State == Early || r.State == Refused {
		return r.Number
	}
	return 0
}

// Grant says that the waiter at that position was granted that token. Token 0: it must poll.
type Grant struct{ Seq, Position, Token int64 }

// Reply is what finish.lua returns, as one list of numbers.
type Reply struct {
	Since   int64         // when this client first used the limit that was sent
	Next    time.Duration // until the nearest deadline; negative: not reported
	More    bool          // the script stopped at its bound
	Epoch   int64         // of the name; if it differs from the one before, state may have been lost. 0: not reported
	Room    int64         // of a rate: available units
	Server  int64         // which one replied; 0: unknown
	Plain   Plain         // which plain scripts may answer the next call
	Waiters int64         // in the queue after the call
	Results []Result
	Grants  []Grant
}

// ErrReply means that a reply has another form.
var ErrReply = errors.New("unexpected reply from a script: is another program using its keys?")

// Head is the count of numbers with which every reply begins.
const Head = 8

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
		Results: make([]Result, n),
	}
	for i := range r.Results {
		one := Result{State(raw[Head+2*i]), raw[Head+2*i+1]}
		if one.State < 0 || one.State >= states || one.Number < 0 || one.wait() > MaxWait {
			return Reply{}, ErrReply
		}
		r.Results[i] = one
	}
	r.addGrants(raw[Head+2*n:])
	return r, nil
}

func (r *Reply) addGrants(raw []int64) {
	for ; len(raw) > 0; raw = raw[3:] {
		r.Grants = append(r.Grants, Grant{raw[0], raw[1], raw[2]})
	}
}
