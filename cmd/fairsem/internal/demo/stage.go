package demo

import (
	"slices"
	"time"

	"github.com/fairsem/fairsem"
)

// How long a change shows.
const (
	stepTime = 70 * time.Millisecond  // by which each waiter moves up later than the one before, as people do
	fresh    = 800 * time.Millisecond // for which a move or a grant is marked
)

// stage knows the position of every ticket, and what changed: the picture shows what a single frame cannot. The zero
// value is empty.
type stage struct {
	frame
	at     time.Time         // when the frame came
	actors map[string]*actor // by permit id
	slots  [Limit]string     // permit id by unit; "" is free
}

// actor is a ticket that moves.
type actor struct {
	fairsem.Ticket
	position int       // in the queue, from 1; 0: a holder
	before   int       // position from which it moves; 0: it is new
	moved    time.Time // when it moved
	climbed  int       // positions by which it moved up in all
	came     time.Time
	entered  time.Time
}

// update takes a frame that came at that time.
func (s *stage) update(f frame, now time.Time) {
	s.frame, s.at = f, now
	before := s.actors
	s.actors = make(map[string]*actor, len(before))
	for i, w := range f.Waiters {
		s.actorOf(before[w.ID], w, now).moveTo(i+1, now)
	}
	for _, h := range f.Holders {
		s.actorOf(before[h.ID], h, now).enter(now)
	}
	s.assignUnits()
}

// actorOf gives the ticket its actor, which may have been there before.
func (s *stage) actorOf(a *actor, t fairsem.Ticket, now time.Time) *actor {
	if a == nil {
		a = &actor{came: now}
	}
	if t.Label == "" { // Redis forgets that of the dead
		t.Label = a.Label
	}
	a.Ticket = t
	s.actors[t.ID] = a
	return a
}

func (a *actor) moveTo(position int, now time.Time) {
	if a.position == position {
		return
	}
	a.climbed += max(0, a.position-position)
	a.before, a.position, a.moved = a.drawn(now), position, now
}

func (a *actor) enter(now time.Time) {
	if a.entered.IsZero() {
		a.entered, a.position = now, 0
	}
}

// drawn is the position at which it shows; 0: it does not yet. A gap goes through the queue from the front to the back.
func (a *actor) drawn(now time.Time) int {
	if now.Sub(a.moved) >= time.Duration(a.position-1)*stepTime {
		return a.position
	}
	return a.before
}

// waited is how long it was in the queue, as far as this was seen.
func (a *actor) waited() time.Duration { return a.entered.Sub(a.came) }

// line is the actor that shows at each position.
func (s *stage) line(now time.Time) (line [Workers - 1]*actor) {
	for _, w := range s.Waiters {
		a := s.actors[w.ID]
		if position := a.drawn(now); position > 0 && position <= len(line) {
			line[position-1] = a
		}
	}
	return line
}

// assignUnits gives holders as many units as they have, and keeps those that they had.
func (s *stage) assignUnits() {
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
func (s *stage) gap(weight int64) int {
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
func (s *stage) pack() {
	slices.SortStableFunc(s.slots[:], func(a, b string) int {
		switch {
		case a != "" && b == "":
			return -1
		case a == "" && b != "":
			return 1
		}
		return 0
	})
}
