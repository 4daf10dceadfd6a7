package fairsem

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
)

// transitions says what next does, in rows of which exactly one is true of each situation: event, phase, verb, state, flags
// and effect. A flag with a minus does not hold; one that is not named does not matter. The rows have no order, so each
// stands for itself; docs/model has the same rules.
const transitions = `
answered removed * * : nothing

answered asking|waiting|holding release * : conclude
answered leaving release * : conclude
answered leaving acquire|refresh|reduce|restore held|waiting : release
answered leaving acquire|refresh|reduce|restore gone|refused|full|too-big|early|evicted maybe-applied : release
answered leaving acquire|refresh|reduce|restore gone|refused|full|too-big|early|evicted -maybe-applied : conclude

answered holding acquire|refresh|reduce|restore * ended : leave
answered holding refresh|reduce * -ended less : restore

answered holding acquire|restore early -ended : requery
answered holding refresh|reduce early -ended -less : requery
answered holding acquire|restore waiting -ended newer : lose-forged
answered holding refresh|reduce waiting -ended -less newer : lose-forged
answered holding acquire|restore waiting -ended -newer : renew
answered holding refresh|reduce waiting -ended -less -newer : renew
answered holding acquire|restore evicted -ended : lose-evicted
answered holding refresh|reduce evicted -ended -less : lose-evicted
answered holding acquire|restore gone -ended : lose-missing
answered holding refresh|reduce gone -ended -less : lose-missing
answered holding reduce held -ended -less : confirm-part
answered holding acquire|restore held -ended never-renewed : confirm
answered holding refresh held -ended -less never-renewed : confirm
answered holding acquire|restore held -ended -never-renewed : renew
answered holding refresh held -ended -less -never-renewed : renew
answered holding acquire|restore refused|full|too-big -ended : renew
answered holding refresh|reduce refused|full|too-big -ended -less : renew

answered asking|waiting refresh|reduce * less : restore
answered asking|waiting acquire|restore * stale old : requery
answered asking|waiting refresh|reduce * -less stale old : requery
answered asking|waiting acquire|restore * stale -old : restore
answered asking|waiting refresh|reduce * -less stale -old : restore
answered asking|waiting acquire|restore held -stale : hold
answered asking|waiting refresh|reduce held -less -stale : hold
answered asking|waiting acquire|restore waiting -stale : wait
answered asking|waiting refresh|reduce waiting -less -stale : wait
answered asking|waiting acquire|restore early -stale : retry
answered asking|waiting refresh|reduce early -less -stale : retry
answered asking|waiting acquire|restore gone|refused|full|too-big|evicted -stale : refuse
answered asking|waiting refresh|reduce gone|refused|full|too-big|evicted -less -stale : refuse

failed removed * * : nothing
failed asking|waiting|holding|leaving * * -final : nothing
failed asking|waiting|holding|leaving * * final carried : nothing
failed asking|waiting|holding|leaving refresh|reduce * final -carried : nothing
failed holding restore * final -carried : nothing
failed asking|waiting|holding|leaving acquire|release * final -carried unreplicated : fail-leaving
failed asking|waiting|holding|leaving acquire|release * final -carried -unreplicated : fail
failed asking|waiting|leaving restore * final -carried unreplicated : fail-leaving
failed asking|waiting|leaving restore * final -carried -unreplicated : fail

ticked removed * * : nothing
ticked holding * * overdue : leave
ticked holding * * -overdue doubtful : query
ticked holding * * -overdue -doubtful : reduce
ticked asking|waiting * * silent : give-up
ticked asking * * -silent : ask
ticked waiting * * -silent doubtful : query
ticked waiting * * -silent -doubtful : reduce
ticked leaving * * forgotten : forget
ticked leaving * * -forgotten busy : nothing
ticked leaving * * -forgotten -busy known : release
ticked leaving * * -forgotten -busy -known maybe-applied : release
ticked leaving * * -forgotten -busy -known -maybe-applied : remove

abandoned removed * * : nothing
abandoned asking|waiting|holding|leaving * * busy : nothing
abandoned asking|waiting|holding|leaving * * -busy known : release
abandoned asking|waiting|holding|leaving * * -busy -known maybe-applied : release
abandoned asking|waiting|holding|leaving * * -busy -known -maybe-applied : remove
`

var (
	eventNames  = []string{"answered", "failed", "ticked", "abandoned"}
	phaseNames  = []string{"asking", "waiting", "holding", "leaving", "removed"}
	stateNames  = []string{"gone", "held", "waiting", "refused", "full", "too-big", "early", "evicted"}
	effectNames = []string{
		"nothing", "ask", "release", "query", "requery", "restore", "reduce", "wait", "hold", "renew", "confirm",
		"confirm-part", "retry", "refuse", "leave", "lose-forged", "lose-evicted", "lose-missing", "conclude", "remove",
		"forget", "give-up", "fail", "fail-leaving",
	}
	verbs = []*protocol.Script{
		protocol.AcquireScript, protocol.ReleaseScript, protocol.RefreshScript, protocol.ReduceScript, protocol.RestoreScript,
	}
)

// flagsOf are the flags that can matter for an event.
func flagsOf(s *situation) map[string]*bool {
	switch s.event {
	case answered:
		return map[string]*bool{
			"ended": &s.ended, "less": &s.less, "newer": &s.newer, "stale": &s.stale, "old": &s.old,
			"maybe-applied": &s.maybeApplied, "never-renewed": &s.neverRenewed,
		}
	case failed:
		return map[string]*bool{"final": &s.final, "carried": &s.carried, "unreplicated": &s.unreplicated}
	case ticked:
		return map[string]*bool{
			"overdue": &s.overdue, "forgotten": &s.forgotten, "silent": &s.silent, "doubtful": &s.doubtful,
			"busy": &s.busy, "known": &s.known, "maybe-applied": &s.maybeApplied,
		}
	default:
		return map[string]*bool{"busy": &s.busy, "known": &s.known, "maybe-applied": &s.maybeApplied}
	}
}

// transition is a row.
type transition struct {
	text   string
	words  [4]map[string]bool // event, phase, verb, state; nil: any
	flags  map[string]bool
	effect string
}

func readTransitions(t *testing.T) (all []transition) {
	t.Helper()
	for line := range strings.Lines(transitions) {
		when, then, found := strings.Cut(strings.TrimSpace(line), " : ")
		if !found {
			require.Empty(t, when)
			continue
		}
		words := strings.Fields(when)
		row := transition{text: line, flags: make(map[string]bool), effect: then}
		for i, word := range words[:4] {
			if word != "*" {
				row.words[i] = make(map[string]bool)
				for one := range strings.SplitSeq(word, "|") {
					row.words[i][one] = true
				}
			}
		}
		require.Contains(t, effectNames, then)
		for _, flag := range words[4:] {
			name, not := strings.CutPrefix(flag, "-")
			require.Contains(t, flagsOf(&situation{event: event(slices.Index(eventNames, words[0]))}), name, line)
			row.flags[name] = !not
		}
		all = append(all, row)
	}
	return all
}

func (r transition) isAbout(words [4]string, flags map[string]*bool) bool {
	for i, word := range words {
		if r.words[i] != nil && !r.words[i][word] {
			return false
		}
	}
	for name, want := range r.flags {
		if *flags[name] != want {
			return false
		}
	}
	return true
}

// everySituation calls f with each combination of event, phase, verb, state and the flags that can matter.
func everySituation(f func(s *situation, words [4]string)) {
	for e := range eventNames {
		for p := range phaseNames {
			for _, verb := range verbs {
				for state := range stateNames {
					s := situation{event: event(e), phase: phase(p), verb: verb, state: protocol.State(state)}
					words := [4]string{eventNames[e], phaseNames[p], verb.Verb, stateNames[state]}
					flags := flagsOf(&s)
					var names []string
					for name := range flags {
						names = append(names, name)
					}
					for bits := range 1 << len(names) {
						for i, name := range names {
							*flags[name] = bits>>i&1 == 1
						}
						f(&s, words)
					}
				}
			}
		}
	}
}

func TestEachSituationHasOneRowInTheTableOfTransitionsAndItsEffect(t *testing.T) {
	t.Parallel()
	rows := readTransitions(t)
	used := make([]int, len(rows))
	n := 0
	everySituation(func(s *situation, words [4]string) {
		n++
		flags := flagsOf(s)
		var found []string
		for i, row := range rows {
			if row.isAbout(words, flags) {
				found = append(found, row.effect)
				used[i]++
			}
		}
		if len(found) != 1 || found[0] != effectNames[next(*s)] {
			require.Failf(t, "the table and next differ", "%v %+v: table %v, next %s", words, *s, found, effectNames[next(*s)])
		}
	})
	assert.Greater(t, n, 50_000)
	for i, row := range rows {
		assert.NotZero(t, used[i], "no situation is like this: %s", row.text)
	}
}

// The table is about the flags of flagsOf alone.
func TestFlagsOfOtherEventsDoNotMatter(t *testing.T) {
	t.Parallel()
	everySituation(func(s *situation, words [4]string) {
		own, others := flagsOf(s), *s
		for e := range eventNames {
			others.event = event(e)
			for name, flag := range flagsOf(&others) {
				if own[name] == nil {
					*flag = true
				}
			}
		}
		others.event = s.event
		require.Equal(t, next(*s), next(others), "%v %+v", words, others)
	})
}

// What a permit rests on, whatever else is the case.
func TestNoTransitionBreaksAPromise(t *testing.T) {
	t.Parallel()
	everySituation(func(s *situation, words [4]string) {
		e := next(*s)
		what := fmt.Sprintf("%v %+v: %s", words, *s, effectNames[e])
		switch {
		case s.phase == removed:
			require.Equal(t, doNothing, e, what)
		case s.phase == leaving:
			require.NotContains(t, []effect{doHold, doWait, doRenew, doRestore, doAsk}, e, "a ticket that was given up comes back: %s", what)
		case e == doHold:
			require.True(t, s.event == answered && s.state == protocol.Held && !s.stale, "a grant without an answer that says so: %s", what)
		case e == doRenew:
			require.False(t, s.ended || s.state == protocol.Gone || s.state == protocol.Evicted, "a lease goes on that is over: %s", what)
		case s.event == failed || s.event == abandoned:
			require.NotContains(t, []effect{doHold, doWait, doRenew, doConfirm}, e, "a failure is a grant: %s", what)
		}
		if s.event == answered && s.phase == holding && s.state == protocol.Evicted && !s.less && s.verb != protocol.ReleaseScript {
			require.Contains(t, []effect{doLoseEvicted, doLeave}, e, "an eviction goes unnoticed: %s", what)
		}
	})
}

func TestNextCostsNoAllocation(t *testing.T) {
	s := situation{event: answered, phase: holding, verb: protocol.RefreshScript, state: protocol.Held}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = next(s) }))
}
