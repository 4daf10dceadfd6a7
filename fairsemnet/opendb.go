package fairsemnet

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/fair"
)

// DBOptions are the settings of a [sql.DB] while no other process waits for a connection.
type DBOptions struct {
	// MaxOpen is the most connections that this process may have, as for SetMaxOpenConns: at least 1. Beyond the limit it has no
	// effect: a call waits for its dial instead.
	MaxOpen int

	// MaxIdle is how many idle connections are kept, as for SetMaxIdleConns. If zero, it is MaxOpen; if negative, none is kept.
	MaxIdle int

	// MaxIdleTime is how long an idle connection is kept, as for SetConnMaxIdleTime. If zero, it is kept for as long as no other process
	// waits.
	MaxIdleTime time.Duration

	// MaxLifetime is how long a connection is used, as for SetConnMaxLifetime. If zero, it has no end.
	MaxLifetime time.Duration
}

func (o DBOptions) maxIdle() int { return max(0, cmp.Or(o.MaxIdle, o.MaxOpen)) }

// OpenDB is [sql.OpenDB] for a connector whose driver dials with d. The DB closes connections when a call in another process waits for one:
// those that are beyond the fair part of this process, when they are released, and those that were idle for a third of a TTL, but at
// least a second. So every process has its part of the limit soon, however many idle connections the others keep. A call of this process
// that waits for the dial of its own connection is given the unit of an idle one, too.
//
// Another process is another [fairsem.Client] here, or another pool of the same. Where more of them wait than there are units,
// connections go round: while others wait, a connection that was idle for a third of a TTL is closed, and where there is less
// than one connection per process, so is any connection that is that old. That goes on in an outage of Redis or a pause that
// begins meanwhile, also with [KeepOpen], and nothing is opened again before it ends. Once a DB knows of a pause it closes
// nothing for others. The pool of fairsempgx keeps its connections in both.
//
// A driver may dial once more to cancel a query, as those for PostgreSQL do. Such a dial takes no unit, since the query may hold the one
// that it would wait for. So while queries are canceled there may be more connections than the limit, for a moment. The context tells
// which dial is which: with that of Connect, or one made from it, DialContext acquires a unit, and with any other it does not. So d is
// for this DB alone. If the driver dials with another context, its Connect fails with [fairsem.ErrInvalid].
//
// OpenDB applies the settings in o to the DB. They are changed whenever other processes begin or cease to wait, so the program must not set
// them. A Dialer is for one DB. Closing the DB ends everything that OpenDB started.
//
// The error is [fairsem.ErrInvalid]. Nothing was opened then.
func (d *Dialer) OpenDB(c driver.Connector, o DBOptions) (*sql.DB, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	why := ""
	switch {
	case c == nil:
		why = "the Connector is nil"
	case o.MaxOpen < 1:
		why = fmt.Sprintf("MaxOpen %d is below 1", o.MaxOpen)
	case o.MaxIdleTime < 0 || o.MaxLifetime < 0:
		why = fmt.Sprintf("MaxIdleTime %v or MaxLifetime %v is below 0", o.MaxIdleTime, o.MaxLifetime)
	}
	s := &sharedDB{options: o, name: d.Semaphore.Inspector, permits: make(map[*fairsem.Permit]struct{})}
	if why == "" && !d.shared.CompareAndSwap(nil, s) {
		why = "the Dialer has opened a DB before: make one for each"
	}
	if why != "" {
		return nil, fmt.Errorf("%w: fairsemnet.Dialer.OpenDB: %s", fairsem.ErrInvalid, why)
	}
	s.db = sql.OpenDB(connector{c, s})
	s.relax()
	return s.db, nil
}

// sharedDB is a DB that closes connections when others wait, and the permits of its connections.
//
// A DB has a call that finds no idle connection wait for a dial of its own, for as long as others take turns with those that there are. So
// while the limit is used up, the DB may open no more than it has, and calls wait for what is released. Then grow, which is in no
// hurry, waits for the next permit.
type sharedDB struct {
	db      *sql.DB
	options DBOptions
	name    *fairsem.Inspector
	pool    fair.Pool // its calls are dials

	mu       sync.Mutex
	permits  map[*fairsem.Permit]struct{}
	watching bool

	checking sync.Mutex
	capped   bool               // the settings are not those of the options
	most     int                // while capped: how many connections the DB may have
	passing  int                // of those that are idle: how many are being closed for dials
	waited   time.Time          // when others last waited
	checks   fair.Schedule      // while there is a permit that brings a message, none is due unless the DB is capped
	served   int64              // how many calls had waited when a connection was idle: they have theirs
	kept     [2]time.Duration   // the times that are set: for idle connections, and for all
	stopGrow context.CancelFunc // nil: grow does not run
}

// acquire waits for the unit of a connection.
func (s *sharedDB) acquire(ctx context.Context, units *fairsem.Semaphore) (*fairsem.Permit, error) {
	if s != nil {
		s.pool.Begin()
		defer s.pool.End()
	}
	return units.Acquire(ctx, 1)
}

// opened counts a connection until its permit ends, which it does when the connection is closed.
func (s *sharedDB) opened(p *fairsem.Permit) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permits[p] = struct{}{}
	context.AfterFunc(p.Context(), func() {
		s.mu.Lock()
		delete(s.permits, p)
		s.mu.Unlock()
	})
	if !s.watching {
		s.watching = true
		go fair.Watch(s.sensor, s.check) // ends when there is no connection
	}
}

// sensor returns the sensor that may report a waiting call, and when to check without that; zero: no sooner. When all permits have brought
// their messages, or while the DB may not open what it likes, checks are due as often as the permits are renewed.
func (s *sharedDB) sensor() (sensor fair.Sensor, due time.Time) {
	s.mu.Lock()
	sensor = fair.SensorOf(maps.Keys(s.permits)) // of those that have ended, some may not be deleted yet
	s.watching = !sensor.Ended()
	s.mu.Unlock()
	s.checking.Lock()
	defer s.checking.Unlock()
	switch {
	case sensor.Ended():
		s.pool.Leave()
		s.relax()
		s.grow(false)
	case s.capped || !sensor.Fresh:
		due = s.checks.Due()
	}
	return sensor, due
}

// check queries holders and waiters, and decides how many connections the DB may have.
func (s *sharedDB) check() {
	s.checking.Lock()
	defer s.checking.Unlock()
	defer func() { s.checks.Next(s.checks.Pause()) }()
	ctx, cancel := context.WithTimeout(context.Background(), fair.CheckWait)
	defer cancel()
	id, _ := s.holds()
	now, err := s.pool.Take(ctx, s.name, id)
	_, mine := s.holds()
	if err != nil || mine == 0 {
		return
	}
	free, more := now.Limit-now.Used, true
	if now.Limit > 0 && free <= 0 && s.stopGrow == nil {
		s.pass()
	}
	switch {
	case now.Limit == 0: // paused: no call is given what is closed, so all stays, and calls that dial count as connections
		s.limit(int64(s.db.Stats().OpenConnections))
		s.rest()
		more = false
	case now.OthersWait():
		s.waited = time.Now()
		s.checks.Follow(now)
		part := s.pool.PartOf(now, mine)
		s.limit(part)
		s.hasten(part)
		more = mine < part
	case free <= 0:
		s.limit(mine)
		s.rest()
	case time.Since(s.waited) < calm*s.checks.Pause():
		s.limit(mine + free)
		s.rest()
	default:
		s.relax()
	}
	full := s.isFull()
	s.grow(more && full)
}

// calm is for how many pauses no other process waits before the DB may open as many connections as it likes. At once would have all
// dial again as soon as all have their parts.
const calm = 3

// isFull reports whether a call may wait for a connection that is released. A DB counts the calls that have waited, not those that do; but
// where a connection is idle, none does.
func (s *sharedDB) isFull() bool {
	now := s.db.Stats()
	if now.Idle > 0 {
		s.served = now.WaitCount
	}
	return now.WaitCount > s.served && now.OpenConnections < s.options.MaxOpen
}

// grow has the DB open one more connection, or no longer wait for one. The goroutine that opens it returns it at once, and so passes it
// to a call that waits.
func (s *sharedDB) grow(more bool) {
	switch {
	case !more && s.stopGrow != nil:
		s.stopGrow()
	case more && s.stopGrow == nil:
		ctx, cancel := context.WithCancel(context.Background())
		s.stopGrow = cancel
		if s.capped {
			s.db.SetMaxOpenConns(min(s.db.Stats().OpenConnections+1, s.options.MaxOpen))
		}
		go s.open(ctx) // ends when the DB is not full any more, or has no connection
	}
}

func (s *sharedDB) open(ctx context.Context) {
	c, err := s.db.Conn(ctx)
	if err == nil {
		_ = c.Close() // nothing was sent
	}
	s.checking.Lock()
	s.stopGrow()
	s.stopGrow = nil
	s.checking.Unlock()
	if err == nil {
		s.check() // more calls may wait
	}
}

// holds returns the id of one of the permits, and how many there are.
func (s *sharedDB) holds() (id string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.permits {
		return p.ID(), int64(len(s.permits))
	}
	return "", 0
}

// pass closes an idle connection for each dial of this DB that waits, as far as there are any. A DB has the call that dials wait for that
// dial, although it could have the connection.
func (s *sharedDB) pass() {
	for range min(int(s.pool.Waiting())-s.passing, s.db.Stats().Idle) {
		s.passing++
		go s.closeIdle() // ends when the driver has closed the connection, or soon if there is none
	}
}

// passWait bounds the wait for a connection that was idle, if a call has taken it meanwhile.
const passWait = 100 * time.Millisecond

// closeIdle takes an idle connection and has the DB close it, which may take seconds. With a lower maximum of idle ones the DB would close
// each connection that is released meanwhile, too.
func (s *sharedDB) closeIdle() {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), onlyIdle{}, true), passWait)
	defer cancel()
	if c, err := s.db.Conn(ctx); err == nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // that closes it
	}
	s.checking.Lock()
	defer s.checking.Unlock()
	s.passing--
	if s.capped {
		s.bound()
	}
}

// limit has the DB close the connections beyond a number, when they are released, while more are open or being dialled.
func (s *sharedDB) limit(n int64) {
	s.capped, s.most = true, max(int(n), 1) // 0 would be any number
	s.bound()
}

// bound makes the settings for limit. A DB counts a connection until it is closed, so the ones that pass has closed are beside the others.
func (s *sharedDB) bound() {
	most := s.most + s.passing
	if s.stopGrow != nil {
		most++
	}
	s.db.SetMaxOpenConns(min(most, s.options.MaxOpen))
	s.db.SetMaxIdleConns(min(most, s.options.maxIdle()))
}

// hasten has the DB also close connections that were idle for a while, for others that wait. Its only connection it would pass from call to
// call, so if its part is less than one, that is not used for longer either.
func (s *sharedDB) hasten(part int64) {
	o, pause := s.options, s.checks.Pause()
	lifetime := o.MaxLifetime
	if part < 1 {
		lifetime = min(pause, cmp.Or(lifetime, pause))
	}
	s.keep(min(pause, cmp.Or(o.MaxIdleTime, pause)), lifetime)
}

// rest ends hasten.
func (s *sharedDB) rest() { s.keep(s.options.MaxIdleTime, s.options.MaxLifetime) }

// keep sets for how long connections are kept. In a DB that was closed but still has a connection, that would start a goroutine which
// stays for as long, or write to a channel that is closed. Only the moment between the check and the setting is left for that.
func (s *sharedDB) keep(idle, lifetime time.Duration) {
	if s.kept == [2]time.Duration{idle, lifetime} || s.isClosed() {
		return
	}
	s.kept = [2]time.Duration{idle, lifetime}
	s.db.SetConnMaxIdleTime(idle)
	s.db.SetConnMaxLifetime(lifetime)
}

// isClosed asks for a connection with a context that has ended: only a DB that is closed refuses it with another error.
func (s *sharedDB) isClosed() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.db.Conn(ctx)
	return !errors.Is(err, context.Canceled)
}

func (s *sharedDB) relax() {
	s.capped = false
	s.db.SetMaxOpenConns(s.options.MaxOpen)
	s.db.SetMaxIdleConns(s.options.maxIdle())
	s.rest()
}
