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

// workerSet is the worker processes of one measurement.
type workerSet []*workerProcess

// workerProcess is one worker process as the bench sees it. It ends when its standard input is closed, so it also ends with the
// bench.
type workerProcess struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	requests *json.Encoder
	answers  *json.Decoder
	stderr   bytes.Buffer // may be read once the process has ended
	ended    bool
	exitErr  error
}

// startWorkers starts a worker for each job. It returns when all are connected and warmed up. The caller must stop the workers,
// also after an error. All processes end with ctx.
func startWorkers(ctx context.Context, jobs []job) (workerSet, map[string]string, error) {
	var s workerSet
	for _, j := range jobs {
		p := &workerProcess{}
		if err := p.start(ctx, j); err != nil {
			return s, nil, err
		}
		s = append(s, p)
	}
	var h hello
	for _, p := range s {
		if err := p.answers.Decode(&h); err != nil {
			return s, nil, p.explain(err)
		}
	}
	return s, h.Versions, nil
}

func (p *workerProcess) start(ctx context.Context, j job) error {
	var err error
	if p.cmd, err = command(ctx, j); err != nil {
		return err
	}
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.requests, p.answers = json.NewEncoder(p.stdin), json.NewDecoder(stdout)
	// If the process has already ended, startWorkers gets an error when it reads the answer.
	_ = p.requests.Encode(j)
	return nil
}

func command(ctx context.Context, j job) (*exec.Cmd, error) {
	if j.Contender == nodes {
		return exec.CommandContext(ctx, "node", nodeWorker), nil
	}
	self, err := os.Executable()
	return exec.CommandContext(ctx, self, workerArg), err
}

// run makes all workers run at the same time, and returns the outcome of each.
func (s workerSet) run(win window) ([]outcome, error) {
	for _, p := range s {
		if err := p.requests.Encode(win); err != nil {
			return nil, p.explain(err)
		}
	}
	outcomes := make([]outcome, len(s))
	for i, p := range s {
		if err := p.answers.Decode(&outcomes[i]); err != nil {
			return nil, p.explain(err)
		}
	}
	return outcomes, nil
}

// stopTimeout is how long a worker may take to close its connections.
const stopTimeout = 10 * time.Second

// stop ends all workers and waits until they have ended.
func (s workerSet) stop() error {
	for _, p := range s {
		_ = p.stdin.Close() // fails if the process has ended
	}
	var errs []error
	for _, p := range s {
		if err := p.end(stopTimeout); err != nil {
			errs = append(errs, fmt.Errorf("worker: %w: %s", err, p.stderrText()))
		}
	}
	return errors.Join(errs...)
}

// end waits for the process to end, and kills it after a timeout. It may be called again.
func (p *workerProcess) end(within time.Duration) error {
	if !p.ended {
		timer := time.AfterFunc(within, func() { _ = p.cmd.Process.Kill() }) // fails if the process has ended
		defer timer.Stop()
		p.exitErr, p.ended = p.cmd.Wait(), true
	}
	return p.exitErr
}

// explain ends a worker that did not follow the protocol, and adds its standard error.
func (p *workerProcess) explain(err error) error {
	return fmt.Errorf("worker: %w: %s", errors.Join(err, p.end(time.Second)), p.stderrText())
}

// stderrText returns the standard error of a worker that has ended.
func (p *workerProcess) stderrText() string { return strings.TrimSpace(p.stderr.String()) }
