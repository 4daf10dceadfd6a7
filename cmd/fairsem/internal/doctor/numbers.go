package doctor

import (
	"context"
	"fmt"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/protocol"
)

// numbering is the reply of audit_numbers.lua about some holders and some numbers of a name.
type numbering struct {
	holder, number         int64 // ranks of the first that were not read
	holdersLeft, left      int64 // how many were not read; left are numbers
	twice, stray, missing  int64 // numbers, numbers and holders
	shared                 string
	one, other             string // the ids that have the number shared
	firstStray, firstLacks string // ids
}

func decodeNumbers(raw []any) (n numbering, err error) {
	const parts, rest, shares = 6, 2, 4
	if len(raw) != parts || len(list(raw[2])) != rest || len(list(raw[3])) != shares {
		return n, errReply
	}
	n.holder, n.number = number(raw[0]), number(raw[1])
	n.holdersLeft, n.left = number(list(raw[2])[0]), number(list(raw[2])[1])
	twice := list(raw[3])
	n.twice, n.shared, n.one, n.other = number(twice[0]), word(twice[1]), word(twice[2]), word(twice[3])
	n.stray, n.firstStray = some(raw[4])
	n.missing, n.firstLacks = some(raw[5])
	return n, nil
}

// judgeNumbers checks the numbers that units have, and returns how many of them are too many to be read.
func (p *target) judgeNumbers(ctx context.Context, name string, f facts) (bad []Finding, left int64, err error) {
	if !f.numbered {
		return nil, 0, nil
	}
	var n numbering
	for range maxQueries {
		raw, err := p.audit(ctx, protocol.AuditNumbersScript, name, n.holder, n.number, idsPerQuery)
		if err != nil {
			return nil, 0, err
		}
		if n, err = decodeNumbers(raw); err != nil {
			return nil, 0, err
		}
		bad = append(bad, n.judge()...)
		if n.holdersLeft <= 0 && n.left <= 0 {
			break
		}
	}
	return bad, max(0, n.left), nil
}

// judge compares the numbers with the holders.
func (n numbering) judge() (bad []Finding) {
	if n.twice > 0 {
		bad = append(bad, fail(fmt.Sprintf("numbers that two units have at once: %d, the first %s, of %s and %s", n.twice, text.Clean(n.shared), idWord(n.one), idWord(n.other)),
			"fairsem evict NAME ID, one of the two; find what wrote to the key").with("problem", "number-twice").with("ids", []string{n.one, n.other}))
	}
	if n.missing > 0 {
		bad = append(bad, fail(fmt.Sprintf("holders that lack a number, which can be granted to others: %d, the first %s", n.missing, idWord(n.firstLacks)),
			"fairsem evict NAME ID; after a restart from an old file nothing, its lease ends").with("problem", "number-missing").with("ids", []string{n.firstLacks}))
	}
	if n.stray > 0 {
		bad = append(bad, warn(fmt.Sprintf("numbers of units that no permit has: %d, the first of %s", n.stray, idWord(n.firstStray)),
			"nothing, a call removes them when too few are free, and they expire with the name").with("problem", "number-stray").with("ids", []string{n.firstStray}))
	}
	return bad
}
