package main

import (
	"fmt"
	"math"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// slack is how much earlier a call must have been to count as overtaken: nobody who polls can be
// expected to keep the order of calls that came at the same time.
const slack = 20 * time.Millisecond

// overtakes counts the calls that were let in before one that asked at least the slack earlier. It
// asks nothing of a contender but the times its callers saw, so it is the same for all of them. Who
// gave up waiting was overtaken by all who asked that much later and got in.
func overtakes(visits []visit) int {
	return backwards(visits, grantedAt, 0)
}

// overtakesByFar are the overtakes of those who were let in by at least the slack earlier, too. Where one look
// at a line lets many in, in order, their answers cross each other on the way.
func overtakesByFar(visits []visit) int {
	return backwards(visits, grantedAt, int64(slack))
}

func grantedAt(v visit) int64 {
	if v.granted() == 0 {
		return math.MaxInt64
	}
	return v.granted()
}

// overtakesByToken is overtakes for a contender with tokens. They tell the order in which Redis let
// the calls in, so how long a caller's process took to notice plays no part.
func overtakesByToken(visits []visit) int {
	return backwards(visits, func(v visit) int64 {
		if v.granted() == 0 {
			return math.MaxInt64
		}
		return v.token()
	}, 0)
}

// backwards counts the calls that were granted, by the given order and by more than so much, before one that
// asked at least the slack earlier.
func backwards(visits []visit, order func(visit) int64, by int64) int {
	byAsked := byTime(visits, visit.asked)
	var found int
	var latest int64 // in the order, of those who asked early enough
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

// grants are the visits of all processes as package history has them.
func grants(outcomes []outcome) []history.Grant {
	var all []history.Grant
	for process, o := range outcomes {
		for i, v := range o.Visits {
			all = append(all, history.Grant{
				Process: fmt.Sprint(process), ID: fmt.Sprintf("%d:%d", process, i), Weight: 1, Token: v.token(),
				Asked: v.asked(), Granted: v.granted(), Released: v.released(), Cancelled: v.granted() == 0,
			})
		}
	}
	return all
}

// promises returns an error if a grant breaks one of fairsem's promises.
func promises(all []history.Grant, limit int64) error {
	for _, broken := range [][]history.Violation{
		history.OverLimit(all, limit), history.TokensDecrease(all), history.TokensRepeat(all),
	} {
		if len(broken) > 0 {
			return fmt.Errorf("fairsem broke a promise %d times, the first is: %s", len(broken), broken[0])
		}
	}
	return nil
}

// handOffs returns how long each unit of a limit of 1 took from the release in one process to the
// grant in another that already waited for it.
func handOffs(outcomes []outcome) []int64 {
	var visits []visit
	process := make(map[visit]int)
	for p, o := range outcomes {
		for _, v := range o.Visits {
			if v.granted() > 0 {
				visits = append(visits, v)
				process[v] = p
			}
		}
	}
	var took []int64
	sorted := byTime(visits, visit.granted)
	for i := 1; i < len(sorted); i++ {
		from, to := sorted[i-1], sorted[i]
		if process[from] != process[to] && to.asked() < from.released() {
			took = append(took, to.granted()-from.released())
		}
	}
	return took
}
