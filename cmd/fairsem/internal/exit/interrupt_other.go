//go:build !unix

package exit

// Interrupted returns: only Unix has signals that end a process.
func Interrupted(error) {}
