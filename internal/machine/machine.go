// Package machine describes the machine and the versions of a measurement or a test. It contains no host name and no path.
package machine

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Facts describe the machine in every result. An unknown fact is "unknown".
type Facts struct {
	Date     string            `json:"date"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Fairsem  string            `json:"fairsem"`  // the commit
	Versions map[string]string `json:"versions"` // of modules in this program
}

// New returns the facts. Versions contains those of the given modules that are part of this program.
func New(ctx context.Context, modules ...string) Facts {
	f := Facts{
		Date:     time.Now().UTC().Format(time.DateOnly),
		CPU:      Value("/proc/cpuinfo", "model name"),
		Cores:    runtime.NumCPU(),
		Kernel:   FirstWord("/proc/sys/kernel/osrelease"),
		Go:       runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Fairsem:  commit(ctx),
		Versions: make(map[string]string),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if slices.Contains(modules, d.Path) {
				f.Versions[d.Path] = d.Version
			}
		}
	}
	return f
}

// Value returns the value of a name in a file of "name: value" or "name=value" lines. It returns "unknown" if the file does not
// have the name or does not exist, as on systems other than Linux.
func Value(file, name string) string {
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

// FirstWord returns the first word of a file, or "unknown" if there is none.
func FirstWord(file string) string {
	text, err := os.ReadFile(file)
	if words := strings.Fields(string(text)); err == nil && len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// commit returns the commit by git describe, because a program that go run has built does not contain it.
func commit(ctx context.Context) string {
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(name))
}
