package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// PermitJob is a command that runs while it holds a permit.
type PermitJob struct {
	Request   Request
	Limit     int64
	TTL       time.Duration
	OnLost    string        // OnLostTerm, OnLostKill or OnLostIgnore
	KillAfter time.Duration // from TERM to KILL, at most MaxKillAfter
	MinHold   time.Duration
	Numbered  bool // the units have numbers
}

// Values of --on-lost: the fate of the command when its permit is lost.
const (
	OnLostTerm   = "term"
	OnLostKill   = "kill"
	OnLostIgnore = "ignore"
)

// killReserve is the least time that is left for a killed process to be gone.
const killReserve = 50 * time.Millisecond

// MaxKillAfter returns how long a command may live on after its permit. The context of a permit ends a tenth of the TTL
// before the lease does; a fifth of that is kept for the KILL to be sent and to work.
func MaxKillAfter(ttl time.Duration) time.Duration { return max(0, ttl/10-max(ttl/50, killReserve)) }

// Run acquires the permit, runs the command and releases the permit. It must be called on the main thread: see package
// orphan. The error has the exit code.
func (j PermitJob) Run(ctx context.Context) error {
	signals, stop := catch()
	defer stop()
	h := &holder{job: j}
	err := j.Request.journalled(func(journal *journal) error {
		h.waiter = &waiter{request: &j.Request, signals: signals, journal: journal}
		return h.run(ctx)
	})
	h.passOn()
	if interrupt := (exit.Signal{Signal: os.Interrupt}); h.interrupted || h.ended && errors.Is(late(signals), interrupt) {
		return interrupt
	}
	return err
}

// holder is a PermitJob in progress.
type holder struct {
	job    PermitJob
	waiter *waiter
	path   string // of the command
	sem    *fairsem.Semaphore
	permit *fairsem.Permit
	key    syscall.Signal // the signal by which a key has ended the command; 0: it has ended otherwise
	lost   bool           // the permit, and that was reported

	ended       bool // the command, by itself
	interrupted bool // a SIGINT of a key, or one that this process has passed on, has ended the command, or one has come after its end
}

func (h *holder) run(ctx context.Context) (err error) {
	request := &h.job.Request
	if h.path, err = findCommand(request.Command[0]); err != nil {
		return err
	}
	return h.waiter.connect(h.job.TTL, func(s *dial.Session) error {
		sem, err := s.Client.Semaphore(request.Name, h.job.Limit)
		if err != nil {
			return err
		}
		options := request.callOptions()
		options.Numbered = h.job.Numbered
		h.sem, h.waiter.inspector = sem.With(options), sem.Inspector
		err = h.waiter.reach(ctx, func(ctx context.Context) error {
			_, err := h.sem.Acquire(ctx, request.Weight)
			return err
		})
		if err != nil {
			return err
		}
		if err := h.acquire(ctx); err != nil {
			return err
		}
		h.waiter.journal.note(note{
			Event: "granted", ID: h.permit.ID(), Tenant: request.Tenant, Token: h.permit.Token(), Weight: request.Weight,
			Numbers: h.permit.Numbers(), WaitedMS: h.permit.Waited().Milliseconds(),
		})
		err = h.hold()
		h.release(ctx)
		return err
	})
}

// acquire waits in the queue until the permit is granted, a signal comes, or the time to wait is over.
func (h *holder) acquire(ctx context.Context) error {
	request := &h.job.Request
	stop := h.waiter.showPosition(ctx)
	defer stop()
	err := h.waiter.untilSignal(ctx, func(ctx context.Context) (err error) {
		if request.Wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, request.Wait)
			defer cancel()
		}
		return h.request(ctx)
	})
	if err != nil && h.permit != nil { // the signal was later than the grant
		h.release(ctx)
	}
	switch {
	case errors.Is(err, fairsem.ErrUnavailable): // which may wrap a timeout
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %q was not free within %s", fairsem.ErrNotAcquired, request.Name, text.Span(request.Wait))
	case request.NoWait && errors.Is(err, fairsem.ErrNotAcquired):
		err = fmt.Errorf("%w: %q is in use or paused, or others wait", fairsem.ErrNotAcquired, request.Name)
	}
	return h.waiter.refused(err, "rate limit, which is for fairsem limit")
}

func (h *holder) request(ctx context.Context) (err error) {
	if !h.job.Request.NoWait {
		h.permit, err = h.sem.Acquire(ctx, h.job.Request.Weight)
		return err
	}
	return promptly(ctx, h.job.Request.Grace, func(ctx context.Context) (err error) {
		h.permit, err = h.sem.TryAcquire(ctx, h.job.Request.Weight)
		return err
	})
}

const (
	releaseTimeout   = 3 * time.Second
	noticedAtRelease = "before it was released, which was noticed only then"
)

// release releases the permit, also after a signal. The command has ended, so its exit code stands whatever happens here.
func (h *holder) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := h.permit.Release(ctx)
	switch {
	case err == nil:
		h.waiter.journal.note(note{Event: "released"})
	case h.lost:
	case errors.Is(err, fairsem.ErrEvicted):
		h.waiter.journal.lost(reasonEvicted, noticedAtRelease)
	case errors.Is(err, fairsem.ErrLost):
		h.waiter.journal.lost(reasonExpired, noticedAtRelease)
	default:
		why := strings.TrimPrefix(err.Error(), "fairsem: ")
		why = strings.TrimSuffix(why, ", and it goes on in the background") // not for long: this process ends
		h.waiter.journal.warn("the permit was not released and expires within %s: %s", text.Span(h.job.TTL), why)
	}
}

// lostError reports the loss of the permit, and its outcome for the command.
func (h *holder) lostError(outcome string) error {
	return &exit.Error{Code: exit.Lost, Err: fmt.Errorf("the permit on %q was lost (%s), %s", h.job.Request.Name, h.lossReason(), outcome)}
}

// lossReason is lossReason with who has evicted the permit.
func (h *holder) lossReason() string {
	reason := lossReason(h.permit)
	if reason == reasonEvicted {
		reason += h.waiter.evictedBy(h.permit.ID())
	}
	return reason
}

// lossReason returns why a permit was lost.
func lossReason(p *fairsem.Permit) string {
	if errors.Is(context.Cause(p.Context()), fairsem.ErrEvicted) {
		return reasonEvicted
	}
	return reasonExpired
}
