package main

import (
	"fmt"
	"math"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// slack is how much earlier a call must have been made to count as overtaken: a contender that polls cannot keep the order of
// calls that were made at about the same time.
const slack = 20 * time.Millisecond

// overtakes counts the calls that were granted before one that asked at least slack earlier. It uses only times that the
// callers recorded, so it is the same for all contenders. A cancelled call was overtaken by all calls that asked that much
// later and were granted.
func overtakes(records []record) int {
	return countOvertakes(records, grantedAt, 0)
}

// overtakesByFar counts only calls that were also granted at least slack earlier. If one script grants many calls in order,
// their answers may arrive in another order.
func overtakesByFar(records []record) int {
	return countOvertakes(records, grantedAt, int64(slack))
}

func grantedAt(v record) int64 {
	if v.granted() == 0 {
		return math.MaxInt64
	}
	return v.granted()
}

// overtakesByToken is overtakes for a contender with tokens. Tokens show the order in which Redis granted the calls, so it does
// not matter how long a process took to notice its grant.
func overtakesByToken(records []record) int {
	return countOvertakes(records, func(v record) int64 {
		if v.granted() == 0 {
			return math.MaxInt64
		}
		return v.token()
	}, 0)
}

// countOvertakes counts the calls that were granted, in the given order and by more than by, before one that asked at least
// slack earlier.
func countOvertakes(records []record, order func(record) int64, by int64) int {
	byAsked := byTime(records, record.asked)
	var found int
	var latest int64 // in the order, of the calls that asked early enough
	earlier := byAsked
	for _, v := range byAsked {
		for ; len(earlier) > 0 && earlier[0].asked() <= v.asked()-int64(slack); earlier = earlier[1:] {
			latest = max(latest, order(earlier[0]))
		}
		if v.granted() > 0 && order(v)+by < latest {
			found++
		}
	}
	return found
}

// grants returns the records of all processes as grants of package history.
func grants(outcomes []outcome) []history.Grant {
	var all []history.Grant
	for process, o := range outcomes {
		for i, v := range o.Records {
			all = append(all, history.Grant{
				Process: fmt.Sprint(process), ID: fmt.Sprintf("%d:%d", process, i), Weight: 1, Token: v.token(),
				Asked: v.asked(), Granted: v.granted(), Released: v.released(), Cancelled: v.granted() == 0,
			})
		}
	}
	return all
}

// checkPromises returns an error if a grant breaks a promise of fairsem.
func checkPromises(all []history.Grant, limit int64) error {
	for _, broken := range [][]history.Violation{
		history.OverLimit(all, limit), history.TokensDecrease(all), history.TokensRepeat(all),
	} {
		if len(broken) > 0 {
			return fmt.Errorf("fairsem broke a promise %d times, the first is: %s", len(broken), broken[0])
		}
	}
	return nil
}

// handOffTimes returns the time of each hand-off of the only unit: from the release in one process to the grant in another
// process that already waited for it.
func handOffTimes(outcomes []outcome) []int64 {
	var records []record
	process := make(map[record]int)
	for p, o := range outcomes {
		for _, v := range o.Records {
			if v.granted() > 0 {
				records = append(records, v)
				process[v] = p
			}
		}
	}
	var took []int64
	sorted := byTime(records, record.granted)
	for i := 1; i < len(sorted); i++ {
		from, to := sorted[i-1], sorted[i]
		if process[from] != process[to] && to.asked() < from.released() {
			took = append(took, to.granted()-from.released())
		}
	}
	return took
}
