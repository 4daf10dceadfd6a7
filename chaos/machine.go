package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine is what a result was found on. It names no host and no path.
type machine struct {
	Date     string            `json:"date"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Redis    string            `json:"redis"`
	Fairsem  string            `json:"fairsem"` // the commit
	Versions map[string]string `json:"versions"`
}

func newMachine(ctx context.Context) machine {
	m := machine{
		Date:     time.Now().UTC().Format(time.DateOnly),
		CPU:      field("/proc/cpuinfo", "model name"),
		Cores:    runtime.NumCPU(),
		Kernel:   field("/proc/sys/kernel/osrelease", ""),
		Go:       runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Redis:    output(ctx, serverBinary(), "--version"),
		Fairsem:  output(ctx, "git", "describe", "--always", "--dirty"),
		Versions: make(map[string]string),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/redis/go-redis/v9" || d.Path == "github.com/anishathalye/porcupine" {
				m.Versions[d.Path] = d.Version
			}
		}
	}
	return m
}

func serverBinary() string {
	if name := os.Getenv("FAIRSEM_REDIS_SERVER"); name != "" {
		return name
	}
	return "redis-server"
}

// field is what stands after a name at the beginning of a line; "unknown" if nothing does.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }() // it is only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			return strings.TrimLeft(rest, ":\t ")
		}
	}
	return "unknown"
}

// output is the first three words that a command says.
func output(ctx context.Context, name string, args ...string) string {
	text, err := exec.CommandContext(ctx, name, args...).Output()
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return "unknown"
	}
	return strings.Join(words[:min(len(words), 3)], " ")
}

func (m machine) String() string {
	return fmt.Sprintf("%s: %s, %d cores, kernel %s; %s; %s; go-redis %s, porcupine %s; fairsem %s", m.Date, m.CPU, m.Cores, m.Kernel,
		m.Go, m.Redis, m.Versions["github.com/redis/go-redis/v9"], m.Versions["github.com/anishathalye/porcupine"], m.Fairsem)
}
