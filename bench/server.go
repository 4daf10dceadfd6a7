package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/redistest"
)

// server is the private Redis that everything runs on.
type server struct {
	process *redistest.Server
	rdb     *redis.Client
	pid     int
	idle    float64 // CPU of a second in which nobody asks for anything
}

// idleFor is how long the server is watched idling.
const idleFor = 500 * time.Millisecond

func startServer(ctx context.Context) (*server, error) {
	process, err := redistest.Start()
	if err != nil {
		return nil, err
	}
	s := &server{process: process, rdb: process.Client()}
	if err := s.observe(ctx); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return s, nil
}

// observe asks for the process, and looks what it takes to idle.
func (s *server) observe(ctx context.Context) error {
	pid, err := s.number(ctx, "server", "process_id")
	if err != nil {
		return err
	}
	s.pid = int(pid)
	m, err := s.meter(ctx)
	if err != nil {
		return err
	}
	time.Sleep(idleFor)
	cpu, err := m.cpu(ctx)
	s.idle = cpu / idleFor.Seconds()
	return err
}

func (s *server) stop() error { return s.process.Stop() }

func (s *server) addr() string { return s.process.Addr() }

// empty removes every key. The server is private, so nobody misses them.
func (s *server) empty(ctx context.Context) error { return s.rdb.FlushAll(ctx).Err() }

// info returns the fields of sections of INFO.
func (s *server) info(ctx context.Context, sections ...string) (map[string]string, error) {
	text, err := s.rdb.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// number is the sum of some numeric fields of a section of INFO.
func (s *server) number(ctx context.Context, section string, names ...string) (float64, error) {
	fields, err := s.info(ctx, section)
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, name := range names {
		x, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, fmt.Errorf("INFO %s: field %s: %w", section, name, err)
		}
		sum += x
	}
	return sum, nil
}

// meter reads Redis's own CPU time, the steadiest figure there is on a noisy machine, and counts script calls.
type meter struct {
	server  *server
	used    float64
	scripts float64
	since   time.Time
}

func (s *server) meter(ctx context.Context) (meter, error) {
	scripts, err := s.scripts(ctx)
	if err != nil {
		return meter{}, err
	}
	used, err := s.number(ctx, "cpu", "used_cpu_user", "used_cpu_sys")
	return meter{s, used, scripts, time.Now()}, err
}

// scripts is how many were called so far.
func (s *server) scripts(ctx context.Context) (float64, error) {
	fields, err := s.info(ctx, "commandstats")
	var calls float64
	for _, command := range []string{"eval", "evalsha"} {
		var n float64
		if _, err := fmt.Sscanf(fields["cmdstat_"+command], "calls=%f,", &n); err == nil { // else it was never called
			calls += n
		}
	}
	return calls, err
}

// spent is the CPU time in seconds since the meter was made, less what idling costs, and how many scripts
// were called.
func (m meter) spent(ctx context.Context) (cpu, scripts float64, err error) {
	after, err := m.server.meter(ctx)
	idle := m.server.idle * after.since.Sub(m.since).Seconds()
	return max(0, after.used-m.used-idle), after.scripts - m.scripts, err
}

// cpu is spent without the scripts.
func (m meter) cpu(ctx context.Context) (float64, error) {
	cpu, _, err := m.spent(ctx)
	return cpu, err
}

// memory is what Redis says it has in use, in bytes.
func (s *server) memory(ctx context.Context) (float64, error) {
	return s.number(ctx, "memory", "used_memory")
}
