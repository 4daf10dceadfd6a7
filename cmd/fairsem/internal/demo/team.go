package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/orphan"
	"github.com/fairsem/fairsem/internal/history"
)

// team is the worker processes and the grants that they recorded.
type team struct {
	members []*member
	failed  chan error // of a member that ended unexpectedly

	mu     sync.Mutex
	grants []history.Grant // guarded by mu
	index  map[string]int  // guarded by mu: permit id -> index in grants
}

// member is one worker process, seen from outside.
type member struct {
	orders orders
	cmd    *exec.Cmd
	stdin  io.WriteCloser // the worker works until this is closed
	stdout io.Reader
	stderr bytes.Buffer
	over   atomic.Bool   // it is meant to end
	gone   chan struct{} // closed when it has ended and everything it wrote was read
}

// startTeam starts a process for each of the orders. The caller must call stop, after an error too.
func startTeam(all []orders) (*team, error) {
	t := &team{index: make(map[string]int), failed: make(chan error, len(all))}
	for _, o := range all {
		m := &member{orders: o, gone: make(chan struct{})}
		if err := m.start(); err != nil {
			return t, fmt.Errorf("cannot start %s: %w", o.Label, err)
		}
		t.members = append(t.members, m)
		go t.follow(m) // ends with the process; stop ends that, and waits
	}
	return t, nil
}

func (m *member) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.cmd = exec.Command(self, WorkerVerb)
	m.cmd.Args[0] = os.Args[0]
	m.cmd.Stderr = &m.stderr
	m.cmd.SysProcAttr = orphan.DieWithParent()
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	if m.stdout, err = m.cmd.StdoutPipe(); err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	// A worker that is gone already cannot read them; follow reports why.
	_ = json.NewEncoder(m.stdin).Encode(m.orders)
	return nil
}

// follow reads the output of a worker until it ends.
func (t *team) follow(m *member) {
	defer close(m.gone)
	var garbled error
	for g, err := range history.Lines(m.stdout) {
		if err != nil {
			garbled = err
			break
		}
		t.note(g)
	}
	_, _ = io.Copy(io.Discard, m.stdout) // it must not block on a full pipe
	err := m.cmd.Wait()
	switch {
	case garbled != nil:
		t.failed <- fmt.Errorf("cannot read what %s reports: %w", m.orders.Label, garbled)
	case !m.over.Load():
		t.failed <- fmt.Errorf("%s (pid %d) ended too early: %s", m.orders.Label, m.cmd.Process.Pid, m.lastWords(err))
	}
}

// lastWords is why a worker ended: its own first line, or else the error of the system.
func (m *member) lastWords(err error) string {
	line, _, _ := bytes.Cut(m.stderr.Bytes(), []byte("\n"))
	switch {
	case len(line) > 0:
		return string(bytes.TrimPrefix(line, []byte("fairsem: ")))
	case err != nil:
		return err.Error()
	}
	return "it was stopped"
}

func (t *team) note(g history.Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, known := t.index[g.ID]; known {
		t.grants[i] = g
		return
	}
	t.index[g.ID] = len(t.grants)
	t.grants = append(t.grants, g)
}

// history returns all grants so far.
func (t *team) history() []history.Grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.grants)
}

// grant returns the record of a permit, if there is one.
func (t *team) grant(id string) (history.Grant, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, known := t.index[id]
	if !known {
		return history.Grant{}, false
	}
	return t.grants[i], true
}

// kill ends a worker as kill -9 does, and returns when that was and whether it still held the permit:
// it may just have released it.
func (t *team) kill(label, permit string) (at int64, held bool) {
	i := slices.IndexFunc(t.members, func(m *member) bool { return m.orders.Label == label })
	m := t.members[i]
	m.over.Store(true)
	at = history.Now()
	_ = m.cmd.Process.Kill() // fails only for one that is dead already
	<-m.gone
	g, known := t.grant(permit)
	if !known || g.Released != 0 {
		return at, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	history.Died(t.grants, label, at)
	return at, true
}

// stopGrace is how long workers may take to release their permits.
const stopGrace = 4 * time.Second

// stop makes all workers release their permits and end, and waits for it. Workers that take longer are killed. It may be
// called again.
func (t *team) stop() {
	for _, m := range t.members {
		m.over.Store(true)
		_ = m.stdin.Close() // fails for one that is gone
	}
	overdue := time.NewTimer(stopGrace)
	defer overdue.Stop()
	for _, m := range t.members {
		select {
		case <-m.gone:
		case <-overdue.C:
			for _, late := range t.members {
				_ = late.cmd.Process.Kill() // fails for one that is gone
			}
			<-m.gone
		}
	}
}
