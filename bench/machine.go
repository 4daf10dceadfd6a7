package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine is what a result was measured on. It names no host and no path.
type machine struct {
	Date     string            `json:"date"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Memory   string            `json:"memory"`
	System   string            `json:"system"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Redis    string            `json:"redis"`
	Fairsem  string            `json:"fairsem"` // the commit
	Load     string            `json:"load"`    // average of the last minute when the bench began
	Versions map[string]string `json:"versions"`
}

// peers are the modules whose versions are told.
var peers = []string{
	"github.com/redis/go-redis/v9",
	"github.com/bsm/redislock",
	"github.com/go-redsync/redsync/v4",
	"github.com/redis/rueidis",
	"github.com/hibiken/asynq",
	"github.com/hibiken/asynq/x",
}

func newMachine(ctx context.Context, s *server) machine {
	m := machine{
		Date:     time.Now().UTC().Format(time.DateOnly),
		CPU:      value("/proc/cpuinfo", "model name"),
		Cores:    runtime.NumCPU(),
		Memory:   memorySize(),
		System:   strings.Trim(value("/etc/os-release", "PRETTY_NAME"), `"`),
		Kernel:   firstWord("/proc/sys/kernel/osrelease"),
		Load:     firstWord("/proc/loadavg"),
		Fairsem:  commit(ctx),
		Go:       runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Versions: make(map[string]string),
	}
	if fields, err := s.info(ctx, "server"); err == nil { // without it the line stays empty
		m.Redis = fields["redis_version"] // Valkey says what it is compatible with, too
		if name, version := fields["server_name"], fields["valkey_version"]; version != "" {
			m.Redis = name + " " + version
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, peer := range peers {
				if d.Path == peer {
					m.Versions[peer] = d.Version
				}
			}
		}
	}
	return m
}

// value is what stands after a name in a file of "name: value" or "name=value" lines; "unknown" if
// nothing does, as on other systems than Linux.
func value(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }() // it is only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			return strings.TrimLeft(strings.TrimSpace(rest), ":= \t")
		}
	}
	return "unknown"
}

func memorySize() string {
	var kB float64
	if _, err := fmt.Sscan(value("/proc/meminfo", "MemTotal"), &kB); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%.0f GiB", kB/(1<<20))
}

// commit is what was measured, as git names it: of a build that go run makes Go does not know.
func commit(ctx context.Context) string {
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(name))
}

func firstWord(file string) string {
	text, err := os.ReadFile(file)
	if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// nodeWorker is the worker of redis-semaphore, seen from the folder in which the bench runs.
var nodeWorker = filepath.Join("node", "worker.mjs")

// nodeMissing says why redis-semaphore cannot run; "" if it can. An installation that is there but
// does not work is an error in the first measurement, not a reason to leave it out.
func nodeMissing() string {
	if _, err := exec.LookPath("node"); err != nil {
		return "there is no node"
	}
	if _, err := os.Stat(filepath.Join("node", "node_modules")); err != nil {
		return "its packages are not installed: `make bench` does that, where npm is"
	}
	return ""
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s; %s, kernel %s; %s; Redis %s; fairsem %s; load %s at the start",
		m.CPU, m.Cores, m.Memory, m.System, m.Kernel, m.Go, m.Redis, m.Fairsem, m.Load)
}

// short is String for where there is little room.
func (m machine) short() string {
	return fmt.Sprintf("%s, %d cores; %s; Redis %s", m.CPU, m.Cores, m.Go, m.Redis)
}
