package orphan

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// GroupRuns reports whether a process of a group that exists runs: zombies do not. What other users run may be hidden in
// /proc, so a group of which nothing is seen is taken to run.
func GroupRuns(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	seen := false
	for _, file := range files {
		p, err := ReadStat(file)
		if err != nil || p.Group != group { // an error: ended meanwhile
			continue
		}
		if p.Runs() {
			return true
		}
		seen = true
	}
	return !seen
}

// Stat is what the kernel reports about a process.
type Stat struct {
	State         string
	Parent, Group int
}

// Runs is false for a process that has ended and was not waited for.
func (p Stat) Runs() bool { return p.State != "Z" && p.State != "X" }

// ReadStat reads "pid (name) state ppid group …". A name may hold anything.
func ReadStat(file string) (p Stat, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &p.State, &p.Parent, &p.Group)
	return p, err
}
