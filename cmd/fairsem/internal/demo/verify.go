package demo

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// evidence is all observations of the demo.
type evidence struct {
	grants    []history.Grant
	orderings orderings
	mostSeen  int64 // most units in use that Redis reported in one answer
	death     death
	end       fairsem.Status // after all workers stopped
}

// death is the sequence of events after the kill of a worker. Times are of history.Now; 0: it did not happen.
type death struct {
	permit   history.Grant // of the worker
	killed   int64
	listed   int64 // the last time that Redis was seen to list the permit
	gone     int64 // the first time that it was seen not to
	regained int64 // others have its units
	late     int64 // for how long meanwhile the machine let processes wait that had something to do
}

// deathGrace is the time that the library promises on top of the TTL.
const deathGrace = 500 * time.Millisecond

// verdict is a promise, and whether it was kept.
type verdict struct {
	Promise    string   `json:"promise"`
	Held       bool     `json:"held"`
	Found      string   `json:"found"`
	Violations []string `json:"violations,omitempty"`
}

func newVerdict(promise, found string, held bool, violations ...history.Violation) verdict {
	v := verdict{Promise: promise, Held: held, Found: found}
	for _, violation := range violations {
		v.Violations = append(v.Violations, violation.String())
	}
	return v
}

// judge checks every promise. A promise without evidence counts as broken.
func judge(e evidence) []verdict {
	pairs, overtaken := overtakes(e.orderings, e.grants)
	disorder := append(history.TokensRepeat(e.grants), history.TokensDecrease(e.grants)...)
	return []verdict{
		limitKept(fmt.Sprintf("never more than %d units in use at once", Limit), e.grants, len(e.grants), Limit, e.mostSeen),
		newVerdict("first come, first served",
			fmt.Sprintf("%d overtakes, %d pairs queued", len(overtaken), pairs), len(overtaken) == 0 && pairs > 0, overtaken...),
		newVerdict("every token larger than those before",
			fmt.Sprintf("%d out of order, %d tokens", len(disorder), len(e.grants)), len(disorder) == 0 && len(e.grants) > 0, disorder...),
		e.deadReleased(),
		newVerdict("nothing is left at the end",
			fmt.Sprintf("%d units in use, %d waiting", e.end.Used, e.end.Waiting), e.end.Used == 0 && e.end.Waiting == 0),
	}
}

// limitKept is about a limit. most is the most units in use that Redis reported in one answer.
func limitKept(promise string, calls []history.Grant, granted int, limit, most int64) verdict {
	most = max(most, history.MostAtOnce(calls))
	over := history.OverLimit(calls, limit)
	return newVerdict(promise, fmt.Sprintf("most: %d, over %d grants", most, granted), most > 0 && most <= limit && len(over) == 0, over...)
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

func (e evidence) deadReleased() verdict {
	d := e.death
	allowed := ttl + deathGrace + time.Duration(d.late) // on a busy machine all processes come later
	v := verdict{Promise: "the units of a dead process are released"}
	switch {
	case d.killed == 0:
		v.Found = "no worker could be killed while it held units"
	case d.gone == 0 || d.regained == 0:
		v.Found = fmt.Sprintf("not within %s", seconds(allowed))
	default:
		took := time.Duration(max(d.listed, d.regained) - d.killed) // not gone: a busy machine can look late
		v.Found = fmt.Sprintf("after %s, at most %s", seconds(took), seconds(allowed))
		v.Held = took <= allowed
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

// seconds shows a duration as people read it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
