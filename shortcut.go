package fairsem

import (
	"slices"

	"github.com/fairsem/fairsem/internal/protocol"
)

// shortcut knows which plain scripts may answer calls about a name, by what its replies say. A plain call that is in vain
// costs a second round trip. After two in a row the replies have to say it several times.
type shortcut struct {
	plain  protocol.Plain // what the last full reply said
	told   int            // how many full replies in a row have said that the name is plain
	more   int            // how many of them are needed beyond the first
	inVain bool           // whether the last plain call was
}

// moreAfterMiss is what is needed beyond the first reply after two plain calls in a row that were in vain.
const moreAfterMiss = 8

// kind is what the next call may be.
func (s *shortcut) kind() protocol.Plain {
	if s.told > s.more {
		return s.plain
	}
	return protocol.NotPlain
}

// learn is called with what a reply says.
func (s *shortcut) learn(plain protocol.Plain, wasPlain bool) {
	switch {
	case wasPlain:
		s.more, s.inVain = 0, false
	case plain == protocol.NotPlain:
		s.told = 0
	default:
		s.plain = plain
		s.told++
	}
}

func (s *shortcut) missed() {
	if s.inVain {
		s.more = moreAfterMiss
	}
	s.told, s.inVain = 0, true
}

// plainScript returns the plain script that may answer a request which declares d, nil if there is none. The ids must be new
// and weigh 1, or be holders; and the server must know the declaration.
func (r *request) plainScript(d protocol.Declaration) *protocol.Script {
	if d.Since == 0 || r.bare || r.key.spec.Window > 0 || !r.isUsual() {
		return nil
	}
	acquires, params := r.key.script == protocol.AcquireScript, r.key.params
	switch r.state.shortcut.kind() {
	case protocol.PlainWithQueue:
		if r.state.epoch != 0 && (!acquires || params.Wait && params.MaxQueue == 0) {
			return protocol.PlainQueueScript
		}
	case protocol.PlainWithoutQueue:
		if acquires {
			return protocol.PlainAcquireScript
		}
		return protocol.PlainReleaseScript
	}
	return nil
}

// isUsual reports whether a request acquires new ids that weigh 1, or releases holders.
func (r *request) isUsual() bool {
	if r.key.script == protocol.AcquireScript {
		return !slices.ContainsFunc(r.tickets, func(t *ticket) bool { return t.Units() != 1 || t.maybeApplied })
	}
	return r.key.isPlain()
}
