package fairsem

import "github.com/fairsem/fairsem/internal/protocol"

// fastPath knows which plain scripts may answer calls about a name, by the server's replies. A plain call that is in vain
// costs a second round trip.
type fastPath struct {
	plain                   protocol.Plain // of the last reply
	withQueue, withoutQueue trust          // in those for names that may have waiters, and in the others
	renewing                trust          // in the one that renews many permits and waiters
}

// trust is how often calls of some plain scripts are in vain. One now and then is worth it: where a queue begins, for example, or
// a lease has ended.
type trust struct {
	debt int // grows with each call that was in vain, and shrinks with each that was answered
	wait int // how many replies have to say first that such a call may do
}

const (
	costInVain   = 4  // how many answered calls make up for one that was in vain
	mostDebt     = 8  // beyond that, calls are in vain too often
	waitWhenDeep = 64 // replies without such a call, after which it may be otherwise
)

func (t *trust) answered() { t.debt = max(0, t.debt-1) }

func (t *trust) missed() {
	if t.debt += costInVain; t.debt > mostDebt {
		t.debt, t.wait = 0, waitWhenDeep
	}
}

// kind is the kind of script that the next call may use.
func (s *fastPath) kind() protocol.Plain {
	switch {
	case s.plain == protocol.PlainWithoutQueue && s.withoutQueue.wait == 0:
		return protocol.PlainWithoutQueue
	case s.plain == protocol.PlainWithNumbers && s.withoutQueue.wait == 0:
		return protocol.PlainWithNumbers
	case (s.plain == protocol.PlainWithoutQueue || s.plain == protocol.PlainWithQueue) && s.withQueue.wait == 0:
		return protocol.PlainWithQueue
	case s.plain == protocol.PlainWithTenants && s.withoutQueue.wait == 0:
		return protocol.PlainWithTenants
	case (s.plain == protocol.PlainWithTenants || s.plain == protocol.PlainWithTenantsInQueue) && s.withQueue.wait == 0:
		return protocol.PlainWithTenantsInQueue
	}
	return protocol.NotPlain
}

// renewsMany reports whether the next call may use the script that renews many permits and waiters.
func (s *fastPath) renewsMany() bool {
	return s.plain != protocol.NotPlain && s.plain != protocol.PlainWithNumbers && s.renewing.wait == 0
}

// trusted returns the trust in a plain script.
func (s *fastPath) trusted(script *protocol.Script) *trust {
	switch script {
	case protocol.PlainRefreshScript:
		return &s.renewing
	case protocol.PlainQueueScript, protocol.PlainTenantsScript:
		return &s.withQueue
	}
	return &s.withoutQueue
}

// learn is called with a reply, and the plain script that it is from, nil for a full one.
func (s *fastPath) learn(reply protocol.Reply, from *protocol.Script) {
	s.plain = reply.Plain
	if from != nil {
		s.trusted(from).answered()
	}
	if s.plain != protocol.NotPlain && from == nil {
		s.withQueue.wait = max(0, s.withQueue.wait-1)
		s.renewing.wait = max(0, s.renewing.wait-1)
	}
	switch s.plain {
	case protocol.PlainWithoutQueue, protocol.PlainWithNumbers, protocol.PlainWithTenants:
		s.withoutQueue.wait = max(0, s.withoutQueue.wait-1)
	}
}

// missed is called when a plain call was in vain. The next one is full, unless the full reply to this one has come before.
func (s *fastPath) missed(script *protocol.Script) {
	s.plain = protocol.NotPlain
	s.trusted(script).missed()
}
