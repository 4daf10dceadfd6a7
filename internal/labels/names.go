// Package labels turns the names and errors of events into labels of metrics, of which there are few.
//
// fairsemprom and fairsemotel import it. They are modules with versions of their own, so its API may grow but not change:
// release/api records it.
package labels

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/fairsem/fairsem"
)

const (
	// Other is the label of all names that have none of their own, and the reason of what has none.
	Other = "other"

	defaultNames = 1000
)

// Names has a value for each of the first names, and one value for all others. Its methods may be called from any goroutine.
type Names[T any] struct {
	allow func(name string) bool // nil: every name
	most  int
	value func(label string) T
	other func() T

	mu    sync.RWMutex
	named map[string]T // guarded by mu; entries stay, so that each gauge is counted up and down in the same series
}

// NewNames returns Names that make the value of a name from its label. At most so many names have a value of their own, 1,000
// if 0, and only those that allow allows, which is called without a lock.
func NewNames[T any](allow func(name string) bool, most int, value func(label string) T) (*Names[T], error) {
	if most < 0 {
		return nil, fmt.Errorf("%w: MaxNames is %d; give at least 1, or 0 for the default", fairsem.ErrInvalid, most)
	}
	if most == 0 {
		most = defaultNames
	}
	return &Names[T]{
		allow: allow, most: most, value: value,
		other: sync.OnceValue(func() T { return value(Other) }),
		named: make(map[string]T),
	}, nil
}

// Of returns the value of a name. For a name that it has returned before it allocates nothing.
func (n *Names[T]) Of(name string) T {
	n.mu.RLock()
	value, found := n.named[name]
	full := len(n.named) >= n.most
	n.mu.RUnlock()
	switch {
	case found:
		return value
	case full || n.allow != nil && !n.allow(name):
		return n.other()
	}
	return n.add(name)
}

func (n *Names[T]) add(name string) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	if value, found := n.named[name]; found { // another goroutine was first
		return value
	}
	if len(n.named) >= n.most {
		return n.other()
	}
	value := n.value(Text(name))
	n.named[name] = value
	return value
}

// escapedByte matches the text that Text writes for a byte that is no UTF-8.
var escapedByte = regexp.MustCompile(`\\x[89a-f][0-9a-f]`)

// Text returns a name as UTF-8, which labels must be: bytes that are none are escaped. In such a name, and in one that has such an escape
// as text, each backslash is doubled, so no two names have the same label.
func Text(name string) string {
	if utf8.ValidString(name) && !escapedByte.MatchString(name) {
		return name
	}
	name = strings.ReplaceAll(name, `\`, `\\`)
	var b strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[0])
		} else {
			b.WriteString(name[:size])
		}
		name = name[size:]
	}
	return b.String()
}
