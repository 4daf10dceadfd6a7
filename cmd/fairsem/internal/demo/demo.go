// Package demo shows processes that share a limit, and what happens when one of them is killed.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// What a demo is, if nothing else is wanted.
const (
	Workers = 7 // processes
	Limit   = 3 // units they share
	Length  = 10 * time.Second
)

const (
	ttl       = 2 * time.Second
	lookEvery = 100 * time.Millisecond
	killPart  = 0.4             // of the length has passed when a worker is killed
	killGrace = 3 * time.Second // for a worker worth killing to turn up
)

// weights has one worker for each weight. Two that take 2 units make the line interesting, and
// one of them is killed.
var weights = [Workers]int64{1, 1, 2, 1, 1, 2, 1}

// Options say how a demo is to be.
type Options struct {
	Redis     string        // URL of the server; "" is an embedded one
	Length    time.Duration // at least
	Interrupt func()        // called for Ctrl-C on a terminal that sends no signal; to end the context
}

// ErrBroken is the error of a demo that saw the library break a promise.
var ErrBroken = errors.New("promise broken")

// Run returns when all processes and the embedded server are gone. It must be called on the main thread, for the
// kernel kills the workers when the thread that started them ends. The error is ErrBroken, the cause of ctx, or what
// kept the demo from going on.
func Run(ctx context.Context, out io.Writer, o Options) error {
	srv, err := openServer(ctx, o.Redis)
	if err != nil {
		return err
	}
	defer srv.close()
	client, err := fairsem.New(srv.client, fairsem.Options{TTL: ttl, Label: "demo"})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it only looked: there is nothing to give back
	name := "demo-" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	sem, err := client.Semaphore(name, Limit)
	if err != nil {
		return err
	}
	d := &demo{options: o, server: srv, sem: sem, seen: make(lineups), since: make(map[string]time.Time)}
	if err := d.run(ctx, out); err != nil {
		return err
	}
	return d.conclude(ctx, out)
}

// demo is one run of it.
type demo struct {
	options Options
	server  *server
	sem     *fairsem.Semaphore
	team    *team

	began    time.Time
	ended    time.Time
	since    map[string]time.Time // permit id -> when it was first seen where it is
	seen     lineups
	mostSeen int64
	death    death
	events   []event
}

// event is something to tell.
type event struct {
	after time.Duration
	text  string
}

// run starts the workers, shows them at work, and returns when they are gone.
func (d *demo) run(ctx context.Context, out io.Writer) error {
	d.began = time.Now()
	var err error
	d.team, err = startTeam(d.orders())
	defer d.team.stop()
	if err != nil {
		return err
	}
	screen := newDisplay(out, d.options.Interrupt)
	defer screen.close()
	if err := d.play(ctx, screen); err != nil {
		return err
	}
	d.ended = time.Now()
	return nil
}

func (d *demo) orders() []orders {
	all := make([]orders, Workers)
	for i, weight := range weights {
		all[i] = orders{
			URL:    d.server.url,
			Name:   d.sem.Name(),
			Label:  fmt.Sprintf("worker %d", i+1),
			Limit:  Limit,
			Weight: weight,
			TTL:    ttl,
		}
	}
	return all
}

func (d *demo) play(ctx context.Context, screen display) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !d.over() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-d.team.failed:
			return err
		case <-tick.C:
		}
		s, err := look(ctx, d.sem)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return d.untold(err)
		}
		d.take(s)
		screen.show(d.frame(s))
	}
	return nil
}

// over says whether everything was shown, or will not happen any more.
func (d *demo) over() bool {
	elapsed := time.Since(d.began)
	if elapsed < d.options.Length {
		return false
	}
	if d.death.killed == 0 {
		return elapsed > d.options.Length+killGrace
	}
	settled := d.death.gone != 0 && d.death.regained != 0
	return settled || since(d.death.killed) > 2*(ttl+deathGrace)
}

// take learns from a snapshot.
func (d *demo) take(s snapshot) {
	d.seen.add(s.waiters)
	d.mostSeen = max(d.mostSeen, s.used())
	switch {
	case d.death.killed == 0 && time.Since(d.began).Seconds() >= killPart*d.options.Length.Seconds():
		d.killOne(s)
	case d.death.killed != 0 && (d.death.gone == 0 || d.death.regained == 0):
		d.mourn(s)
	}
}

// freshGrant is how old a grant may be to be sure that its holder goes on for a while.
const freshGrant = minHold / 2

// killOne kills a holder of more than one unit, if there is one that has only just got them. With
// more than one, the next in line fits whatever it asks for, so the first grant that needs them
// shows when they came back.
func (d *demo) killOne(s snapshot) {
	for _, h := range s.holders {
		g, known := d.team.grant(h.ID)
		if !known || g.Released != 0 || h.Weight == 1 || since(g.Granted) > freshGrant || len(s.waiters) == 0 {
			continue
		}
		if at, held := d.team.kill(g.Process, h.ID); held {
			d.death = death{permit: g, killed: at}
			d.tell("kill -9 %s, which holds %s", g.Process, units(g.Weight))
		}
		return
	}
}

// since is how long ago a time of history.Now was.
func since(at int64) time.Duration { return time.Duration(history.Now() - at) }

// mourn looks what became of the dead worker's permit.
func (d *demo) mourn(s snapshot) {
	if d.death.gone == 0 && !s.holds(d.death.permit.ID) {
		d.death.gone = s.at
	}
	if d.death.regained != 0 {
		return
	}
	d.death.regained = regained(d.team.history(), d.death.permit, Limit, d.death.killed)
	if d.death.regained != 0 {
		took := time.Duration(d.death.regained - d.death.killed)
		d.tell("its units are in use again, %s after it died", seconds(took))
	}
}

func (d *demo) tell(format string, args ...any) {
	d.events = append(d.events, event{time.Since(d.began), fmt.Sprintf(format, args...)})
}

// frame is what there is to show.
func (d *demo) frame(s snapshot) frame {
	f := frame{
		snapshot: s,
		title:    fmt.Sprintf("%d processes share %d units", Workers, Limit),
		place:    fmt.Sprintf("%s on %s, TTL %v", d.sem.Name(), d.server.address, ttl),
		elapsed:  time.Since(d.began),
		dead:     d.death.permit.ID,
		grants:   len(d.team.history()),
		rows:     Workers - 1, // nobody waits before somebody holds
		events:   slices.Clone(d.events),
	}
	before := d.since
	d.since = make(map[string]time.Time)
	f.holding = d.rows(s.holders, "holds ", before)
	f.waiting = d.rows(s.waiters, "waits ", before)
	return f
}

// rows says for how long each has been where it is, by this process's own clock: the server's may
// be another.
func (d *demo) rows(tickets []fairsem.Ticket, where string, before map[string]time.Time) []row {
	all := make([]row, len(tickets))
	for i, t := range tickets {
		key := where + t.ID
		since, known := before[key]
		if !known {
			since = time.Now()
		}
		d.since[key] = since
		all[i] = row{Ticket: t, lasted: time.Since(since)}
	}
	return all
}

// conclude judges what was seen, and says so.
func (d *demo) conclude(ctx context.Context, out io.Writer) error {
	end, err := d.sem.Status(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return d.untold(err)
	}
	e := evidence{
		limit:    Limit,
		ttl:      ttl,
		grants:   d.team.history(),
		lines:    d.seen,
		mostSeen: d.mostSeen,
		death:    d.death,
		end:      end,
	}
	verdicts := judge(e)
	summarize(out, fmt.Sprintf("%d processes, %s", Workers, seconds(d.ended.Sub(d.began))), verdicts)
	return broken(verdicts)
}

// untold is the error for a server that does not say how things are.
func (d *demo) untold(err error) error {
	return fmt.Errorf("%s does not tell the state of %q: %s; see whether it still runs and lets this user run scripts",
		d.server.address, d.sem.Name(), strings.TrimPrefix(err.Error(), "fairsem: "))
}

// broken is nil if every promise held.
func broken(verdicts []verdict) error {
	var claims []string
	for _, v := range verdicts {
		if v.broken {
			claims = append(claims, fmt.Sprintf("%q (%s)", v.promise, v.found))
		}
	}
	if len(claims) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBroken, strings.Join(claims, ", "))
}
