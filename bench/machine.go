package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	facts "github.com/fairsem/fairsem/internal/machine"
)

// machine describes the machine, the system and the versions of a result.
type machine struct {
	facts.Facts
	Memory string `json:"memory"`
	System string `json:"system"`
	Redis  string `json:"redis"`
	Load   string `json:"load"` // average of the last minute when the bench began
}

// peers are the modules whose versions a result contains.
var peers = []string{
	"github.com/redis/go-redis/v9",
	"github.com/bsm/redislock",
	"github.com/go-redsync/redsync/v4",
	"github.com/redis/rueidis",
	"github.com/hibiken/asynq",
	"github.com/hibiken/asynq/x",
	"github.com/go-redis/redis_rate/v10",
}

func newMachine(ctx context.Context, s *server) machine {
	m := machine{
		Facts:  facts.New(ctx, peers...),
		Memory: memorySize(),
		System: strings.Trim(facts.Value("/etc/os-release", "PRETTY_NAME"), `"`),
		Load:   facts.FirstWord("/proc/loadavg"),
	}
	if fields, err := s.info(ctx, "server"); err == nil { // otherwise the version stays empty
		m.Redis = fields["redis_version"] // Valkey also reports the version with which it is compatible
		if name, version := fields["server_name"], fields["valkey_version"]; version != "" {
			m.Redis = name + " " + version
		}
	}
	return m
}

func memorySize() string {
	var kB float64
	if _, err := fmt.Sscan(facts.Value("/proc/meminfo", "MemTotal"), &kB); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%.0f GiB", kB/(1<<20))
}

// nodeWorker is the path of the worker of redis-semaphore, relative to the folder in which the bench runs.
var nodeWorker = filepath.Join("node", "worker.mjs")

// nodeMissing returns why redis-semaphore cannot run, or "" if it can. If it is installed but does not work, the first
// measurement fails.
func nodeMissing() string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not installed"
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		return "its packages are not installed (make bench installs them if npm is available)"
	}
	return ""
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s; %s, kernel %s; %s; Redis %s; fairsem %s; load %s at the start",
		m.CPU, m.Cores, m.Memory, m.System, m.Kernel, m.Go, m.Redis, m.Fairsem, m.Load)
}

// short returns a shorter description for the overview.
func (m machine) short() string {
	return fmt.Sprintf("%s, %d cores; %s; Redis %s", m.CPU, m.Cores, m.Go, m.Redis)
}
