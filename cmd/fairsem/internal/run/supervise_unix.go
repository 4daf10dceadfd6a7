//go:build unix

package run

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/orphan"
	"github.com/fairsem/fairsem/internal/clock"
)

// supervisor supervises the command from its start to the end of its process group.
type supervisor struct {
	job      PermitJob
	permit   *fairsem.Permit
	journal  *journal
	child    *child
	signals  <-chan os.Signal // for the command
	controls <-chan os.Signal // those of job control

	age       func() time.Duration // of this process, with how long the machine was suspended
	lastAlive time.Duration        // the age at which the permit was last seen to live
	lost      bool                 // and the loss was reported
	killAt    <-chan time.Time     // nil: no kill is pending
	killBy    time.Duration        // the age at which it is due: a timer stands still while the machine is suspended
	unstopped <-chan time.Time     // nil, or when this job should have stopped like the child
	warned    string               // the last warning about a group that cannot be ended
	sent      []os.Signal          // to the command by this process, or, once it has ended, to the rest of its group
}

// hold runs the command and returns when its group is gone and the least time is over.
func (h *holder) hold() error {
	machine := clock.New()
	granted, command := machine.Now(), h.job.Request.Command
	if h.permit.Context().Err() != nil {
		h.lost = true
		return h.lostError("so " + command[0] + " was not started")
	}
	controls := make(chan os.Signal, 16)
	exit.Notify(controls, jobControl...)
	defer signal.Stop(controls)
	g, err := startGuard()
	if err != nil {
		return cannotFork(err)
	}
	c, err := startChild(g, h.path, command, h.job.Request.environment(h.permitVariables()...))
	if err != nil {
		g.stop()
		return notStarted(command[0], err)
	}
	journal := h.waiter.journal
	journal.note(note{Event: "started", PID: c.pid})
	s := &supervisor{
		job: h.job, permit: h.permit, journal: journal, child: c, signals: h.waiter.signals, controls: controls,
		age: func() time.Duration { return machine.Now().SinceStart() }, lastAlive: granted.SinceStart(),
	}
	defer func() { h.lost = s.lost }()
	end := s.supervise()
	s.check() // for a loss that was due when the command ended
	code, whileItRan := codeOf(end), s.lost
	h.key = s.keyOf(end)
	interrupted := end.Signal() == syscall.SIGINT && (h.key != 0 || s.hasSent(syscall.SIGINT))
	s.sent = nil
	c.reclaimTerminal() // from here on the keys are for this process
	s.endGroup()
	g.stop()
	journal.note(note{Event: "ended", Exit: &code})
	switch {
	case !s.lost || s.job.OnLost == OnLostIgnore:
	case s.warned == alreadyLost:
		return h.lostError("and " + command[0] + " could not be ended")
	case !whileItRan:
		journal.warn("the permit on %q was lost (%s) after %s had ended, while processes that it had left were ended",
			h.job.Request.Name, h.lossReason(), command[0])
	default:
		return h.lostError("so " + command[0] + " was ended")
	}
	by := s.holdMinimum(granted.Time)
	h.ended, h.interrupted = true, interrupted || s.hasSent(syscall.SIGINT) || by == syscall.SIGINT
	if code == 0 {
		return nil
	}
	return &exit.Error{Code: code}
}

// notStarted tells a command that cannot be executed from a system that can start no process now.
func notStarted(command string, err error) error {
	for _, full := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, full) {
			return cannotFork(err)
		}
	}
	return cannotStart(command, err)
}

func cannotFork(err error) error { return fmt.Errorf("cannot start a process: %w", err) }

// permitVariables describe the permit in the environment of the command.
func (h *holder) permitVariables() []string {
	numbers := make([]string, 0, 1)
	for _, n := range h.permit.Numbers() {
		numbers = append(numbers, strconv.FormatInt(n, 10))
	}
	return []string{
		"FAIRSEM_NUMBER=" + strings.Join(numbers[:min(1, len(numbers))], ""),
		"FAIRSEM_NUMBERS=" + strings.Join(numbers, " "),
		"FAIRSEM_NAME=" + h.job.Request.Name,
		"FAIRSEM_ID=" + h.permit.ID(),
		"FAIRSEM_TOKEN=" + strconv.FormatInt(h.permit.Token(), 10),
		"FAIRSEM_WEIGHT=" + strconv.FormatInt(h.job.Request.Weight, 10),
		h.job.Request.tenantVariable(),
	}
}

// supervise returns how the command has ended.
func (s *supervisor) supervise() syscall.WaitStatus {
	tick := time.NewTicker(s.job.TTL / 100)
	defer tick.Stop()
	lost := s.permit.Context().Done()
	for {
		s.check()
		select {
		case state := <-s.child.states:
			if !state.Stopped() {
				return state
			}
			s.child.stopped = true
			s.stopped(state.StopSignal())
		case sig := <-s.signals:
			s.send(sig)
		case sig := <-s.controls:
			s.control(sig)
		case <-s.unstopped:
			s.goOn()
		case <-tick.C:
		case <-lost:
			lost = nil
		case <-s.killAt:
			s.send(syscall.SIGKILL)
			s.killAt = nil // it fires once, and clear waits for one
		}
	}
}

func codeOf(state syscall.WaitStatus) int {
	if state.Signaled() {
		return exit.SignalCode(state.Signal())
	}
	return state.ExitStatus()
}

// control passes on the signals of job control.
func (s *supervisor) control(sig os.Signal) {
	s.check() // after a long stop the permit may be lost, and the command must not continue
	if sig == syscall.SIGCONT {
		s.unstopped = nil
		if s.child.usesTerminal {
			s.child.giveTerminal()
		}
	}
	already := s.child.stopped
	s.child.signal(sig)
	if sig == syscall.SIGTSTP && already {
		// It will not stop once more, so this job would not stop after it. A Ctrl-Z right after fg comes here: the kernel drops a
		// SIGCONT that this process has not handled yet.
		s.stopped(syscall.SIGTSTP)
	}
}

// stopped gives the child the terminal if that is what stopped it. Otherwise this job stops like the child, unless only
// the child was stopped: that must not stop the renewal of its permit. Its terminal then has a reader again, and Ctrl-Z stops this job, too.
func (s *supervisor) stopped(by syscall.Signal) {
	if by == syscall.SIGSTOP {
		s.child.reclaimTerminal()
		return
	}
	if by != syscall.SIGTSTP && s.child.giveTerminal() {
		s.child.usesTerminal = true
		s.child.signal(syscall.SIGCONT)
		return
	}
	whom := os.Getpid()
	if s.child.reclaimTerminal() {
		whom = 0 // the terminal would have stopped the others of a pipe too
	}
	// SIGTSTP would do if Go could restore its default. Unlike SIGSTOP, SIGTTIN does not stop a process without a shell
	// that could continue it. Kill returns when this process is continued, and controls then has SIGCONT.
	_ = syscall.Kill(whom, syscall.SIGTTIN)
	s.unstopped = time.After(stopPatience)
}

// stopPatience is how long after its SIGTTIN this process runs at most if that stops it. A machine that takes longer has the child go on
// before this process is stopped, until both are continued.
const stopPatience = time.Second / 2

// goOn continues the child, because this process was not stopped: no shell could continue it. Where the child would run without this
// process, as the command of a container or of ssh, a Ctrl-Z has no effect either.
func (s *supervisor) goOn() {
	s.unstopped = nil
	s.check() // this process was stopped all the same, if it has read the clock before its SIGCONT
	s.child.giveTerminal()
	s.child.signal(syscall.SIGCONT)
}

// keyOf returns the signal by which a key, Ctrl-C or Ctrl-\, has ended the child; 0: it has ended otherwise. A key sends its signal to the group
// that has the terminal, and not to this process. A signal that another process sends to the child alone cannot be told from that.
func (s *supervisor) keyOf(end syscall.WaitStatus) syscall.Signal {
	by := end.Signal()
	if (by == syscall.SIGINT || by == syscall.SIGQUIT) && !s.lost && !s.hasSent(by) && foreground() == s.child.pid {
		return by
	}
	return 0
}

// passOn sends the signal of the key to the rest of the job, such as the script or the make that has started this process. Without
// this process they would have had it from the terminal; so a loop would go on. This process still catches it.
func (h *holder) passOn() {
	if h.key != 0 {
		_ = syscall.Kill(0, h.key)
	}
}

// check notices the loss of the permit, and that a kill is due. It reads the clock first: the permit did live then.
func (s *supervisor) check() {
	now := s.age()
	if s.killAt != nil && now >= s.killBy {
		s.killAt = time.After(0)
	}
	if s.lost {
		return
	}
	if s.permit.Context().Err() == nil {
		s.lastAlive = now
		return
	}
	s.lost = true
	s.lose()
	s.journal.note(note{Event: "lost", Reason: lossReason(s.permit)})
}

// lose ends the command after a loss, as OnLost says. When the permit was last seen to live, at least a tenth of the TTL
// remained of its lease, so the time to end counts from then, however late this is.
func (s *supervisor) lose() {
	left := min(s.job.KillAfter, s.lastAlive+MaxKillAfter(s.job.TTL)-s.age())
	switch {
	case s.job.OnLost == OnLostIgnore:
		s.journal.warn("the permit on %q was lost (%s); %s continues", s.job.Request.Name, lossReason(s.permit), s.job.Request.Command[0])
	case s.job.OnLost == OnLostKill || left <= 0:
		s.send(syscall.SIGKILL)
	default:
		s.terminate(left)
	}
}

// terminate has the group end, and killed after a while.
func (s *supervisor) terminate(after time.Duration) {
	s.send(syscall.SIGTERM)
	s.killAt, s.killBy = time.After(after), s.age()+after
}

// The consequences for the permit if a group cannot be ended.
const (
	stillHeld   = "the permit is held until it has ended"
	alreadyLost = "the units can be granted to others while it runs"
)

// send sends a signal to the group, and warns if no process there can be reached: a process that sudo starts is another user's. A stopped
// process handles one that ends it only when it is continued.
func (s *supervisor) send(sig os.Signal) {
	s.sent = append(s.sent, sig)
	if !s.child.signal(sig) {
		s.warnUnended()
	}
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
		s.child.signal(syscall.SIGCONT)
	}
}

func (s *supervisor) hasSent(sig os.Signal) bool { return slices.Contains(s.sent, sig) }

// warnUnended warns that a process cannot be ended, once while the permit is held and once when it is lost.
func (s *supervisor) warnUnended() {
	means := stillHeld
	if s.lost {
		means = alreadyLost
	}
	if s.warned != means {
		s.warned = means
		s.journal.warn("a process of the group %d cannot be ended, because it is another user's or hangs in the kernel; %s", s.child.pid, means)
	}
}

const (
	groupPoll  = 5 * time.Millisecond
	groupLimit = 2 * time.Second // for the kernel to end killed processes
)

// endGroup ends the processes that the command has left in its group. It waits for processes that it cannot end, for as long as the
// permit lives. It does not stop by Ctrl-Z: what has ignored TERM may ignore that, too, and would go on when nothing renews the permit.
func (s *supervisor) endGroup() {
	s.check()
	if !s.child.groupLives() {
		return
	}
	if s.killAt == nil {
		s.terminate(s.job.KillAfter)
	}
	var giveUp <-chan time.Time
	for s.child.groupLives() {
		select {
		case <-s.killAt:
			s.send(syscall.SIGKILL)
			s.killAt, giveUp = nil, time.After(groupLimit)
		case <-giveUp:
			if s.abandonGroup() {
				return
			}
			giveUp = time.After(groupLimit)
		case sig := <-s.signals:
			s.send(sig)
		case sig := <-s.controls:
			s.control(sig)
		case <-time.After(groupPoll):
		}
		s.check()
	}
}

// abandonGroup warns about the rest of a group that was killed, and reports whether to stop waiting for it: if none of it
// runs, or the permit is lost.
func (s *supervisor) abandonGroup() bool {
	if orphan.GroupRuns(s.child.pid) {
		s.warnUnended()
		return s.lost
	}
	s.journal.warn("a process of the group %d cannot be removed: it is a zombie, whose parent has not asked for its exit code", s.child.pid)
	return true
}

// holdMinimum holds the permit for the minimum time, unless a signal to end, which it returns, or a loss ends it. Others may run the
// command then as if it had not run, so a loss is reported.
func (s *supervisor) holdMinimum(granted time.Time) os.Signal {
	if s.job.MinHold == 0 || s.lost {
		return nil
	}
	over := time.After(time.Until(granted.Add(s.job.MinHold)))
	for {
		select {
		case <-over:
			return nil
		case sig := <-s.signals:
			if sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT { // the others were for the command
				return sig
			}
		case sig := <-s.controls:
			if sig == syscall.SIGTSTP {
				_ = syscall.Kill(os.Getpid(), syscall.SIGTTIN) // see stopped
			}
		case <-s.permit.Context().Done():
			s.lost = true
			s.journal.lost(lossReason(s.permit), "before --min-hold was over")
			return nil
		}
	}
}
