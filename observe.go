package fairsem

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"time"
)

// Observer is told what happens to the calls and permits of a Client, for metrics and traces.
//
// It is called by one goroutine at a time, some time after the fact: the At of an event says when it
// happened. It holds nobody up. What it has not taken yet queues up in memory and is never dropped, so an
// observer that is slower than what happens, for ever, takes memory without end. [Client.Close] returns
// when it has taken everything. It may call anything but Close, and should not wait for what it is
// still to be told. A panic in it is not caught: the process ends.
type Observer func(Event)

// Event is one of the structs that this package tells an [Observer], by value: [WaitStarted],
// [PlaceLost], [Granted], [Allowed], [NotAcquired], [Released], [Lost], [CallFailed], [Disconnected],
// [Reconnected] and [Unreturned]. Later versions may have more of them, and more fields.
//
// Each call that asks a semaphore or a lock for a permit before Close, with arguments that are in order
// and a context that has not ended, ends with exactly one Granted or NotAcquired: with what it returns.
// Each Granted is followed by exactly one Released or Lost with the same ID, at Close at the latest:
// Lost if that is what Release says, or would. A call of a [Limiter], which gives no permits, ends with
// one Allowed or NotAcquired. What concerns one ID is told in the order in which it happened.
//
// [Options.Logger] gets the same, as records with the time and the context of the event. The
// attributes are the fields, in lower case, and error for Err.
//
//	WaitStarted    Debug  fairsem: waiting
//	PlaceLost      Warn   fairsem: place in line lost
//	Granted        Debug  fairsem: permit granted
//	Allowed        Debug  fairsem: allowed
//	NotAcquired    Debug  fairsem: not acquired
//	Released       Debug  fairsem: permit released
//	  with an Err  Warn   fairsem: permit released
//	Lost           Warn   fairsem: permit lost
//	CallFailed     Debug  fairsem: operation failed
//	Disconnected   Warn   fairsem: subscription lost
//	Reconnected    Info   fairsem: subscription restored
//	Unreturned     Warn   fairsem: error not returned
type Event interface {
	headline() headline
}

// headline is what all log records have.
type headline struct {
	ctx     context.Context
	at      time.Time
	level   slog.Level
	message string
}

// By is how a process learned of a grant.
type By string

// A grant that was not there at once is pushed. Many ByRefresh mean that messages get lost.
const (
	AtOnce    By = "at once" // by the answer to the call's own question: it never stood in line
	ByMessage By = "message" // by a message, after a release in another process
	ByReply   By = "reply"   // by the reply to a call of the same process, such as a release
	ByRefresh By = "refresh" // by asking, as with a renewal: no message has told it
)

// WaitStarted is told when a call stands in line. Who is served at once, or refused, never does. Those who
// wait now are the WaitStarted less the Granted, Allowed, NotAcquired and PlaceLost that are Queued.
type WaitStarted struct {
	At      time.Time
	Context context.Context // has the values of the one given to Acquire, not its end
	Name    string          // of the semaphore
	ID      string          // that the permit will have
	Weight  int64           // units that are asked for
}

// PlaceLost is told when what a call had in Redis has lapsed, its place in line or a permit that it had
// not seen yet, because this process or Redis stood still for too long. The call asks again, at the end of
// the line and with another ID.
type PlaceLost struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Queued  bool          // whether there was a WaitStarted
	Waited  time.Duration // since the call began
}

// Granted is told when a call returns its permit.
type Granted struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Queued  bool
	Waited  time.Duration // as [Permit.Waited] tells it
	Token   int64
	By      By
}

// Allowed is told when a [Limiter] lets a call through. Its units count for the length of the window.
type Allowed struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Queued  bool
	Waited  time.Duration
	By      By
}

// NotAcquired is told when a call returns an error instead, or a [Limiter.Allow] its no.
type NotAcquired struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Queued  bool
	Waited  time.Duration
	Err     error // as it is returned; from Allow, ErrNotAcquired
}

// Released is told when a permit was given back, by its holder or by Close, and there is nothing more
// to do for it.
type Released struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Token   int64
	Held    time.Duration // from the grant to the call of Release
	Err     error         // nil: Redis has confirmed it. Else the units come back when the lease lapses
}

// Lost is told when a permit is over that its holder has not given back, or gave back too late.
type Lost struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Weight  int64
	Token   int64
	Held    time.Duration // from the grant, for as long as the permit could be relied on
	Err     error         // wraps ErrLost and the cause, where it is known, as what Redis or the network said last
}

// CallFailed is told when a script call for some of the calls and permits of a semaphore got no answer,
// or a refusal. It is tried again where that can help, so mostly there is no consequence but delay.
type CallFailed struct {
	At   time.Time
	Name string
	Verb string // acquire, release, reduce, refresh or restore
	Err  error
}

// Disconnected is told when a subscription has ended, or cannot be made. With no Node it is the one by which a
// Client hears of its grants: waiters find theirs by their renewals until it is there again, and a
// Reconnected comes before the next such Disconnected. With a Node it only shows whether that node of a
// cluster goes away; where the node is not needed any more, no Reconnected comes.
type Disconnected struct {
	At      time.Time
	Channel string
	Node    string // address of a node of a cluster
	Err     error
}

// Reconnected is told when a subscription is there again. What was missed is asked for.
type Reconnected struct {
	At      time.Time
	Channel string
	Node    string
	Silent  time.Duration // since the last sign of life before
}

// Unreturned is told when a method of a [Weighted] that returns no error has one. There each Acquire that
// takes something is a permit with events of its own, which ends when the last part of it is given back.
type Unreturned struct {
	At    time.Time
	Name  string
	Verb  string // try-acquire or release
	Units int64
	Err   error
}

func (e WaitStarted) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: waiting"}
}

func (e PlaceLost) headline() headline {
	return headline{e.Context, e.At, slog.LevelWarn, "fairsem: place in line lost"}
}

func (e Granted) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: permit granted"}
}

func (e Allowed) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: allowed"}
}

func (e NotAcquired) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: not acquired"}
}

func (e Released) headline() headline {
	level := slog.LevelDebug
	if e.Err != nil {
		level = slog.LevelWarn
	}
	return headline{e.Context, e.At, level, "fairsem: permit released"}
}

func (e Lost) headline() headline {
	return headline{e.Context, e.At, slog.LevelWarn, "fairsem: permit lost"}
}

func (e CallFailed) headline() headline {
	return headline{background, e.At, slog.LevelDebug, "fairsem: operation failed"}
}

func (e Disconnected) headline() headline {
	return headline{background, e.At, slog.LevelWarn, "fairsem: subscription lost"}
}

func (e Reconnected) headline() headline {
	return headline{background, e.At, slog.LevelInfo, "fairsem: subscription restored"}
}

func (e Unreturned) headline() headline {
	return headline{background, e.At, slog.LevelWarn, "fairsem: error not returned"}
}

// details are the attributes of a log record.
func details(e Event) (attrs []slog.Attr) {
	fields := reflect.ValueOf(e)
	for i := range fields.NumField() {
		name, value := fields.Type().Field(i).Name, fields.Field(i).Interface()
		switch {
		case name == "At" || name == "Context" || name == "Node" && value == "" || value == nil:
		case name == "Err":
			attrs = append(attrs, slog.Any("error", value))
		default:
			attrs = append(attrs, slog.Any(strings.ToLower(name), value))
		}
	}
	return attrs
}
