package orphan

import "github.com/prometheus/procfs"

// GroupRuns reports whether a process of a group that exists runs: zombies do not. Processes of other users may be hidden in
// /proc, so a group of which nothing is seen is taken to run.
func GroupRuns(group int) bool {
	all, _ := procfs.AllProcs() // an error: none is seen
	seen := false
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil || stat.PGRP != group { // an error: ended meanwhile
			continue
		}
		if Runs(stat) {
			return true
		}
		seen = true
	}
	return !seen
}

// Runs is false for a process that has ended and was not waited for.
func Runs(stat procfs.ProcStat) bool { return stat.State != "Z" && stat.State != "X" }
