package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// crew are the worker processes of one measurement.
type crew []*member

// member is one worker process, seen from the bench. It ends with its standard input, so with the
// bench too.
type member struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	orders *json.Encoder
	says   *json.Decoder
	stderr bytes.Buffer // to be read once it has ended
	ended  bool
	result error
}

// muster starts a worker for each job, and returns when all are connected and warmed up. The caller
// must dismiss the crew, after an error too. All processes end with ctx.
func muster(ctx context.Context, jobs []job) (crew, map[string]string, error) {
	var c crew
	for _, j := range jobs {
		m := &member{}
		if err := m.start(ctx, j); err != nil {
			return c, nil, err
		}
		c = append(c, m)
	}
	var h hello
	for _, m := range c {
		if err := m.says.Decode(&h); err != nil {
			return c, nil, m.explain(err)
		}
	}
	return c, h.Versions, nil
}

func (m *member) start(ctx context.Context, j job) error {
	var err error
	if m.cmd, err = command(ctx, j); err != nil {
		return err
	}
	m.cmd.Stderr = &m.stderr
	if m.stdin, err = m.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.orders, m.says = json.NewEncoder(m.stdin), json.NewDecoder(stdout)
	// One that is gone already cannot read it; muster hears of that.
	_ = m.orders.Encode(j)
	return nil
}

func command(ctx context.Context, j job) (*exec.Cmd, error) {
	if j.Contender == nodes {
		return exec.CommandContext(ctx, "node", nodeWorker), nil
	}
	self, err := os.Executable()
	return exec.CommandContext(ctx, self, workerArg), err
}

// work has all workers work at the same time, and returns what each saw.
func (c crew) work(win window) ([]outcome, error) {
	for _, m := range c {
		if err := m.orders.Encode(win); err != nil {
			return nil, m.explain(err)
		}
	}
	outcomes := make([]outcome, len(c))
	for i, m := range c {
		if err := m.says.Decode(&outcomes[i]); err != nil {
			return nil, m.explain(err)
		}
	}
	return outcomes, nil
}

// grace is how long a worker may take to close its connections.
const grace = 10 * time.Second

// dismiss ends all workers and waits for it.
func (c crew) dismiss() error {
	for _, m := range c {
		_ = m.stdin.Close() // fails for one that is gone
	}
	var errs []error
	for _, m := range c {
		if err := m.end(grace); err != nil {
			errs = append(errs, fmt.Errorf("worker: %w: %s", err, m.lastWords()))
		}
	}
	return errors.Join(errs...)
}

// end waits for the process, for so long, and then kills it. It may be called again.
func (m *member) end(within time.Duration) error {
	if !m.ended {
		timer := time.AfterFunc(within, func() { _ = m.cmd.Process.Kill() }) // fails for one that is gone
		defer timer.Stop()
		m.result, m.ended = m.cmd.Wait(), true
	}
	return m.result
}

// explain ends a worker that broke off the conversation, and adds what it said itself.
func (m *member) explain(err error) error {
	return fmt.Errorf("worker: %w: %s", errors.Join(err, m.end(time.Second)), m.lastWords())
}

// lastWords is what an ended worker wrote to its standard error.
func (m *member) lastWords() string { return strings.TrimSpace(m.stderr.String()) }
