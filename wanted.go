package fairsem

import "time"

// wanted is [Permit.Wanted].
func (v *nameState) wanted(t *ticket) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.wanted != nil {
		return t.wanted
	}
	t.wanted = make(chan struct{})
	if t.phase == holding {
		if v.listeners == nil {
			v.listeners = make(map[*ticket]struct{})
		}
		v.listeners[t] = struct{}{}
	}
	return t.wanted
}

// notifyHoldersLocked handles the number of waiters in the reply to a call that was sent at that time. A call from before the
// grant of a permit may have counted its own holder among the waiters.
func (v *nameState) notifyHoldersLocked(waiters int64, sent time.Time) {
	if waiters < 1 {
		return
	}
	for t := range v.listeners {
		if sent.After(t.hold.at) {
			delete(v.listeners, t)
			close(t.wanted)
		}
	}
}
