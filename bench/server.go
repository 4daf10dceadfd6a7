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

// server is the private Redis server of the bench.
type server struct {
	process *redistest.Server
	rdb     *redis.Client
	pid     int
}

func startServer(ctx context.Context) (*server, error) {
	process, err := redistest.Start()
	if err != nil {
		return nil, err
	}
	s := &server{process: process, rdb: process.Client()}
	if err := s.init(ctx); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return s, nil
}

// init reads the process id.
func (s *server) init(ctx context.Context) error {
	pid, err := s.number(ctx, "server", "process_id")
	if err != nil {
		return err
	}
	s.pid = int(pid)
	return nil
}

func (s *server) stop() error { return s.process.Stop() }

func (s *server) addr() string { return s.process.Addr() }

// empty removes every key. The server is private, so no other program needs them.
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

// number returns the sum of numeric fields of a section of INFO.
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

// meter reads the CPU time of Redis, which is the steadiest figure on a noisy machine, and counts script calls.
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

// scripts returns the number of script calls so far.
func (s *server) scripts(ctx context.Context) (float64, error) {
	fields, err := s.info(ctx, "commandstats")
	var calls float64
	for _, command := range []string{"eval", "evalsha"} {
		var n float64
		if _, err := fmt.Sscanf(fields["cmdstat_"+command], "calls=%f,", &n); err == nil { // otherwise it was never called
			calls += n
		}
	}
	return calls, err
}

// spent returns the CPU time in seconds since the meter was created, and the number of script calls. What an idle server uses, about 1 ms a
// second, is part of it: taken off, a figure measured in a noisy moment made small costs look like none.
func (m meter) spent(ctx context.Context) (cpu, scripts float64, err error) {
	after, err := m.server.meter(ctx)
	return after.used - m.used, after.scripts - m.scripts, err
}

// cpu returns only the CPU time of spent.
func (m meter) cpu(ctx context.Context) (float64, error) {
	cpu, _, err := m.spent(ctx)
	return cpu, err
}

// memory returns the memory that Redis uses, in bytes.
func (s *server) memory(ctx context.Context) (float64, error) {
	return s.number(ctx, "memory", "used_memory")
}
