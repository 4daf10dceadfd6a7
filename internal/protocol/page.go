package protocol

import (
	"strconv"
	"time"
)

// Page is the reply of page.lua: some entries, and the one after which the next page begins, if there are more.
type Page struct {
	Entries []PageEntry
	Last    Bookmark
	More    bool
}

// PageEntry is a holder or a waiter. Number is its token or position.
type PageEntry struct {
	ID             string
	Number, Weight int64
	Remaining      time.Duration // until its lease ends; 0: it has ended
	Numbers        []int64       // of its units
}

// pageParts is how many values a reply has for each entry.
const pageParts = 5

// DecodePage checks and converts the reply of page.lua.
func DecodePage(list []any) (p Page, err error) {
	if len(list)%pageParts != 1 || list[0] != int64(0) && list[0] != int64(1) {
		return Page{}, ErrReply
	}
	p.More = list[0] == int64(1)
	for list = list[1:]; len(list) > 0; list = list[pageParts:] {
		id, isID := list[0].(string)
		number, isNumber := list[1].(string)
		weight, isWeight := list[2].(int64)
		remaining, isRemaining := list[3].(int64)
		numbers, isList := list[4].(string)
		if !isID || !isNumber || !isWeight || !isRemaining || !isList {
			return Page{}, ErrReply
		}
		p.Last = Bookmark{number, id}
		n, _ := strconv.ParseInt(number, 10, 64) // an entry of another program has no number
		e := PageEntry{ID: id, Number: max(0, min(n, MaxUnits)), Weight: weight}
		if remaining > 0 {
			e.Remaining = time.Duration(remaining) * time.Millisecond
		}
		if e.Numbers, isList = parseNumbers(numbers, ","); !isList {
			return Page{}, ErrReply
		}
		p.Entries = append(p.Entries, e)
	}
	return p, nil
}
