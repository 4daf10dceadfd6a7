package demo

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// evidence is everything that the demo saw, and what was promised.
type evidence struct {
	limit     int64
	ttl       time.Duration
	grants    []history.Grant
	orderings orderings
	mostSeen  int64 // most units in use that Redis reported in one answer
	death     death
	end       fairsem.Status // after all workers stopped
}

// death is what followed the kill of a worker. Times are of history.Now; 0: it did not happen.
type death struct {
	permit   history.Grant // what the worker held
	killed   int64
	listed   int64 // the last time that Redis was seen to list the permit
	gone     int64 // the first time that it was seen not to
	regained int64 // others have its units
}

// deathGrace is what the library promises on top of the TTL.
const deathGrace = 500 * time.Millisecond

// verdict is a promise, and whether it was kept.
type verdict struct {
	promise, found string
	broken         bool
	details        []history.Violation
}

// judge checks every promise. A promise without evidence counts as broken.
func judge(e evidence) []verdict {
	return []verdict{e.limitKept(), e.orderKept(), e.tokensGrow(), e.deadReleased(), e.nothingLeft()}
}

func (e evidence) limitKept() verdict {
	found := history.OverLimit(e.grants, e.limit)
	most := max(history.MostAtOnce(e.grants), e.mostSeen)
	return verdict{
		promise: fmt.Sprintf("never more than %d units in use at once", e.limit),
		found:   fmt.Sprintf("most: %d, over %d grants", most, len(e.grants)),
		broken:  most > e.limit || most == 0,
		details: found,
	}
}

func (e evidence) orderKept() verdict {
	pairs, found := overtakes(e.orderings, e.grants)
	return verdict{
		promise: "first come, first served",
		found:   fmt.Sprintf("%d overtakes, %d pairs queued", len(found), pairs),
		broken:  len(found) > 0 || pairs == 0,
		details: found,
	}
}

// overtakes returns the pairs in the queue of which the later one has the smaller token, and how many pairs there were of
// which both were granted.
func overtakes(lines orderings, grants []history.Grant) (pairs int, found []history.Violation) {
	byID := make(map[string]history.Grant, len(grants))
	for _, g := range grants {
		byID[g.ID] = g
	}
	for pair := range lines {
		before, behind := byID[pair[0]], byID[pair[1]]
		if before.Token == 0 || behind.Token == 0 {
			continue
		}
		pairs++
		if before.Token >= behind.Token {
			found = append(found, history.Violation{What: "overtaken in the queue", Earlier: before, Later: behind})
		}
	}
	return pairs, found
}

func (e evidence) tokensGrow() verdict {
	found := append(history.TokensRepeat(e.grants), history.TokensDecrease(e.grants)...)
	return verdict{
		promise: "every token larger than those before",
		found:   fmt.Sprintf("%d out of order, %d tokens", len(found), len(e.grants)),
		broken:  len(found) > 0 || len(e.grants) == 0,
		details: found,
	}
}

func (e evidence) deadReleased() verdict {
	d, allowed := e.death, e.ttl+deathGrace
	v := verdict{promise: "the units of a dead process are released", broken: true}
	switch {
	case d.killed == 0:
		v.found = "no worker could be killed while it held units"
	case d.gone == 0 || d.regained == 0:
		v.found = fmt.Sprintf("not within %s", seconds(allowed))
	default:
		took := time.Duration(max(d.listed, d.regained) - d.killed) // not gone: a busy machine can look late
		v.found = fmt.Sprintf("after %s, at most %s", seconds(took), seconds(allowed))
		v.broken = took > allowed
	}
	return v
}

// regained returns when others were first granted more than fits beside the dead permit, which is
// when its units were in use again; 0: they were not.
func regained(grants []history.Grant, dead history.Grant, limit, killed int64) int64 {
	first := int64(0)
	for _, g := range grants {
		if g.Granted <= killed || first != 0 && g.Granted >= first {
			continue
		}
		if unitsBeside(grants, dead.ID, g.Granted) > limit-dead.Weight {
			first = g.Granted
		}
	}
	return first
}

// unitsBeside is how many units all permits but one held at that time.
func unitsBeside(grants []history.Grant, id string, at int64) (units int64) {
	for _, g := range grants {
		if g.ID != id && g.Granted > 0 && g.Granted <= at && (g.Released == 0 || g.Released > at) {
			units += g.Weight
		}
	}
	return units
}

func (e evidence) nothingLeft() verdict {
	return verdict{
		promise: "nothing is left at the end",
		found:   fmt.Sprintf("%d units in use, %d waiting", e.end.Used, e.end.Waiting),
		broken:  e.end.Used != 0 || e.end.Waiting != 0,
	}
}

// seconds shows a duration as people read it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
