//go:build unix

package screen_test

import (
	"bytes"
	"testing"

	"github.com/charmbracelet/colorprofile"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// They are set for other programs, and the columns for awk had colours then, and the doctor signs instead of words.
func TestNoVariableMakesATerminalOfAPipe(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	t.Setenv("CLICOLOR_FORCE", "1")
	t.Setenv("TTY_FORCE", "1")
	assert.Equal(t, colorprofile.NoTTY, screen.Profile(&bytes.Buffer{}))
	var out bytes.Buffer
	_, err := screen.Writer(&out).Write([]byte("\x1b[1;31mred\x1b[m"))
	require.NoError(t, err)
	assert.Equal(t, "red", out.String())
}

func TestNoColorCountsWhateverItsValue(t *testing.T) {
	keys, terminal, err := pty.Open()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = terminal.Close()
		_ = keys.Close()
	})
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
	assert.Greater(t, screen.Profile(terminal), colorprofile.ASCII)
	t.Setenv("NO_COLOR", "yes")
	assert.Equal(t, colorprofile.ASCII, screen.Profile(terminal))
}
