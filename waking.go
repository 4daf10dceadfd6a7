package fairsem

// waking counts the callers that an answer or a message wakes. The pipeline holds its next batch for a few of them, if they
// share a name with a queue. Only tickets of this process count as its queue.
type waking struct {
	callers int
	queue   bool // tickets were waiting before
}

// woken returns how many callers were woken if tickets were waiting before, or are now, else 0.
func (w waking) woken(waiters int) int {
	if !w.queue && waiters == 0 {
		return 0
	}
	return w.callers
}
