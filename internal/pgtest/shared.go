//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"sync"
)

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Shared returns the server that all tests of this process share, with room for 100 connections. The first call starts it, and [Main]
// stops it.
func Shared() (*Server, error) {
	shared.once.Do(func() { shared.server, shared.err = Start(100) })
	return shared.server, shared.err
}

// Main runs the tests, stops the server of [Shared] if there is one, and returns the exit code.
func Main(tests func() int) int {
	code := tests()
	if shared.server != nil {
		if err := shared.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}
