package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
)

// How many tenants of a name are read at most, unless more are wanted: where one name is polled, and of each of many names. Reading 1,000
// takes Redis some milliseconds.
const (
	maxTenants       = 20_000
	maxTenantsOfEach = 1000
)

// Tenants are the tenants that hold permits of a name or wait for them. There are none where no call names a tenant.
type Tenants struct {
	All    []fairsem.Tenant // by units held, then by waiters, the most first
	More   int64            // how many more were counted
	Unread bool             // there are others, which were not read
	Err    error            // why they are not known, such as a missing right
}

// Hidden is how many more there are, such as "3 more", or "" for none.
func (t Tenants) Hidden() string {
	switch {
	case t.Unread:
		return fmt.Sprintf("more than %d more", t.More)
	case t.More > 0:
		return fmt.Sprintf("%d more", t.More)
	}
	return ""
}

// queryTenants queries the tenants of one name. It reads at most so many, and keeps at most twice as many as it returns.
func queryTenants(ctx context.Context, client *fairsem.Client, name string, most, read int) (t Tenants, err error) {
	count := 0
	for tenant, err := range client.Inspect(name).Tenants(ctx) {
		if err != nil && errors.Is(context.Cause(ctx), errTooLong) {
			t.Unread = true
			break
		}
		if failure.IsReply(err) && !errors.Is(err, fairsem.ErrUnavailable) {
			return Tenants{Err: err}, nil // the other data of the name can be shown
		}
		if err != nil {
			return Tenants{}, err
		}
		if t.Unread = count == read; t.Unread {
			break
		}
		count++
		if t.All = append(t.All, tenant); len(t.All)-most >= max(most, 1) {
			t.All = heaviest(t.All, most)
		}
	}
	if len(t.All) == 1 && count == 1 && !t.Unread && !named(t.All[0]) {
		return Tenants{}, nil
	}
	t.All = heaviest(t.All, most)
	t.More = int64(count - len(t.All))
	return t, nil
}

// heaviest sorts the tenants, and returns at most so many of the first.
func heaviest(all []fairsem.Tenant, most int) []fairsem.Tenant {
	slices.SortFunc(all, func(a, b fairsem.Tenant) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), most)]
}

// named reports whether a call has named the tenant, or declared anything of it.
func named(t fairsem.Tenant) bool { return t.Name != "" || t.Share != 1 || t.Limit != 0 }

var errTooLong = errors.New("the tenants took too long to read")

// TenantsOf queries the tenants of many names: of those that have a holder or a waiter. It stops reading after that time, since entries of
// tenants that hold nothing are read, too, however many there are. An error of one name does not affect the others: its tenants are unread.
func TenantsOf(ctx context.Context, client *fairsem.Client, all []fairsem.Status, most time.Duration) (map[string]Tenants, error) {
	found := make([]Tenants, len(all))
	limited, cancel := context.WithTimeoutCause(ctx, most, errTooLong)
	defer cancel()
	group, within := errgroup.WithContext(limited)
	group.SetLimit(maxParallel)
	for i, s := range all {
		if Busy(s) {
			group.Go(func() (err error) {
				found[i], err = queryTenants(within, client, s.Name, maxTenantsOfEach, maxTenantsOfEach)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	of := make(map[string]Tenants)
	for i, s := range all {
		t := found[i]
		t.Unread = t.Unread || t.Err != nil
		if len(t.All) > 0 || t.Unread {
			of[s.Name] = t
		}
	}
	return of, nil
}
