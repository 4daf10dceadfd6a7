package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/history"
)

// sideReport is the report on the customers of one name.
type sideReport struct {
	Name    string         `json:"name"`
	Tenants bool           `json:"tenants"` // whether calls named any
	Quiet   customerReport `json:"quiet"`
	Noisy   customerReport `json:"noisy"`
}

type customerReport struct {
	Jobs          int   `json:"jobs"`
	MedianWaitMS  int64 `json:"median_wait_ms"`
	LongestWaitMS int64 `json:"longest_wait_ms"`
}

func newCustomerReport(waits []time.Duration) customerReport {
	if len(waits) == 0 {
		return customerReport{}
	}
	sorted := slices.Sorted(slices.Values(waits))
	return customerReport{len(sorted), sorted[len(sorted)/2].Milliseconds(), sorted[len(sorted)-1].Milliseconds()}
}

// conclude judges the observations, and reports them.
func (n *neighbours) conclude(ctx context.Context, out io.Writer) error {
	var verdicts []verdict
	for _, s := range n.sides {
		left, err := s.left(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return n.server.stateError(s.sem, err)
		}
		verdicts = append(verdicts, s.judge(left)...)
	}
	r := newReport(n.server, n.ended.Sub(n.began), verdicts)
	for _, s := range n.sides {
		r.Sides = append(r.Sides, s.report())
	}
	header := fmt.Sprintf("Two customers shared %d units for %s, twice at the same time", Limit, seconds(n.ended.Sub(n.began)))
	return r.write(out, n.options, header, n.summaryEvents())
}

// left returns how many permits and waiters are left once the load has ended. Calls that were given up leave the queue a moment later.
func (s *side) left(ctx context.Context) (int64, error) {
	for began := time.Now(); ; clock.Sleep(ctx, pollEvery) {
		status, err := s.sem.Status(ctx)
		if n := status.Holders + status.Waiting; err != nil || n == 0 || time.Since(began) > timeout {
			return n, err
		}
	}
}

// judge checks the promises for one name. A promise without evidence counts as broken.
func (s *side) judge(left int64) []verdict {
	grants := s.calls()
	promise := fmt.Sprintf("%s: at most %d units in use", s.title, Limit)
	all := []verdict{limitKept(promise, grants, len(s.waits(noisy))+len(s.waits(quiet)), Limit, s.most)}
	if s.shared {
		unfair, withheld, contests := history.Unfair(grants), history.Withheld(grants, Limit), history.Contested(grants)
		all = append(all,
			newVerdict(s.title+": next is the tenant that holds least",
				fmt.Sprintf("%d of %d grants otherwise", grantsOf(unfair), contests), len(unfair) == 0 && contests > 0, unfair...),
			newVerdict(s.title+": no unit stays free",
				fmt.Sprintf("%d of %d grants too late", grantsOf(withheld), contests), len(withheld) == 0 && contests > 0, withheld...))
	}
	return append(all, newVerdict(s.title+": nothing is left", fmt.Sprintf("%d holders and waiters", left), left == 0))
}

// hasEvidence reports whether every promise of judge can have been kept, or broken.
func (s *side) hasEvidence() bool {
	return s.most > 0 && (!s.shared || history.Contested(s.calls()) > 0)
}

// grantsOf returns how many grants break a promise: one may break it with several calls.
func grantsOf(violations []history.Violation) int {
	ids := make(map[string]bool)
	for _, v := range violations {
		ids[v.Later.ID] = true
	}
	return len(ids)
}

// summaryEvents sum up the jobs and waits of each customer.
func (n *neighbours) summaryEvents() (all []event) {
	for _, s := range n.sides {
		r := s.report()
		for _, c := range []struct {
			name string
			customerReport
		}{{noisy, r.Noisy}, {quiet, r.Quiet}} {
			all = append(all, event{n.ended.Sub(n.began).Milliseconds(), fmt.Sprintf("%-16s %s had %3d jobs, waited %s, at most %s",
				s.title+":", c.name, c.Jobs, waited(c.MedianWaitMS), waited(c.LongestWaitMS))})
		}
	}
	return all
}

// waited writes ms so that waits of any length can be compared.
func waited(ms int64) string {
	if ms < 1000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return fmt.Sprintf("%.1f s", float64(ms)/1000)
}

func (s *side) report() sideReport {
	return sideReport{s.sem.Name(), s.shared, newCustomerReport(s.waits(quiet)), newCustomerReport(s.waits(noisy))}
}
