package fairsem

import (
	"os"
	"regexp"
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

answered asking|waiting|holding release * : remove-released
answered leaving release * : remove-released
answered leaving acquire|refresh|reduce|restore held|waiting : release
answered leaving acquire|refresh|reduce|restore gone|refused|full|too-big|early|evicted maybe-applied : release
answered leaving acquire|refresh|reduce|restore gone|refused|full|too-big|early|evicted -maybe-applied less : release
answered leaving acquire|refresh|reduce|restore gone|refused|full|too-big|early|evicted -maybe-applied -less : remove-released

answered holding acquire|refresh|reduce|restore * other : lose-other
answered holding acquire|refresh|reduce|restore * -other ended : leave
answered holding refresh|reduce * -other -ended less : restore

answered holding acquire|restore early -other -ended : requery
answered holding refresh|reduce early -other -ended -less : requery
answered holding acquire|restore waiting -other -ended newer : lose-forged
answered holding refresh|reduce waiting -other -ended -less newer : lose-forged
answered holding acquire|restore waiting -other -ended -newer : renew
answered holding refresh|reduce waiting -other -ended -less -newer : renew
answered holding acquire|restore evicted -other -ended : lose-evicted
answered holding refresh|reduce evicted -other -ended -less : lose-evicted
answered holding acquire|restore gone -other -ended : lose-missing
answered holding refresh|reduce gone -other -ended -less : lose-missing
answered holding reduce held -other -ended -less : confirm-part
answered holding acquire|restore held -other -ended never-renewed : confirm
answered holding refresh held -other -ended -less never-renewed : confirm
answered holding acquire|restore held -other -ended -never-renewed : renew
answered holding refresh held -other -ended -less -never-renewed : renew
answered holding acquire|restore refused|full|too-big -other -ended : renew
answered holding refresh|reduce refused|full|too-big -other -ended -less : renew

answered asking|waiting refresh|reduce * less : restore
answered asking|waiting acquire|restore * stale old : requery
answered asking|waiting refresh|reduce * -less stale old : requery
answered asking|waiting acquire|restore * stale -old : restore
answered asking|waiting refresh|reduce * -less stale -old : restore
answered asking|waiting acquire|restore held -stale -verifyFirst -unnumbered : hold
answered asking|waiting acquire|restore held -stale -verifyFirst unnumbered : return
answered asking|waiting acquire|restore held -stale verifyFirst : verify
answered asking|waiting refresh|reduce held -less -stale -verifyFirst -unnumbered : hold
answered asking|waiting refresh|reduce held -less -stale -verifyFirst unnumbered : return
answered asking|waiting refresh|reduce held -less -stale verifyFirst : verify
answered asking|waiting acquire|restore waiting -stale : wait
answered asking|waiting refresh|reduce waiting -less -stale : wait
answered asking|waiting acquire|restore early -stale : retry
answered asking|waiting refresh|reduce early -less -stale : retry
answered asking|waiting acquire|restore gone|refused|full|too-big|evicted -stale : refuse
answered asking|waiting refresh|reduce gone|refused|full|too-big|evicted -less -stale : refuse

notified removed|leaving * * : nothing
notified asking * * : keep
notified waiting * * -grant of-token : keep
notified waiting * * -grant -of-token of-position misfit : nothing
notified waiting * * -grant -of-token of-position -misfit : requery
notified waiting * * -grant -of-token -of-position : nothing
notified waiting * * grant -of-position : nothing
notified waiting * * grant of-position other-epoch : nothing
notified waiting * * grant of-position -other-epoch misfit : nothing
notified waiting * * grant of-position -other-epoch -misfit verifyFirst : verify
notified waiting * * grant of-position -other-epoch -misfit -verifyFirst unnumbered : verify
notified waiting * * grant of-position -other-epoch -misfit -verifyFirst -unnumbered : hold
notified holding * * -grant of-token : requery
notified holding * * -grant -of-token : nothing
notified holding * * grant : nothing

failed removed * * : nothing
failed asking|waiting|holding|leaving * * -final : nothing
failed asking|waiting|holding|leaving * * final carried : nothing
failed asking|waiting|holding|leaving refresh|reduce * final -carried : nothing
failed holding restore * final -carried : nothing
failed asking|waiting|holding|leaving acquire|release * final -carried executed : fail-leaving
failed asking|waiting|holding|leaving acquire|release * final -carried -executed : fail
failed asking|waiting|leaving restore * final -carried executed : fail-leaving
failed asking|waiting|leaving restore * final -carried -executed : fail

ticked removed * * : nothing
ticked holding * * overdue -ended : lose-overdue
ticked holding * * overdue ended : leave
ticked holding * * -overdue doubtful : query
ticked holding * * -overdue -doubtful : reduce
ticked asking|waiting * * silent : leave-unanswered
ticked asking * * -silent : ask
ticked waiting * * -silent doubtful : query
ticked waiting * * -silent -doubtful : reduce
ticked leaving * * expired : remove-unanswered
ticked leaving * * -expired busy : nothing
ticked leaving * * -expired -busy known : release
ticked leaving * * -expired -busy -known maybe-applied : release
ticked leaving * * -expired -busy -known -maybe-applied : remove

left removed * * : nothing
left asking|waiting|holding|leaving * * busy : nothing
left asking|waiting|holding|leaving * * -busy known : release
left asking|waiting|holding|leaving * * -busy -known maybe-applied : release
left asking|waiting|holding|leaving * * -busy -known -maybe-applied : remove

received removed|asking|waiting|leaving * * : nothing
received holding * * : remove

closed removed|leaving * * : nothing
closed asking|waiting|holding * * : close
`

var (
	eventNames  = []string{"answered", "failed", "notified", "ticked", "left", "received", "closed"}
	phaseNames  = []string{"asking", "waiting", "holding", "leaving", "removed"}
	stateNames  = []string{"gone", "held", "waiting", "refused", "full", "too-big", "early", "evicted"}
	effectNames = []string{
		"nothing", "ask", "release", "query", "requery", "restore", "reduce", "wait", "hold", "verify", "return", "keep", "renew", "confirm",
		"confirm-part", "retry", "refuse", "leave", "leave-unanswered", "close", "lose-overdue", "lose-forged", "lose-evicted", "lose-missing",
		"lose-other", "remove", "remove-released", "remove-unanswered", "fail", "fail-leaving",
	}
	verbs = []*protocol.Script{
		protocol.AcquireScript, protocol.ReleaseScript, protocol.RefreshScript, protocol.ReduceScript, protocol.RestoreScript,
	}
)

// flag is a field of a situation.
type flag struct {
	name  string
	value *bool
}

// flagsOf are the flags that can matter for an event.
func flagsOf(s *situation) []flag {
	given := []flag{{"busy", &s.busy}, {"known", &s.known}, {"maybe-applied", &s.maybeApplied}}
	grant := []flag{{"verifyFirst", &s.verifyFirst}, {"unnumbered", &s.unnumbered}}
	switch s.event {
	case answered:
		return append(grant, flag{"ended", &s.ended}, flag{"other", &s.other}, flag{"less", &s.less}, flag{"newer", &s.newer}, flag{"stale", &s.stale}, flag{"old", &s.old},
			flag{"maybe-applied", &s.maybeApplied}, flag{"never-renewed", &s.neverRenewed})
	case failed:
		return []flag{{"final", &s.final}, {"carried", &s.carried}, {"executed", &s.executed}}
	case notified:
		return append(grant, flag{"grant", &s.grant}, flag{"of-position", &s.ofPosition}, flag{"of-token", &s.ofToken},
			flag{"other-epoch", &s.otherEpoch}, flag{"misfit", &s.misfit})
	case ticked:
		return append(given, flag{"overdue", &s.overdue}, flag{"ended", &s.ended}, flag{"expired", &s.expired}, flag{"silent", &s.silent}, flag{"doubtful", &s.doubtful})
	case left:
		return given
	default:
		return nil
	}
}

// transition is a row.
type transition struct {
	text    string
	words   [4][]string // event, phase, verb, state; nil: any
	matter  int         // bits of the flags that the row names, in the order of flagsOf
	holding int         // those of them that hold
	effect  string
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
		row := transition{text: line, effect: then}
		for i, word := range words[:4] {
			if word != "*" {
				row.words[i] = strings.Split(word, "|")
			}
		}
		require.Contains(t, effectNames, then)
		flags := flagsOf(&situation{event: event(slices.Index(eventNames, words[0]))})
		for _, word := range words[4:] {
			name, not := strings.CutPrefix(word, "-")
			i := slices.IndexFunc(flags, func(f flag) bool { return f.name == name })
			require.GreaterOrEqual(t, i, 0, line)
			row.matter |= 1 << i
			if !not {
				row.holding |= 1 << i
			}
		}
		all = append(all, row)
	}
	return all
}

// isAbout reports whether a row can be about situations with those words.
func (r transition) isAbout(words [4]string) bool {
	for i, word := range words {
		if r.words[i] != nil && !slices.Contains(r.words[i], word) {
			return false
		}
	}
	return true
}

// everyKind calls f with each combination of event, phase, verb and state.
func everyKind(f func(s situation, words [4]string)) {
	for e := range eventNames {
		for p := range phaseNames {
			for _, verb := range verbs {
				for state := range stateNames {
					f(situation{event: event(e), phase: phase(p), verb: verb, state: protocol.State(state)},
						[4]string{eventNames[e], phaseNames[p], verb.Verb, stateNames[state]})
				}
			}
		}
	}
}

// everyFlag calls f with each combination of the flags that can matter, and with their bits. It changes s.
func everyFlag(s *situation, f func(flags int)) {
	all := flagsOf(s)
	for bits := range 1 << len(all) {
		for i, flag := range all {
			*flag.value = bits>>i&1 == 1
		}
		f(bits)
	}
}

func everySituation(f func(s *situation, words [4]string)) {
	everyKind(func(s situation, words [4]string) {
		everyFlag(&s, func(int) { f(&s, words) })
	})
}

func TestEachSituationHasOneRowInTheTableOfTransitionsAndItsEffect(t *testing.T) {
	t.Parallel()
	rows := readTransitions(t)
	used := make([]int, len(rows))
	n := 0
	everyKind(func(s situation, words [4]string) {
		var possible []int
		for i, row := range rows {
			if row.isAbout(words) {
				possible = append(possible, i)
			}
		}
		everyFlag(&s, func(flags int) {
			n++
			found, then := 0, ""
			for _, i := range possible {
				if flags&rows[i].matter == rows[i].holding {
					found, then = found+1, rows[i].effect
					used[i]++
				}
			}
			if e := effectNames[next(s)]; found != 1 || then != e {
				require.Failf(t, "the table and next differ", "%v %+v: %d rows, the last %s, next %s", words, s, found, then, e)
			}
		})
	})
	assert.Greater(t, n, 250_000)
	for i, row := range rows {
		assert.NotZero(t, used[i], "no situation is like this: %s", row.text)
	}
}

func TestTheModelNamesEveryRowOfTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/model/README.md")
	require.NoError(t, err)
	var named, rows []string
	for _, cited := range regexp.MustCompile("`(\\w+) ([\\w, ]+) : ([\\w-]+)`").FindAllStringSubmatch(string(text), -1) {
		for phase := range strings.SplitSeq(cited[2], ", ") {
			named = append(named, cited[1]+" "+phase+" : "+cited[3])
		}
	}
	for _, row := range readTransitions(t) {
		for _, phase := range row.words[1] {
			rows = append(rows, row.words[0][0]+" "+phase+" : "+row.effect)
		}
	}
	slices.Sort(rows)
	slices.Sort(named)
	assert.Equal(t, slices.Compact(rows), named)
}

// The table is about the flags of flagsOf alone.
func TestFlagsOfOtherEventsDoNotMatter(t *testing.T) {
	t.Parallel()
	var every situation // has all flags
	for e := range eventNames {
		every.event = event(e)
		for _, flag := range flagsOf(&every) {
			*flag.value = true
		}
	}
	everyKind(func(s situation, words [4]string) {
		others := every
		others.event, others.phase, others.verb, others.state = s.event, s.phase, s.verb, s.state
		own := flagsOf(&others)
		everyFlag(&s, func(flags int) {
			for i := range own {
				*own[i].value = flags>>i&1 == 1
			}
			if next(s) != next(others) {
				require.Failf(t, "another flag matters", "%v %+v", words, s)
			}
		})
	})
}

// What a permit rests on, whatever else is the case.
func TestNoTransitionBreaksAPromise(t *testing.T) {
	t.Parallel()
	everySituation(func(s *situation, words [4]string) {
		e := next(*s)
		never := func(broken bool, why string) {
			if broken {
				require.Failf(t, why, "%v %+v: %s", words, *s, effectNames[e])
			}
		}
		isGrant := s.event == answered && s.state == protocol.Held && !s.stale ||
			s.event == notified && s.phase == waiting && s.grant && s.ofPosition && !s.otherEpoch
		grants := e == doHold || e == doVerify || e == doReturn
		goesOn := e == doHold || e == doWait || e == doRenew || e == doConfirm || e == doRestore || e == doAsk
		never(s.phase == removed && e != doNothing, "a ticket that was removed changes")
		never(s.phase == leaving && (goesOn || grants), "a ticket that was given up comes back")
		never(grants && !isGrant, "a grant without an answer or a true message that says so")
		never(e == doHold && (s.verifyFirst || s.unnumbered), "a permit without a lease or without its numbers")
		never(e == doRenew && (s.ended || s.other || s.state == protocol.Gone || s.state == protocol.Evicted), "a lease goes on that is over")
		never((s.event == failed || s.event == left) && goesOn, "a failure is a grant")
		never(s.event == ticked && s.phase == holding && s.overdue && !s.ended && e != doLoseOverdue, "the end of a lease goes unnoticed")
		never(e == doRemove && s.event == left && (s.known || s.maybeApplied), "what Redis may have is not released")
		evicted := s.event == answered && s.verb != protocol.ReleaseScript && s.phase == holding && s.state == protocol.Evicted
		never(evicted && !s.less && e != doLoseEvicted && e != doLoseOther && e != doLeave, "an eviction goes unnoticed")
	})
}

func TestNextCostsNoAllocation(t *testing.T) {
	s := situation{event: answered, phase: holding, verb: protocol.RefreshScript, state: protocol.Held}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = next(s) }))
}
