package gate

import (
	"fmt"

	"github.com/fairsem/fairsem"
)

// Check returns why the gate can never work.
func (g *Gate[R, L]) Check() error {
	limit := any(g.Limit)
	switch _, lock := limit.(*fairsem.Mutex); {
	case g.LimitOf != nil && limit != nil:
		return Invalid(g.Who, "there is a limit and LimitOf: set one of them")
	case g.MaxWait < 0 && g.MaxWait != NoWait:
		return Invalid(g.Who, "MaxWait %v is below 0 and not NoWait", g.MaxWait)
	case g.OnUnavailable != Refuse && g.OnUnavailable != Admit:
		return Invalid(g.Who, "OnUnavailable %d is neither Refuse nor Admit", g.OnUnavailable)
	case g.OnUnavailable == Admit && g.MaxWait == 0: // a call whose context has ended cannot be let through
		return Invalid(g.Who, "Admit needs a MaxWait: without one a call may wait for Redis until its context ends")
	case lock && g.Weight != nil:
		return Invalid(g.Who, "a Mutex has one unit, so Weight must be nil")
	case g.LimitOf != nil:
		return nil
	}
	return checkLimit(g.Who, limit)
}

func checkLimit(who string, limit any) error {
	made := false
	switch l := limit.(type) {
	case nil:
		return Invalid(who, "there is no limit: pass a *fairsem.Semaphore, *fairsem.Mutex or *fairsem.Limiter")
	case *fairsem.Semaphore:
		made = l != nil && l.Inspector != nil
	case *fairsem.Mutex:
		made = l != nil && l.Inspector != nil
	case *fairsem.Limiter:
		made = l != nil && l.Inspector != nil
	default:
		return Invalid(who, "a limit must be a *fairsem.Semaphore, *fairsem.Mutex or *fairsem.Limiter, not a %T", limit)
	}
	if !made {
		return Invalid(who, "the %T is nil or a zero value: make it with a method of fairsem.Client", limit)
	}
	return nil
}

// Invalid returns a [fairsem.ErrInvalid] that begins with who.
func Invalid(who, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", fairsem.ErrInvalid, who, fmt.Sprintf(format, args...))
}
