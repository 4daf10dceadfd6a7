package demo

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/internal/history"
)

const (
	killPart  = 0.4             // of the length has passed when a worker is killed
	killGrace = 8 * time.Second // for a worker worth killing to turn up
	aftermath = time.Second     // to see the next holder of the units
)

// event is an event for the log, or a line of the summary.
type event struct {
	AfterMS int64  `json:"after_ms"`
	Text    string `json:"text"`
}

func (e event) when() string { return fmt.Sprintf("%5.1f s", float64(e.AfterMS)/1000) }

func (d *demo) addEvent(format string, args ...any) {
	d.events = append(d.events, event{time.Since(d.began).Milliseconds(), fmt.Sprintf(format, args...)})
}

// update adds a snapshot to the evidence, and kills a worker when it is time.
func (d *demo) update(s snapshot) {
	d.orderings.add(s.Waiters)
	d.mostSeen = max(d.mostSeen, s.used())
	switch {
	case d.death.killed == 0 && time.Since(d.began).Seconds() >= killPart*d.options.Length.Seconds():
		d.killOne(s)
	case d.death.killed != 0 && (d.death.gone == 0 || d.death.regained == 0):
		d.observeDeath(s)
	}
}

// freshGrant is how old a grant may be to be sure that its holder goes on for a while.
const freshGrant = minHold / 2

// killOne kills a holder of more than one unit, if there is one with a recent grant. With more than one, the head of the
// queue fits whatever its weight, so the first grant that needs the units shows when they were free.
func (d *demo) killOne(s snapshot) {
	for _, h := range s.Holders {
		g, known := d.team.grant(h.ID)
		if !known || g.Released != 0 || h.Weight == 1 || since(g.Granted) > freshGrant || len(s.Waiters) == 0 {
			continue
		}
		if at, held := d.team.kill(g.Process, h.ID); held {
			d.death = death{permit: g, killed: at}
			d.lateAtDeath = d.lateness.total.Load()
			d.addEvent("kill -9 %s, which holds %s: its lease is not renewed now", g.Process, render.Count(g.Weight, "unit"))
		}
		return
	}
}

// since is how long ago a time of history.Now was.
func since(at int64) time.Duration { return time.Duration(history.Now() - at) }

// observeDeath watches the permit of the dead worker, and its units.
func (d *demo) observeDeath(s snapshot) {
	switch holds := s.holds(d.death.permit.ID); {
	case holds:
		d.death.listed = s.asked
	case d.death.gone == 0:
		d.death.gone = s.at
	}
	if d.death.regained == 0 || s.holds(d.death.permit.ID) { // what comes later cannot have delayed it
		d.death.late = d.lateness.total.Load() - d.lateAtDeath
	}
	if d.death.regained != 0 {
		return
	}
	d.death.regained = regained(d.team.history(), d.death.permit, Limit, d.death.killed)
	if d.death.regained != 0 {
		took := time.Duration(d.death.regained - d.death.killed)
		d.addEvent("its units are granted to the head of the queue, %s after it died", seconds(took))
		if late := time.Duration(d.death.late); late >= noticeable {
			d.addEvent("this machine was busy: meanwhile this process waited %s for a processor", seconds(late))
		}
	}
}

// frame is the picture at one moment.
type frame struct {
	snapshot
	place   string // where it happens
	elapsed time.Duration
	dead    string // id of the permit of the killed worker
	tally   tally
	events  []event
}

// tally counts the events until now. It leaves out results that may still change.
type tally struct {
	grants, overLimit, overtakes, killed int
}

func (d *demo) frame(s snapshot) frame {
	return frame{
		snapshot: s,
		place:    fmt.Sprintf("%s on %s, TTL %v", d.sem.Name(), d.server.address, ttl),
		elapsed:  time.Since(d.began),
		dead:     d.death.permit.ID,
		tally:    d.count(),
		events:   slices.Clone(d.events),
	}
}

// count checks the limit with released permits only: the release of one may be read after the grant of the next.
func (d *demo) count() tally {
	grants := d.team.history()
	_, overtaken := overtakes(d.orderings, grants)
	t := tally{grants: len(grants), overtakes: len(overtaken)}
	done := slices.DeleteFunc(grants, func(g history.Grant) bool { return g.Released == 0 })
	t.overLimit = len(history.OverLimit(done, Limit))
	if t.overLimit == 0 && d.mostSeen > Limit {
		t.overLimit = 1
	}
	if d.death.killed != 0 {
		t.killed = 1
	}
	return t
}
