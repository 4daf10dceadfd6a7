package demo

import (
	"slices"
	"time"

	"github.com/fairsem/fairsem"
)

// fresh is how long a move or a grant is marked.
const fresh = 800 * time.Millisecond

// scene knows the changes, which a single frame does not show. The zero value is empty.
type scene struct {
	frame
	at      time.Time          // when the frame came
	callers map[string]*caller // by permit id
	slots   [Limit]string      // permit id by unit; "" is free
}

// caller is a holder or a waiter, from the first frame that has its ticket.
type caller struct {
	fairsem.Ticket
	position int // in the queue, from 1; 0: a holder
	climbed  int // positions by which it moved up in all
	came     time.Time
	moved    time.Time // up, for the last time
	granted  time.Time
}

// update takes a frame that came at that time.
func (s *scene) update(f frame, now time.Time) {
	s.frame, s.at = f, now
	before := s.callers
	s.callers = make(map[string]*caller, len(before))
	for i, w := range f.Waiters {
		c := s.add(before[w.ID], w, now)
		if c.position > i+1 {
			c.climbed += c.position - (i + 1)
			c.moved = now
		}
		c.position = i + 1
	}
	for _, h := range f.Holders {
		if c := s.add(before[h.ID], h, now); c.granted.IsZero() {
			c.granted, c.position = now, 0
		}
	}
	s.assignUnits()
}

// add adds a ticket. known is the known state of its caller; nil: it is new.
func (s *scene) add(known *caller, t fairsem.Ticket, now time.Time) *caller {
	c := known
	if c == nil {
		c = &caller{came: now}
	}
	if t.Label == "" { // Redis forgets that of the dead
		t.Label = c.Label
	}
	c.Ticket = t
	s.callers[t.ID] = c
	return c
}

// waited is how long it was in the queue, as far as this was seen.
func (c *caller) waited() time.Duration { return c.granted.Sub(c.came) }

// assignUnits gives holders as many units as they have, and keeps those that they had.
func (s *scene) assignUnits() {
	for i, id := range s.slots {
		if !s.holds(id) {
			s.slots[i] = ""
		}
	}
	for _, h := range s.Holders {
		if slices.Contains(s.slots[:], h.ID) {
			continue
		}
		at := s.gap(h.Weight)
		if at < 0 { // the free ones are apart
			s.pack()
			at = max(0, s.gap(1))
		}
		for i := at; i < min(len(s.slots), at+int(h.Weight)) && s.slots[i] == ""; i++ {
			s.slots[i] = h.ID
		}
	}
}

// gap is where that many free units begin that are side by side; -1: nowhere.
func (s *scene) gap(weight int64) int {
	free := int64(0)
	for i, id := range s.slots {
		if free++; id != "" {
			free = 0
		}
		if free == weight {
			return i + 1 - int(weight)
		}
	}
	return -1
}

// pack moves the free units to the end.
func (s *scene) pack() {
	_ = slices.DeleteFunc(s.slots[:], func(id string) bool { return id == "" }) // it clears the rest of the array
}
