package fairsem

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"time"
)

// Observer receives the events of the calls and permits of a Client, for metrics and traces.
//
// It is called by one goroutine at a time, some time after the fact: the At of an event says when it happened. It delays no
// call. Events wait in memory and are never dropped, so an observer that is permanently slower than its events
// uses ever more memory. [Client.Close] returns after it has received everything. It may call anything except Close, and should not
// wait for later events. A panic in it is not recovered: the process ends.
type Observer func(Event)

// Event is one of the structs that this package sends to an [Observer], by value: [WaitStartedEvent], [PositionLostEvent],
// [GrantedEvent], [AllowedEvent], [NotAcquiredEvent], [ReleasedEvent], [LostEvent], [CallFailedEvent], [DisconnectedEvent],
// [ReconnectedEvent] and [UnreturnedEvent]. Later versions may have more of them, and more fields.
//
// Each call that asks a semaphore or a lock for a permit before Close, with valid arguments and a context that has not ended,
// ends with exactly one GrantedEvent or NotAcquiredEvent, as its result says. A weight above the TenantLimit of the same call is
// not valid. Each GrantedEvent is followed by exactly one ReleasedEvent or LostEvent with the same ID, at Close at the latest:
// LostEvent if Release reports the loss, or would. A call of a [Limiter], which gives no permits, ends with one AllowedEvent or
// NotAcquiredEvent. Events with one ID come in the order in which they happened.
//
// [Options.Logger] gets the same, as records with the time and the context of the event. The
// attributes are the fields, in lower case, and error for Err.
//
//	WaitStartedEvent   Debug  fairsem: waiting
//	PositionLostEvent  Warn   fairsem: position in the queue lost
//	GrantedEvent       Debug  fairsem: permit granted
//	AllowedEvent       Debug  fairsem: allowed
//	NotAcquiredEvent   Debug  fairsem: not acquired
//	ReleasedEvent      Debug  fairsem: permit released
//	  with an Err      Warn   fairsem: permit released
//	LostEvent          Warn   fairsem: permit lost
//	CallFailedEvent    Debug  fairsem: operation failed
//	DisconnectedEvent  Warn   fairsem: subscription lost
//	ReconnectedEvent   Info   fairsem: subscription restored
//	UnreturnedEvent    Warn   fairsem: error not returned
type Event interface {
	headline() headline
}

// headline is the common part of all log records.
type headline struct {
	ctx     context.Context
	at      time.Time
	level   slog.Level
	message string
}

// GrantedBy is how a process learned of a grant.
type GrantedBy string

// A grant to a waiter is pushed. Many GrantedByRefresh of a semaphore mean that messages get lost. A waiter of a [Limiter] also asks when
// its turn comes, so some of its grants are GrantedByRefresh.
const (
	GrantedAtOnce    GrantedBy = "at once" // by the answer to the call itself: it never waited in the queue
	GrantedByMessage GrantedBy = "message" // by a message, after a release in another process
	GrantedByReply   GrantedBy = "reply"   // by the reply to a call of the same process, such as a release
	GrantedByRefresh GrantedBy = "refresh" // by a renewal or another query: no message arrived
)

// WaitStartedEvent is sent when a call joins the queue. A call that is granted or refused at once never joins it. The number of
// waiters now is that of WaitStartedEvents less the GrantedEvents, AllowedEvents, NotAcquiredEvents and PositionLostEvents whose
// Queued is set.
type WaitStartedEvent struct {
	At      time.Time
	Context context.Context // has the values of the context given to Acquire, not its cancellation
	Name    string          // of the semaphore
	ID      string          // of the permit to be
	Tenant  string          // CallOptions.Tenant
	Weight  int64           // units requested
}

// PositionLostEvent is sent when the position of a call in the queue, or a permit that it had not seen yet, has expired in
// Redis, because this process or Redis stood still for too long, or when a waiting call was removed from the queue because the
// limit was lowered below its weight. The call asks again, with another ID: at the end of the queue, or for its ErrExceedsLimit.
type PositionLostEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Queued  bool          // whether there was a WaitStartedEvent
	Waited  time.Duration // since the call began
}

// GrantedEvent is sent when a call returns its permit.
type GrantedEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Queued  bool
	Waited  time.Duration // as [Permit.Waited]
	Token   int64
	Numbers []int64 // as [Permit.Numbers]
	By      GrantedBy
}

// AllowedEvent is sent when a [Limiter] allows a call. Its units count for the length of the window.
type AllowedEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Queued  bool
	Waited  time.Duration
	By      GrantedBy
}

// NotAcquiredEvent is sent when a call returns an error instead, or [Limiter.Allow] refuses.
type NotAcquiredEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Queued  bool
	Waited  time.Duration
	Err     error // as it is returned, but of Weighted and AcquireAll the error of the call on the one name; from Allow, ErrNotAcquired
}

// ReleasedEvent is sent when the release of a permit, by its holder or by Close, is complete.
type ReleasedEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Token   int64
	Numbers []int64
	Held    time.Duration // from the grant to the call of Release
	Err     error         // nil: Redis has confirmed it; else the units are free when the lease expires
}

// LostEvent is sent when a permit ended before its holder released it.
type LostEvent struct {
	At      time.Time
	Context context.Context
	Name    string
	ID      string
	Tenant  string // CallOptions.Tenant
	Weight  int64
	Token   int64
	Numbers []int64
	Held    time.Duration // from the grant, for as long as the permit could be relied on
	Err     error         // wraps ErrLost and the cause if known, such as the last error of Redis or the network
}

// CallFailedEvent is sent when a script call for some calls and permits of a semaphore got no answer, or an error. It is tried
// again where that can help, so in most cases the only consequence is delay.
type CallFailedEvent struct {
	At   time.Time
	Name string
	Verb string // acquire, release, reduce, refresh or restore
	Err  error
}

// DisconnectedEvent is sent when a subscription has ended, or cannot be made. Without a Node it is the one by which a
// Client hears of its grants: until it is there again waiters find theirs by their renewals, and a ReconnectedEvent comes
// before the next such DisconnectedEvent. With a Node it only shows whether that node of a
// cluster goes away; where the node is not needed any more, no ReconnectedEvent comes.
type DisconnectedEvent struct {
	At      time.Time
	Channel string
	Node    string // address of a node of a cluster
	Err     error
}

// ReconnectedEvent is sent when a subscription is there again. The client queries the state that it missed.
type ReconnectedEvent struct {
	At      time.Time
	Channel string
	Node    string
	Silent  time.Duration // since the last sign of life
}

// UnreturnedEvent is sent when a method of a [Weighted] that returns no error has one. Each Acquire of a Weighted is
// a permit with events of its own, which ends when its last unit is released.
type UnreturnedEvent struct {
	At     time.Time
	Name   string
	Tenant string // CallOptions.Tenant
	Verb   string // try-acquire or release
	Units  int64
	Err    error
}

func (e WaitStartedEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: waiting"}
}

func (e PositionLostEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelWarn, "fairsem: position in the queue lost"}
}

func (e GrantedEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: permit granted"}
}

func (e AllowedEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: allowed"}
}

func (e NotAcquiredEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelDebug, "fairsem: not acquired"}
}

func (e ReleasedEvent) headline() headline {
	level := slog.LevelDebug
	if e.Err != nil {
		level = slog.LevelWarn
	}
	return headline{e.Context, e.At, level, "fairsem: permit released"}
}

func (e LostEvent) headline() headline {
	return headline{e.Context, e.At, slog.LevelWarn, "fairsem: permit lost"}
}

func (e CallFailedEvent) headline() headline {
	return headline{context.Background(), e.At, slog.LevelDebug, "fairsem: operation failed"}
}

func (e DisconnectedEvent) headline() headline {
	return headline{context.Background(), e.At, slog.LevelWarn, "fairsem: subscription lost"}
}

func (e ReconnectedEvent) headline() headline {
	return headline{context.Background(), e.At, slog.LevelInfo, "fairsem: subscription restored"}
}

func (e UnreturnedEvent) headline() headline {
	return headline{context.Background(), e.At, slog.LevelWarn, "fairsem: error not returned"}
}

// details are the attributes of a log record.
func details(e Event) (attrs []slog.Attr) {
	fields := reflect.ValueOf(e)
	for i := range fields.NumField() {
		name, value := fields.Type().Field(i).Name, fields.Field(i).Interface()
		switch {
		case name == "At" || name == "Context" || (name == "Node" || name == "Tenant") && value == "" || name == "Numbers" && fields.Field(i).IsNil() || value == nil:
		case name == "Err":
			attrs = append(attrs, slog.Any("error", value))
		default:
			attrs = append(attrs, slog.Any(strings.ToLower(name), value))
		}
	}
	return attrs
}
