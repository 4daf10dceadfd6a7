package doctor

import (
	"bytes"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

func TestAPageForATerminalHasASignForEachStateAndIsEscaped(t *testing.T) {
	t.Parallel()
	for state, sign := range map[State]string{OK: "✓", Warn: "!", Fail: "✗", Skip: "-"} {
		var out bytes.Buffer
		Page{Out: &out, Pretty: true}.Show(Finding{Check: "memory", State: state, Message: "\x1b]0;x\a\u202e", Advice: "do\nit"})
		assert.Equal(t, sign+` memory       \x1b]0;x\a\u202e`+"\n"+`               → do\nit`+"\n", ansi.Strip(out.String()))
	}
}

func TestAPageForAPipeIsPlainWords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := Page{Out: &out}
	var r Report
	for _, f := range []Finding{{Check: "role", State: OK, Message: "primary"}, {Check: "semaphores", State: Warn, Message: "a\nb", Advice: "wait"}} {
		r.Add(f)
		p.Show(f)
	}
	assert.NoError(t, p.Sum(r))
	assert.Equal(t, `ok    role         primary
warn  semaphores   a\nb
                   do: wait

1 ok, 1 warning, 0 failures, 0 skipped
`, out.String())
}

func TestEveryCheckFitsItsColumn(t *testing.T) {
	t.Parallel()
	for _, c := range checks {
		assert.LessOrEqual(t, len(c.name), checkWidth)
	}
}
