package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/scan"
)

func (p *target) space() protocol.Keyspace { return protocol.Keyspace{Prefix: p.Prefix} }

func (p *target) keys(name string) []string {
	keys := p.space().Keys(name)
	return keys[:]
}

const (
	atOnce  = 16  // names that are checked in parallel
	mostBad = 100 // findings that are reported
)

// tally is the sum of the observations of all names.
type tally struct {
	mu                          sync.Mutex
	names, unreadableNames      int64
	holders, waiting, unchecked int64
	unreadNumbers               int64
	uncompared                  int64 // names whose sums were not compared
	bad                         []Finding
	unreadable                  error
}

// semaphores checks every name, or those that were given.
func semaphores(ctx context.Context, p *target) []Finding {
	names := slices.Compact(slices.Sorted(slices.Values(p.Names)))
	if len(names) == 0 {
		var err error
		if names, err = p.find(ctx); failure.Denied(err) {
			return []Finding{skip("not checked: this user lacks +scan; fairsem doctor NAME checks one name")}
		} else if err != nil && ctx.Err() != nil {
			return []Finding{skip("not checked: the server has more keys than can be scanned within %v; fairsem doctor NAME checks one name", longLimit)}
		} else if err != nil {
			return []Finding{notChecked(err, "+scan")}
		}
	}
	var all tally
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			f, bad, err := p.inspect(within, name)
			all.add(f, bad, err)
			if failure.IsReply(err) {
				return nil // it is about this name
			}
			return err
		})
	}
	_ = group.Wait() // the tally has the errors
	found := all.findings()
	if all.names+all.unreadableNames == 0 {
		found[0] = p.elsewhere(ctx, found[0])
	}
	return found
}

// elsewhere adds to the finding that there are no names with which other prefixes there are some.
func (p *target) elsewhere(ctx context.Context, f Finding) Finding {
	others := inspect.OtherPrefixes(ctx, p.rdb, p.Prefix)
	if len(others) == 0 {
		return f
	}
	f.Message += fmt.Sprintf(" with the prefix %s; %s", text.Brief(p.Prefix), render.Elsewhere(others))
	return f.with("other_prefixes", others)
}

func (t *tally) add(f facts, bad []Finding, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.unreadableNames++
		t.unreadable = cmp.Or(t.unreadable, err) // a later error may only be that the group was cancelled
		return
	}
	t.bad = append(t.bad, bad...)
	if f.known() {
		t.names++
		t.holders += f.holders - f.expired.holders
		t.waiting += f.waiting - f.expired.waiters
		t.unchecked += f.unchecked()
		t.unreadNumbers += f.unreadNumbers
		if !f.complete() {
			t.uncompared++
		}
	}
}

// findings are those about single names, and a summary.
func (t *tally) findings() []Finding {
	slices.SortStableFunc(t.bad, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.State, b.State), strings.Compare(a.Details["name"].(string), b.Details["name"].(string)))
	})
	sum := ok("%s, %s, %d waiting", render.Count(t.names, "name"), render.Count(t.holders, "permit"), t.waiting)
	if len(t.bad) == 0 && t.names > t.uncompared {
		sum.Message += ": all are consistent"
	}
	if t.uncompared > 0 {
		sum.Message += fmt.Sprintf("; the sums of %s were not compared, because more than %d hold or wait there", render.Count(t.uncompared, "name"), idsPerQuery)
		sum = sum.with("uncompared", t.uncompared)
	}
	var n int64 // names of a layout that this version does not use
	for _, f := range t.bad {
		if f.Details["problem"] == layoutProblem {
			n++
		}
	}
	if n > 0 {
		sum.Message += fmt.Sprintf("; %s stored by another version of fairsem", render.Count(n, "name"))
		sum = sum.with("other_layouts", n)
	}
	if t.unchecked > 0 {
		sum.Message += fmt.Sprintf("; %d of them were not checked one by one, there are too many", t.unchecked)
	}
	if t.unreadNumbers > 0 {
		sum.Message += fmt.Sprintf("; %d numbers of units were not checked, there are too many", t.unreadNumbers)
	}
	all := []Finding{sum.with("names", t.names).with("holders", t.holders).with("waiting", t.waiting)}
	if t.unreadableNames > 0 {
		f := notChecked(t.unreadable, "+eval, or a right that a script needs")
		f.Message = fmt.Sprintf("%s: %s", render.Count(t.unreadableNames, "name"), f.Message)
		all = append(all, f)
	}
	all = append(all, t.bad[:min(len(t.bad), mostBad)]...)
	if more := len(t.bad) - mostBad; more > 0 {
		f := t.bad[mostBad] // failures come first
		f.Message, f.Details = fmt.Sprintf("and %d more like these", more), map[string]any{"more": more}
		all = append(all, f)
	}
	return all
}

// find scans the keys of all nodes side by side. It takes all kinds of keys, for some may have lost the others.
func (p *target) find(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	seen := make(map[string]bool) // guarded by mu
	scans, ctx := errgroup.WithContext(ctx)
	for _, n := range p.nodes {
		scans.Go(func() error {
			return scan.New(n.rdb, scan.Share).Each(ctx, p.space().EveryKey(), "", func(keys []string) error {
				mu.Lock()
				defer mu.Unlock()
				for _, key := range keys {
					if name, ok := p.nameOf(key); ok {
						seen[name] = true
					}
				}
				return nil
			})
		})
	}
	if err := scans.Wait(); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// nameOf returns the name that a key belongs to. One that the library would refuse is none.
func (p *target) nameOf(key string) (string, bool) {
	space, name, _, ok := protocol.ParseKey(key)
	if !ok || space.Prefix != p.Prefix {
		return "", false
	}
	return name, true
}
