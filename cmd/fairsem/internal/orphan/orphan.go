// Package orphan keeps a process from outliving the one that started it, as far as the kernel helps: on Linux. It also
// reports whether a process group still runs after its leader has ended. Importing it keeps the main goroutine on the main
// thread, from which such processes must be started.
package orphan
