package fair

import (
	"context"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// statusWait bounds the query of InUse: a call that has failed returns soon all the same.
const statusWait = 50 * time.Millisecond

// InUse says how many connections hold units of a name, for the error of a call that got none. It does not count waiters: the call
// that has failed may still be one. If Redis does not answer within 50 ms, it returns false.
func InUse(name *fairsem.Inspector) (said string, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), statusWait) // that of the call has ended
	defer cancel()
	s, err := name.Status(ctx)
	switch {
	case err != nil:
		return "", false
	case s.Limit == 0:
		return fmt.Sprintf("%q is paused, its limit was set to 0", s.Name), true
	}
	return fmt.Sprintf("%d of %d connections of %q are in use", s.Used, s.Limit, s.Name), true
}
