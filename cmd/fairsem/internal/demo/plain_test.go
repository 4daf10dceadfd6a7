package demo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWithoutATerminalEveryChangeIsALineAndNothingElse(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &plain{logWriter: logWriter{&out}}
	f := crowded()
	p.show(f)
	p.show(f)
	assert.Equal(t, 7, strings.Count(out.String(), "\n"), out.String()) // two of title and one below, three events, one state
	assert.Contains(t, out.String(), "3 of 3 used by 7 (2 units) (dead), 1; queue: 1 (2 units), ")
	f.Holders, f.Waiters = f.Holders[1:], nil
	p.show(f)
	assert.True(t, strings.HasSuffix(out.String(), "1 of 3 used by 1; queue: no worker\n"), out.String())
}

func TestALineOfTheLogFitsInATerminalWhoeverWaits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := crowded()
	for i := range f.Waiters {
		f.Waiters[i].Weight = 2
	}
	f.Waiters[0].Label = ""
	f.Waiters = append(f.Waiters, f.Waiters...)
	(&plain{logWriter: logWriter{&out}}).show(f)
	assert.Contains(t, out.String(), "; queue: ? (2 units), ")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Equal(t, 80, len([]rune(lines[len(lines)-1])), lines[len(lines)-1])
}

func TestALogIsEscapedForTerminals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := crowded()
	f.Waiters[0].Label, f.place = "\x1b[2J\n", "\x1b"
	(&plain{logWriter: logWriter{&out}}).show(f)
	assert.NotContains(t, out.String(), "\x1b")
	assert.Equal(t, 7, strings.Count(out.String(), "\n"), out.String())
}
