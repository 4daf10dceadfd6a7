package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Invariants of every name at every moment: each script of the library preserves them.

// inspect checks one name: all of its ids in turn, and a second time where one query is not enough.
func (p *target) inspect(ctx context.Context, name string) (facts, []Finding, error) {
	f, err := p.query(ctx, name, 0)
	if err != nil {
		return f, nil, err
	}
	if !f.known() {
		if slices.Contains(p.Names, name) {
			return f, about(name, fail("Redis knows no such name", "fairsem ls shows those that are in use")), nil
		}
		return f, nil, nil // it is gone meanwhile
	}
	bad := judge(f)
	if _, differs := f.otherLayout(); differs {
		return f, about(name, bad...), nil
	}
	rest, err := p.rest(ctx, name, &f)
	if err != nil {
		return f, nil, err
	}
	tenants, err := p.judgeTenants(ctx, name, f)
	if err != nil {
		return f, nil, err
	}
	numbers, left, err := p.judgeNumbers(ctx, name, f)
	if err != nil {
		return f, nil, err
	}
	f.unreadNumbers = left
	bad = slices.Concat(bad, rest, tenants, numbers)
	if f.over() {
		over, err := p.judgeOver(ctx, name, f)
		if err != nil {
			return f, nil, err
		}
		bad = append(bad, over...)
	}
	return f, about(name, bad...), nil
}

// rest queries the ids that the first query of a name did not read, in turn: it returns their faults, and adds the expired ones
// to f.
func (p *target) rest(ctx context.Context, name string, f *facts) (bad []Finding, err error) {
	for i := 1; i < maxQueries && int64(i*idsPerQuery) < max(f.holders, f.waiting); i++ {
		more, err := p.query(ctx, name, i*idsPerQuery)
		if err != nil {
			return nil, err
		}
		bad = append(bad, more.ids()...)
		f.expired.holders += more.expired.holders
		f.expired.units += more.expired.units
		f.expired.waiters += more.expired.waiters
	}
	return bad, nil
}

// about says which name findings are about.
func about(name string, all ...Finding) []Finding {
	for i, f := range all {
		all[i] = f.with("name", name)
		all[i].Message = text.Brief(name) + ": " + f.Message
	}
	return all
}

// judge returns the faults of a name that one query shows.
func judge(f facts) (bad []Finding) {
	if len(f.wrong) > 0 {
		return []Finding{fail(fmt.Sprintf("keys of another type, so every call fails: %s", strings.Join(f.wrong, ", ")),
			"DEL the key if no other program needs it; else use another name or prefix").with("problem", "type")}
	}
	if bad, differs := f.otherLayout(); differs {
		return []Finding{bad.with("problem", layoutProblem).with("layout", f.layout)}
	}
	return slices.Concat(f.keys(), f.ids(), f.deadlinesAreNear(), f.weightsAgree())
}

const layoutProblem = "layout"

// keysAreRenewed is when the scripts set the expiry of keys again: not with each renewal of a lease, but once less than LINGER would
// remain of it after that lease.
const keysAreRenewed = "within 10 s and the longest TTL or window"

// drain is the advice about the keys of another version.
var drain = "or drain the name: stop the processes of that version, and its " + failure.KeysExpire +
	"; if nothing is held any more: redis-cli DEL 'PREFIX:{NAME}:'{" + strings.Join(protocol.Kinds[:], ",") + "}"

// otherLayout returns the finding about a name whose keys this version does not read, if it is one.
func (f facts) otherLayout() (bad Finding, differs bool) {
	const message = "its layout is %s, of %s version of fairsem; this one uses layout %d and refuses every call"
	n, err := strconv.Atoi(f.layout)
	switch {
	case f.layout == "" || err == nil && n == protocol.Layout:
		return Finding{}, false
	case err != nil || n < 0:
		return fail(fmt.Sprintf("its layout is %s, which no version of fairsem writes", text.Brief(f.layout)), "HDEL the field layout of its meta"), true
	case n > protocol.Layout:
		return fail(fmt.Sprintf(message, text.Brief(f.layout), "a newer", protocol.Layout), "upgrade fairsem, here and in all programs that use the name, "+drain), true
	}
	return fail(fmt.Sprintf(message, text.Brief(f.layout), "an older", protocol.Layout), "use the name with programs of the older version only, "+drain), true
}

// keys checks the keys themselves.
func (f facts) keys() (bad []Finding) {
	var server, forever, early []string
	for _, kind := range protocol.Kinds {
		switch ttl := f.ttls[kind]; {
		case ttl == noKey:
			continue
		case ttl == noExpiry && (kind != protocol.Meta || !f.hasPin):
			forever = append(forever, kind)
		case ttl >= 0 && f.now+ttl < f.last && f.farCount == 0:
			early = append(early, kind)
		}
		server = append(server, kind)
	}
	if !f.hasMeta {
		bad = append(bad, fail(fmt.Sprintf("it has %s but no meta: keys were deleted, or Redis evicted them", strings.Join(server, ", ")),
			"see the check eviction; connected processes restore their permits and positions").with("problem", "orphan"))
	}
	bad = append(bad, f.limits()...)
	if len(forever) > 0 {
		bad = append(bad, fail(fmt.Sprintf("keys that never expire, because another program wrote them: %s", strings.Join(forever, ", ")),
			"DEL them once the name is not in use; in use, a renewal or a grant sets their expiry "+keysAreRenewed).with("problem", "immortal"))
	}
	if len(early) > 0 {
		bad = append(bad, fail(fmt.Sprintf("keys that expire before the last lease ends, which would lose its holder: %s", strings.Join(early, ", ")),
			"redis-cli PERSIST them now, and find what sets their expiry; a renewal or a grant sets it again, but only "+keysAreRenewed).with("problem", "expiry"))
	}
	return bad
}

// limits checks the limits that are stored.
func (f facts) limits() (bad []Finding) {
	if f.pinned != "" && !f.hasPin {
		bad = append(bad, warn(fmt.Sprintf("invalid limit %s, set by hand, which every call ignores", text.Brief(f.pinned)),
			"find what wrote it; HDEL the field pinned of its meta").with("problem", "limit"))
	}
	if _, known := f.limit(); !known && f.declared != "" {
		bad = append(bad, fail(fmt.Sprintf("invalid limit %s", text.Brief(f.declared)),
			"DEL its meta once the name is not in use").with("problem", "limit"))
	}
	return bad
}

// ids checks the ids that were read one by one.
func (f facts) ids() (bad []Finding) {
	if len(f.noDeadline) > 0 {
		bad = append(bad, fail(fmt.Sprintf("holders or waiters without a deadline, which never expire: %d, the first %s", len(f.noDeadline), idWord(f.noDeadline[0])),
			"fairsem evict NAME ID").with("problem", "deadline").with("ids", f.noDeadline))
	}
	if len(f.inBoth) > 0 {
		bad = append(bad, fail(fmt.Sprintf("ids that are both holder and waiter: %d, the first %s", len(f.inBoth), idWord(f.inBoth[0])),
			"fairsem evict NAME ID").with("problem", "twice").with("ids", f.inBoth))
	}
	return bad
}

// idWord is an id as fairsem evict accepts it.
func idWord(id string) string { return text.Word(inspect.PlainID(id)) }

// deadlinesAreNear finds leases that the library never gives, or that were not removed. Grants of a rate may stay for
// long. A deadline without a holder or a waiter is a tombstone.
func (f facts) deadlinesAreNear() (bad []Finding) {
	if f.rate() {
		return nil
	}
	if f.farCount > 0 {
		bad = append(bad, fail(fmt.Sprintf("leases that end too far in the future: %d, the first of %s; the server's clock was stepped back, or another program wrote them", f.farCount, idWord(f.far)),
			"fairsem evict NAME ID, if it holds or waits, and then ZREM it from the timeout key, where evict leaves the deadline").with("problem", "far").with("ids", []string{f.far}))
	}
	if f.lateCount > 0 {
		bad = append(bad, warn(fmt.Sprintf("leases that ended more than %v ago and are still stored: %d, the first of %s", staleAfter, f.lateCount, idWord(f.late)),
			"nothing, if the name is not in use: the next call for a permit removes them").with("problem", "late").with("ids", []string{f.late}))
	}
	return bad
}

// weightsAgree compares the stored counts with the entries.
func (f facts) weightsAgree() (bad []Finding) {
	if f.hasCounter && f.counter < f.newest {
		bad = append(bad, warn("its counter is behind the newest token: tokens repeat if the server's clock is stepped back",
			"nothing, the next grant corrects it; find what wrote to the key").with("problem", "counter"))
	}
	if !f.complete() {
		return bad
	}
	held, stored := f.units-f.holders, f.weights
	if f.hasExtra {
		stored--
	}
	switch {
	case f.extra < held:
		bad = append(bad, fail(fmt.Sprintf("%d units in use are counted as %d, so more is granted than the limit", f.units, f.holders+f.extra),
			"fairsem pause NAME until its holders are done, then fairsem resume NAME").with("problem", "extra"))
	case f.extra > held && f.holders > 0:
		bad = append(bad, warn(fmt.Sprintf("%d units in use are counted as %d, so less is granted than the limit", f.units, f.holders+f.extra),
			"nothing, a renewal corrects it, or the end of the last permit").with("problem", "extra"))
	}
	if stored > f.weighed {
		bad = append(bad, warn(fmt.Sprintf("weights without a holder or a waiter: %d", stored-f.weighed),
			"nothing, they expire with the name; find what wrote to the key").with("problem", "weight"))
	}
	return bad
}

// over reports whether more is in use than the limit.
func (f facts) over() bool {
	limit, known := f.limit()
	return known && f.used() > limit
}

// judgeOver checks a name again of which more is in use than the limit. That is correct after a limit was lowered, and
// when permits were restored after a restart; but then nothing new is granted.
func (p *target) judgeOver(ctx context.Context, name string, before facts) ([]Finding, error) {
	select {
	case <-time.After(recheckAfter):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := p.query(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	if _, err := p.rest(ctx, name, &after); err != nil || !after.over() {
		return nil, err // the surplus was released
	}
	limit, _ := after.limit()
	message := fmt.Sprintf("%s in use, the limit is %d", render.Count(after.used(), "unit"), limit)
	if after.sameLimit(before) && after.newest > max(before.counter, before.newest) {
		return []Finding{fail(message+", and more were granted just now",
			"fairsem pause NAME, and report a bug with the output of fairsem show --json NAME").with("problem", "over")}, nil
	}
	if after.hasPin {
		return []Finding{warn(message+", set by hand: nothing is granted until enough are released",
			"nothing, if it is intended; fairsem resume NAME ends it").with("problem", "over")}, nil
	}
	return []Finding{warn(message+": it was lowered, or permits were restored after a restart; nothing is granted until enough are released",
		"nothing; if it lasts for longer than permits are held, fairsem show NAME lists the holders").with("problem", "over")}, nil
}

// sameLimit reports whether neither the limit nor the state was replaced in between.
func (f facts) sameLimit(before facts) bool {
	return f.declared == before.declared && f.pinned == before.pinned && f.since == before.since && f.epoch == before.epoch
}
