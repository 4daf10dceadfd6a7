package protocol

import (
	"strconv"
	"strings"
)

// MaxWake is the most bytes in a wake message: the grants of one call, of three numbers each, and a key.
const MaxWake = 2*MaxIDs*3*20 + 1024 + MaxName

// ParseWake parses a wake message: "seq:position:token,seq:position:token,... epoch ownerkey". A message that is longer
// than any of ours is forged, and is not parsed: it could have any size.
func (k Keyspace) ParseWake(payload string) (name string, epoch int64, grants []Grant, ok bool) {
	if len(payload) > MaxWake+len(k.Prefix) {
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
	return Grant{n[0], n[1], n[2]}, true
}
