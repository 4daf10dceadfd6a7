package fairsem

import (
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// nameState is the state of one semaphore in this process: its own tickets. The limit, the queue and the permits of other
// processes are only in Redis. Its transitions are in state.go, restore.go and reduce.go, its requests in send.go.
//
// Locks are taken in this order: nameState.mu or Weighted.mu, then those of pipeline, scheduler, Client, declarations or servers, then
// hold.mu, then those of events and of Weighted's losses, and last that of goroutines. Those of pubsub are held for nothing
// but to start a goroutine or to report an event. No lock is held during I/O, and none while a user's function runs.
type nameState struct {
	host     *host
	name     string
	about    protocol.CallPrefix
	pipeline *pipeline.Pipeline

	timer timer // guarded by scheduler.mu

	mu           sync.Mutex
	tickets      map[int64]*ticket
	filling      []*request           // queued requests that have room for its tickets
	spec         protocol.LimitSpec   // of the call that Redis answered last
	retired      bool                 // removed from Client.states: a new ticket needs a new nameState
	next         time.Time            // when the next tick is due; zero: none is scheduled
	deadline     time.Time            // the nearest one of any process, while a ticket here waits; zero: unknown
	deadlineSent time.Time            // when the call was sent whose reply had the deadline
	waiters      int                  // tickets in the phase waiting
	listeners    map[*ticket]struct{} // holders whose channel of Wanted is open; nil: no holder has asked for one
	waking       waking               // of the answer or message that is being handled
	backoff      time.Duration        // before the next try, while calls fail
	refused      refused              // by a server that may answer other calls meanwhile
	epoch        int64                // of the name, from the latest reply; 0: none yet
	epochSent    time.Time            // when the call was sent whose reply had the epoch
	server       int64                // that answered last; 0: none has that identifies itself
	queriesFirst bool                 // a restore was refused: a full server renews what it has, and restores nothing
	verifySince  time.Time            // since when the server may have changed; zero: no reason to verify
	checkAt      time.Time            // when to verify, if the server could go away unnoticed until then; zero: not scheduled
	fastPath     fastPath             // to the plain scripts
	watched      watching             // whether the server is
}

// host is the part of a Client that its names share.
type host struct {
	ttl       time.Duration
	grace     time.Duration
	replicas  int
	keyspace  protocol.Keyspace
	clock     *clock.Clock
	releasing *clock.Wait // for the confirmation of a release
	scheduler *scheduler
	events    *events // nil: neither an observer nor a logger
	declared  *declarations
	servers   *servers
	hub       hub
	inUse     func(now time.Time, lease time.Duration) // called now and then while there are tickets; lease is 0 if it is not known
	retired   func(name *nameState)                    // called by a state that retires
}

// hub is the part of a [pubsub.Hub] that a name needs.
type hub interface {
	Start()            // with the first ticket that waits or holds
	Watch(name string) // makes sure that the end of the server of that name is noticed
	Blind() bool       // whether a server could go away unnoticed
	Resubscribe()      // another server has answered
}

// refused is what Redis refuses again and again: a full server refuses an acquire and answers a refresh, so the backoff alone would not grow.
type refused struct {
	script *protocol.Script
	pause  time.Duration // before the next try
}

// endsWith reports whether the reply to a call of a script shows that it is no longer refused. A full server answers also an acquire for which
// it has nothing to store.
func (r *refused) endsWith(script *protocol.Script, rep protocol.Reply) bool {
	if script != r.script || script != protocol.AcquireScript {
		return script == r.script
	}
	return slices.ContainsFunc(rep.Results, func(one protocol.Result) bool { return one.State == protocol.Held || one.State == protocol.Waiting })
}

// retireAfter is how long a nameState without tickets stays, for the next ticket of its name.
const retireAfter = time.Second

// The backoff of a nameState is between these.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
)

// closeGrace bounds how long Close waits for Redis to confirm all releases.
const closeGrace = 5 * time.Second

// watching is when it was made sure last that the server of a name is watched. That is done once a second, and with every
// answer in the first second of an epoch: it began with another server, and go-redis may not know yet which one that is.
type watching struct {
	last  time.Time
	epoch int64     // the latest one
	began time.Time // when it was first seen
}

// isDue reports whether it is to be done at the time now, for an answer of this epoch; 0: it has none.
func (w *watching) isDue(epoch int64, now time.Time) bool {
	if epoch != 0 && epoch != w.epoch {
		w.epoch, w.began = epoch, now
	}
	due := now.Sub(w.last) >= time.Second || now.Sub(w.began) < time.Second
	if due {
		w.last = now
	}
	return due
}
