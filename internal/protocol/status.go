package protocol

import "time"

// Stock is the reply of one call of status.lua.
type Stock struct {
	Limit, Declared, Pinned      int64
	Holders, Waiting, Used       int64 // including expired ones
	Expired                      int64 // entries
	Counted, Held, Units, Waited int64 // of these, the counts of this call: entries, holders, their units, waiters
	Oldest                       int64 // us since the first waiter arrived that is not expired; negative: none was found
	Nearest                      int64 // ms until the next deadline; negative: none
	Window                       int64 // ms
	Exists                       int64
	Granted, ExpiredBefore       int64
	ExpiredSince                 int64 // of held: permits that expired but are not in lapsed yet
	AsOf                         int64 // server ms as of which entries count as expired
	At                           int64 // server us, by which waiters and holders are numbered
	Asks                         int64 // the time to send with a limit that is pinned now
	Paced, Pacing                int64 // recent grants while there were waiters, and the us that they took
}

// DecodeStock converts the reply of status.lua.
func DecodeStock(raw []int64) (s Stock, err error) {
	fields := []*int64{
		&s.Limit, &s.Declared, &s.Pinned, &s.Holders, &s.Waiting, &s.Used,
		&s.Expired, &s.Counted, &s.Held, &s.Units, &s.Waited,
		&s.Oldest, &s.Nearest, &s.Window, &s.Exists, &s.Granted, &s.ExpiredBefore, &s.ExpiredSince, &s.AsOf, &s.At, &s.Asks, &s.Paced, &s.Pacing,
	}
	if len(raw) != Head+len(fields) {
		return Stock{}, ErrReply
	}
	for i, field := range fields {
		*field = raw[Head+i]
	}
	return s, nil
}

// With adds the counts of another call. False: the state has changed between the calls.
func (s Stock) With(more Stock) (Stock, bool) {
	same := more.Holders == s.Holders && more.Waiting == s.Waiting && more.Used == s.Used && more.Expired == s.Expired
	s.ExpiredSince += more.ExpiredSince
	s.Counted, s.Held, s.Units, s.Waited = s.Counted+more.Counted, s.Held+more.Held, s.Units+more.Units, s.Waited+more.Waited
	if s.Oldest < 0 {
		s.Oldest = more.Oldest
	}
	return s, same
}

// Status is the state of a name at one moment, without the entries that have expired.
type Status struct {
	At                     time.Time // server time
	Limit, Declared        int64
	Pinned                 bool
	Used, Holders, Waiting int64
	OldestWait, NextExpiry time.Duration
	Window                 time.Duration
	Exists                 bool
	Granted, Expired       int64
	Pace                   float64
}

// Status converts a stock that has counted all expired entries.
func (s Stock) Status() Status {
	return Status{
		At:    time.UnixMicro(s.At),
		Limit: s.Limit, Declared: s.Declared, Pinned: s.Pinned == 1,
		Used: s.Used - s.Units, Holders: s.Holders - s.Held, Waiting: s.Waiting - s.Waited,
		OldestWait: time.Duration(max(0, s.Oldest)) * time.Microsecond,
		NextExpiry: time.Duration(max(0, s.Nearest)) * time.Millisecond,
		Window:     time.Duration(s.Window) * time.Millisecond,
		Exists:     s.Exists == 1, Granted: s.Granted, Expired: s.ExpiredBefore + s.ExpiredSince,
		Pace: s.pace(),
	}
}

// pace returns the recent grants per second.
func (s Stock) pace() float64 {
	if s.Waiting == s.Waited || s.Pacing < time.Second.Microseconds() { // a grant or two of a young queue would say nothing
		return 0
	}
	return max(0, float64(s.Paced)*1e6/float64(s.Pacing))
}
