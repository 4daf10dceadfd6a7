// Package bridge has the functions on handles of package fairsem that only packages of this module may call. They cannot be methods,
// and fairsem, which imports this package, sets them; so their types say less than they could.
package bridge

import "context"

// InCluster reports whether the names of a *fairsem.Client are on several servers.
var InCluster func(client any) bool

// Leave is the half of Release of a *fairsem.Permit that does not wait: the release is queued when it returns.
var Leave func(permit any)

// Unread is why the Label of a fairsem.Ticket is empty although there may be one, nil if it was read.
var Unread func(ticket any) error

// Wait is Wait of a *fairsem.Limiter, and returns how many units remain, also where it refuses; below 0: that is not known.
var Wait func(ctx context.Context, limiter any, n int64) (remaining int64, err error)

// WithoutMaxWait returns a handle on a limit, a *fairsem.Semaphore, *fairsem.Mutex or *fairsem.Limiter, whose calls have no MaxWait.
var WithoutMaxWait func(limit any) any
