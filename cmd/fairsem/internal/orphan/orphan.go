// Package orphan sees to it that a process does not outlive the one that started it, where the kernel helps with
// that: on Linux. Importing it keeps the main goroutine on the main thread, from which such processes must be started.
package orphan
