package protocol

import (
	"strconv"
	"strings"
)

// maxWake is the most bytes in a wake message: the grants of one call, of three numbers each, the numbers of their units, and a key.
const maxWake = 2*MaxIDs*3*20 + 17*(8*MaxIDs+MaxNumbers) + 1024 + MaxName

// ParseWake parses a wake message: "seq:position:token,seq:position:token,... epoch ownerkey". Behind a token come ":" and the numbers
// of the units, with "." between them, if they have any. A message that is longer than any of ours is forged, and is not parsed:
// it could have any size.
func (k Keyspace) ParseWake(payload string) (name string, epoch int64, grants []Grant, ok bool) {
	if len(payload) > maxWake+len(k.Prefix) {
		return "", 0, nil, false
	}
	list, rest, _ := strings.Cut(payload, " ")
	number, key, _ := strings.Cut(rest, " ")
	name, ok = k.NameOf(key, Owner)
	epoch, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return "", 0, nil, false
	}
	for entry := range strings.SplitSeq(list, ",") {
		g, ok := parseGrant(entry)
		if !ok {
			return "", 0, nil, false
		}
		grants = append(grants, g)
	}
	return name, epoch, grants, true
}

func parseGrant(entry string) (Grant, bool) {
	fields := strings.Split(entry, ":")
	var numbers []int64
	if len(fields) == 4 {
		var ok bool
		if numbers, ok = parseNumbers(fields[3], "."); !ok || numbers == nil {
			return Grant{}, false
		}
		fields = fields[:3]
	}
	if len(fields) != 3 {
		return Grant{}, false
	}
	var n [3]int64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return Grant{}, false
		}
	}
	return Grant{n[0], n[1], n[2], numbers}, true
}
