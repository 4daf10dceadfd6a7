// Package transcript keeps the output of programs while a test reads along.
package transcript

import (
	"strings"
	"sync"
)

// Transcript is a writer. The zero value is ready for use, by several goroutines at once.
type Transcript struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write never fails.
func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns all that was written so far.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Past forgets all text up to and including the first mark, and reports whether there was one.
func (t *Transcript) Past(mark string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, after, found := strings.Cut(t.text.String(), mark)
	if found {
		t.text.Reset()
		t.text.WriteString(after)
	}
	return found
}
