package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// team are the worker processes of a run.
type team struct {
	binary  string
	folder  string                    // for the journals
	order   order                     // what all of them have in common
	address func(int, string) address // of the nth, in that role

	mu      sync.Mutex
	members []*member // the living and the dead; guarded by mu
}

// member is one worker process, seen from the nemesis.
type member struct {
	name    string
	role    string
	journal string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  *json.Encoder // to stdin
	stderr  bytes.Buffer  // to be read once it has ended
	exited  chan struct{}
	result  error // of the process; set before exited is closed

	mu      sync.Mutex
	pauses  []span // when it stood still; guarded by mu
	stopped int64  // since when it does; 0: it runs; guarded by mu
	killed  int64  // the latest time at which it may have done something; 0: it was not killed; guarded by mu
}

// span is from a time of [history.Now] to another.
type span struct{ from, to int64 }

// hire starts a worker.
func (t *team) hire() error { return t.hireFor(atWork) }

// hireFor starts a process with a role.
func (t *team) hireFor(role string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &member{name: fmt.Sprintf("w%d", len(t.members)+1), role: role, exited: make(chan struct{})}
	m.journal = filepath.Join(t.folder, m.name+".jsonl")
	m.cmd = exec.Command(t.binary, workerArg)
	m.cmd.SysProcAttr = dieWithParent()
	m.cmd.Stderr = &m.stderr
	var err error
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	started := make(chan error)
	go m.run(started) // ends with the process, which dismiss waits for
	if err := <-started; err != nil {
		return err
	}
	t.members = append(t.members, m)
	o := t.order
	o.Process, o.Role, o.Journal, o.Address = m.name, role, m.journal, t.address(len(t.members), role)
	o.Seed += uint64(len(t.members))
	m.orders = json.NewEncoder(m.stdin)
	return m.orders.Encode(o)
}

// ask has a process on call ask for the seat.
func (m *member) ask(patience, hold time.Duration) error {
	return m.orders.Encode(request{patience, hold})
}

// run holds its thread as long as the process lives: it is the thread whose death kills the child.
func (m *member) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := m.cmd.Start()
	started <- err
	if err == nil {
		m.result = m.cmd.Wait()
		close(m.exited)
	}
}

// onCall returns the processes that wait for orders. No fault kills them.
func (t *team) onCall() []*member {
	return slices.DeleteFunc(t.all(), func(m *member) bool { return m.role != onCall })
}

// living returns the workers that have not been killed.
func (t *team) living() []*member {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*member
	for _, m := range t.members {
		if m.role == atWork && m.killedAt() == 0 {
			all = append(all, m)
		}
	}
	return all
}

func (t *team) all() []*member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*member(nil), t.members...)
}

// anyone returns one of the living.
func (t *team) anyone(random *rand.Rand) *member {
	living := t.living()
	return living[random.IntN(len(living))]
}

// named returns the living worker of that name; nil: it was killed.
func (t *team) named(name string) *member {
	for _, m := range t.living() {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (m *member) killedAt() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.killed
}

// kill ends the process with SIGKILL. What it held counts up to just before that, or before it was
// stopped: of what it did later nobody knows.
func (m *member) kill() {
	m.mu.Lock()
	if m.killed == 0 {
		m.killed = history.Now()
		if m.stopped > 0 {
			m.killed = m.stopped
		}
	}
	m.mu.Unlock()
	_ = m.cmd.Process.Kill() // fails for one that is gone
	<-m.exited
}

// stop has the process stand still.
func (m *member) stop() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = history.Now()
	return m.cmd.Process.Signal(syscall.SIGSTOP)
}

// wake has it go on.
func (m *member) wake() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.cmd.Process.Signal(syscall.SIGCONT)
	if m.stopped > 0 {
		m.pauses = append(m.pauses, span{m.stopped, history.Now()})
	}
	m.stopped = 0
	return err
}

// stoodStill is for how long the process did not run between the two times, because it was stopped or
// because the machine had other things to do.
func (m *member) stoodStill(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var still int64
	for _, s := range m.pauses {
		still += max(0, min(s.to, to)-max(s.from, from))
	}
	return time.Duration(still)
}

// patience is how long a worker may take to give back what it has and to end.
const patience = 15 * time.Second

// dismiss ends all workers. One that does not end, or ends with an error, is an error.
func (t *team) dismiss() error {
	all := t.all()
	for _, m := range all {
		_ = m.wake()        // fails for one that is gone
		_ = m.stdin.Close() // likewise
	}
	late := time.After(patience)
	var errs []error
	for _, m := range all {
		select {
		case <-m.exited:
		case <-late:
			late = time.After(0) // for the others too
			m.kill()
			errs = append(errs, fmt.Errorf("worker %s: still there %v after its end", m.name, patience))
			continue
		}
		if m.killedAt() == 0 && m.result != nil {
			errs = append(errs, fmt.Errorf("worker %s: %w: %s", m.name, m.result, strings.TrimSpace(m.stderr.String())))
		}
	}
	return errors.Join(errs...)
}

// histories returns what all workers saw, when they have ended. What the dead held ends with them.
func (t *team) histories() ([]*call, error) {
	var all []*call
	for _, m := range t.all() {
		calls, err := readJournal(m.journal)
		if err != nil {
			return nil, err
		}
		var mine []*call
		for _, c := range calls {
			if c.Name == stallName {
				m.pauses = append(m.pauses, span{c.Asked, c.Returned})
				continue
			}
			c.end(m.killedAt())
			mine = append(mine, c)
		}
		for _, c := range mine {
			// Nobody can be told who does not run. Those who ask when they run again are for that.
			if c.Awaited && m.stoodStill(c.Granted, c.Released) > 0 {
				c.Released = c.Granted
			}
		}
		all = append(all, mine...)
	}
	return all, nil
}

// end is what becomes of a call whose process was killed at that time; 0: it was not.
func (c *call) end(killed int64) {
	if killed > 0 && c.Granted > 0 && c.Released == 0 {
		c.Released, c.Lost = max(killed, c.Granted), true
	}
}
