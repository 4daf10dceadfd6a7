package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

const (
	idsPerQuery = 1000 // keeps the server from others for 2 or 3 ms
	maxQueries  = 100  // of one name
	// longestLease is the longest that the library gives, and a minute for clocks that are corrected.
	longestLease = 24*time.Hour + time.Minute
	// staleAfter is how long expired leases may stay: keys of an unused name outlive them by less.
	staleAfter = 20 * time.Second
	// recheckAfter is the time between two queries of a state that may be about to become correct.
	recheckAfter = 300 * time.Millisecond
)

// facts are the reply of audit.lua about a name. Missing numbers are 0.
type facts struct {
	wrong []string // kinds of keys that are of another type; then there is nothing else
	now   int64    // server ms
	ttls  map[string]int64

	layout, declared, pinned string
	since, epoch             int64
	holders, waiting         int64
	weights, extra           int64    // entries of weight, and the sum that is stored there for all of them
	units, weighed           int64    // of the ids that were read
	counter, newest          int64    // the last number, and the last token
	last                     int64    // deadline
	noDeadline, inBoth       []string // ids without a deadline, and that hold and wait
	lateCount, farCount      int64    // deadlines that are long over, or too far away
	late, far                string   // an id of each
	expired                  expired  // of the ids that were read

	hasExtra, hasMeta, hasCounter bool
	hasPin                        bool // a limit set by hand that is a number; any other is ignored
	shared                        bool // by tenants
	numbered                      bool // some units have numbers

	unreadNumbers int64 // too many to be read: see judgeNumbers
}

// expired counts entries that have expired and are still stored: a call removes them before it grants anything.
type expired struct{ holders, units, waiters int64 }

// known reports whether there is anything of the name.
func (f facts) known() bool {
	for _, ttl := range f.ttls {
		if ttl != noKey {
			return true
		}
	}
	return len(f.wrong) > 0
}

// complete reports whether one query read all ids.
func (f facts) complete() bool { return max(f.holders, f.waiting) <= idsPerQuery }

// unchecked is how many ids are beyond those that are read.
func (f facts) unchecked() int64 {
	const most = idsPerQuery * maxQueries
	return max(0, f.holders-most) + max(0, f.waiting-most)
}

// used is the number of units of all holders that have not expired.
func (f facts) used() int64 {
	if f.complete() {
		return f.units - f.expired.units
	}
	return f.holders + f.extra - f.expired.units
}

// limit is the one in force, if it is known.
func (f facts) limit() (limit int64, known bool) {
	if f.hasPin {
		return parseUnits(f.pinned)
	}
	units, _, _ := strings.Cut(f.declared, "/")
	return parseUnits(units)
}

// parseUnits parses a number of units, and accepts the same values as the scripts of the library.
func parseUnits(stored string) (units int64, ok bool) {
	units, err := strconv.ParseInt(stored, 10, 64)
	return units, err == nil && units >= 0 && units <= protocol.MaxUnits
}

// rate reports whether grants are never released but expire.
func (f facts) rate() bool { return strings.Contains(f.declared, "/") }

// Replies of PTTL that are no time.
const (
	noExpiry = -1
	noKey    = -2
)

// audit runs one of protocol.AuditScripts about a name.
func (p *target) audit(ctx context.Context, s *protocol.Script, name string, args ...any) ([]any, error) {
	keys := s.KeysOf(p.space(), name)
	all, err := p.rdb.EvalSha(ctx, s.Hash(), keys, args...).Slice()
	if failure.UnknownScript(err) {
		return p.rdb.Eval(ctx, s.Text(), keys, args...).Slice()
	}
	return all, err
}

func (p *target) query(ctx context.Context, name string, from int) (facts, error) {
	raw, err := p.audit(ctx, protocol.AuditScript, name, from, idsPerQuery, staleAfter.Milliseconds(), longestLease.Milliseconds(),
		protocol.MetaLayout, protocol.MetaDeclared, protocol.MetaSince, protocol.MetaPinned, protocol.MetaEpoch, protocol.MetaTenants, protocol.MetaNumbered)
	if err != nil {
		return facts{}, err
	}
	return decode(raw)
}

var errReply = errors.New("unexpected reply from a script")

func decode(raw []any) (f facts, err error) {
	if len(raw) < 2 {
		return f, errReply
	}
	f.now = number(raw[0])
	for _, i := range list(raw[1]) {
		kind := number(i)
		if kind < 1 || kind > int64(len(protocol.Kinds)) {
			return f, errReply
		}
		f.wrong = append(f.wrong, protocol.Kinds[kind-1])
	}
	if len(f.wrong) > 0 {
		return f, nil
	}
	const parts, metas, counts = 16, 7, 3
	if len(raw) != parts || len(list(raw[2])) != len(protocol.Kinds) || len(list(raw[3])) != metas || len(list(raw[4])) != counts || len(list(raw[15])) != counts {
		return f, errReply
	}
	f.ttls = make(map[string]int64)
	for i, ttl := range list(raw[2]) {
		f.ttls[protocol.Kinds[i]] = number(ttl)
	}
	meta, sizes := list(raw[3]), list(raw[4])
	f.layout, f.declared, f.since, f.epoch = word(meta[0]), word(meta[1]), number(meta[2]), number(meta[4])
	f.shared, f.numbered = word(meta[5]) == "1", word(meta[6]) == "1"
	f.pinned, f.hasMeta = word(meta[3]), f.ttls[protocol.Meta] != noKey
	_, f.hasPin = parseUnits(f.pinned)
	f.holders, f.waiting, f.weights = number(sizes[0]), number(sizes[1]), number(sizes[2])
	f.counter, f.hasCounter = number(raw[5]), raw[5] != nil
	f.extra, f.hasExtra = number(raw[6]), raw[6] != nil
	f.units, f.weighed, f.newest, f.last = number(raw[7]), number(raw[8]), number(raw[9]), number(raw[10])
	f.noDeadline, f.inBoth = texts(raw[11]), texts(raw[12])
	f.lateCount, f.late = some(raw[13])
	f.farCount, f.far = some(raw[14])
	f.expired = expired{number(list(raw[15])[0]), number(list(raw[15])[1]), number(list(raw[15])[2])}
	return f, nil
}

// list, word, texts, number and some take parts of a reply. A missing part is the zero value.
func list(v any) []any {
	all, _ := v.([]any)
	return all
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) (all []string) {
	for _, entry := range list(v) {
		all = append(all, word(entry))
	}
	return all
}

func number(v any) int64 {
	if n, is := v.(int64); is {
		return n
	}
	n, _ := strconv.ParseFloat(word(v), 64)
	return int64(n)
}

func some(v any) (int64, string) {
	pair := list(v)
	if len(pair) < 2 {
		return 0, ""
	}
	return number(pair[0]), word(pair[1])
}
