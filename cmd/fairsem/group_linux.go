package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// groupRuns says whether anything of a group that lives does run: zombies do not. What other users run may be hidden in
// /proc, so a group of which nothing is seen is taken to run.
func groupRuns(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	seen := false
	for _, file := range files {
		p, err := readStat(file)
		if err != nil || p.group != group { // an error: ended meanwhile
			continue
		}
		if p.runs() {
			return true
		}
		seen = true
	}
	return !seen
}

// procStat is what the kernel reports about a process.
type procStat struct {
	state         string
	parent, group int
}

// runs is false for a process that has ended and was not waited for.
func (p procStat) runs() bool { return p.state != "Z" && p.state != "X" }

// readStat reads "pid (name) state ppid group …". A name may hold anything.
func readStat(file string) (p procStat, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &p.state, &p.parent, &p.group)
	return p, err
}
