package labels

import (
	"context"
	"errors"

	"github.com/fairsem/fairsem"
)

// Unavailable is the result of NotAcquired if Redis does not answer.
const Unavailable = "unavailable"

// reasons are in the order in which they are checked: an error can be several of them, such as ErrUnavailable and the error of
// a context.
var reasons = []struct {
	err    error
	reason string
}{
	{fairsem.ErrEvicted, "evicted"},
	{fairsem.ErrUnavailable, Unavailable},
	{fairsem.ErrNotAcquired, "limit_reached"},
	{fairsem.ErrQueueFull, "queue_full"},
	{context.DeadlineExceeded, "deadline_exceeded"},
	{context.Canceled, "canceled"},
	{fairsem.ErrExceedsLimit, "exceeds_limit"},
	{fairsem.ErrClosed, "closed"},
}

// NotAcquired says why a call got no permit, in a few words that are always the same.
func NotAcquired(err error) string {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return Other
}

// Results of Lost.
const (
	Evicted = "evicted"
	Expired = "expired"
)

// Lost says how a permit was lost.
func Lost(err error) string {
	if errors.Is(err, fairsem.ErrEvicted) {
		return Evicted
	}
	return Expired
}

// Grants returns the results of Granted for known values.
func Grants() []string {
	return []string{
		Granted(fairsem.GrantedAtOnce), Granted(fairsem.GrantedByMessage), Granted(fairsem.GrantedByReply), Granted(fairsem.GrantedByRefresh),
	}
}

// Granted says how a process learned of a grant.
func Granted(by fairsem.GrantedBy) string {
	switch by {
	case fairsem.GrantedAtOnce:
		return "at_once"
	case fairsem.GrantedByMessage:
		return "message"
	case fairsem.GrantedByReply:
		return "reply"
	case fairsem.GrantedByRefresh:
		return "refresh"
	}
	return Other
}

// Verbs are those of a CallFailedEvent that a library of this version sends.
func Verbs() []string { return []string{"acquire", "release", "reduce", "refresh", "restore"} }
