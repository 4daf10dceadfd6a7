package fairsem

import (
	"slices"

	"github.com/fairsem/fairsem/internal/protocol"
)

// shortcut knows whether calls about a name may be plain ones: as long as its replies say so. A plain call that is in vain
// costs a second round trip, so after one the replies have to say it several times.
type shortcut struct {
	told int // how many full replies in a row have said it
	more int // how many of them are needed beyond the first
}

// moreAfterMiss is what is needed beyond the first reply after a plain call that was in vain.
const moreAfterMiss = 8

func (s *shortcut) isOpen() bool { return s.told > s.more }

// learn is called with what a reply says.
func (s *shortcut) learn(plain, wasPlain bool) {
	switch {
	case !plain:
		s.told = 0
	case wasPlain:
		s.more = 0
	default:
		s.told++
	}
}

func (s *shortcut) missed() { s.told, s.more = 0, moreAfterMiss }

// isPlain reports whether a plain script may answer a request: its ids are new and weigh 1, or are holders; and if it
// acquires, the server knows the declaration d.
func (r *request) isPlain(d protocol.Declaration) bool {
	switch {
	case r.bare || r.key.spec.Window > 0:
		return false
	case slices.ContainsFunc(r.tickets, func(t *ticket) bool { return t.params.TTL > protocol.MaxPlainTTL }):
		return false
	case r.key.script == protocol.ReleaseScript:
		return r.key.isPlain()
	case r.key.script != protocol.AcquireScript || d.Since == 0:
		return false
	}
	return !slices.ContainsFunc(r.tickets, func(t *ticket) bool { return t.Units() != 1 || t.maybeApplied })
}
