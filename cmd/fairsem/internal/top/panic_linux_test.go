package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
)

// panicAt makes of this test binary a program that panics.
const panicAt = "FAIRSEM_TEST_PANIC_AT"

func TestMain(m *testing.M) {
	if place := os.Getenv(panicAt); place != "" {
		panicking(place)
		os.Exit(9)
	}
	os.Exit(m.Run())
}

// panicking is a program that panics when enter is pressed.
func panicking(place string) {
	o := Options{Interval: time.Second, Sort: "name", Terminal: os.Stdout}
	ctx := context.Background()
	var m tea.Model = newModel(ctx, &broken{}, o)
	if place == "update" {
		m = brokenModel{m}
	}
	_, err := program(ctx, m, o).Run()
	fmt.Println(err) // bubbletea's own report of a panic in a command may come too late
}

// broken panics in a query of one name.
type broken struct{ fake }

func (b *broken) Survey(context.Context) (inspect.Survey, error) {
	return inspect.Survey{Statuses: []fairsem.Status{api}}, nil
}

func (b *broken) Detail(context.Context, string) (inspect.Detail, error) { panic("a query is broken") }

type brokenModel struct{ tea.Model }

func (b brokenModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if _, ok := msg.(tea.KeyPressMsg); ok {
		panic("the update is broken")
	}
	next, cmd := b.Model.Update(msg)
	return brokenModel{next}, cmd
}

func TestAPanicLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"look", "update"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			keys, terminal, err := pty.Open()
			require.NoError(t, err)
			defer func() { _ = keys.Close() }()
			require.NoError(t, pty.Setsize(keys, &pty.Winsize{Cols: 80, Rows: 24}))
			before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			require.NoError(t, err)

			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "TERM=xterm", panicAt+"="+place)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			var out transcript.Transcript
			ended := make(chan struct{})
			go func() { // ends when no process has the terminal any more; waited for below
				defer close(ended)
				_, _ = io.Copy(&out, keys)
			}()
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return strings.Contains(out.String(), "api") }, time.Minute, time.Millisecond)
			_, err = keys.WriteString("\r")
			require.NoError(t, err)
			require.Error(t, cmd.Wait())
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.NoError(t, terminal.Close())
			<-ended
			written := out.String()

			assert.Equal(t, before, after)
			require.Contains(t, written, tea.ErrProgramPanic.Error())
			for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?2004h": "\x1b[?2004l"} {
				assert.Greater(t, strings.LastIndex(written, off), strings.LastIndex(written, on), "%q", off)
				assert.Contains(t, written, on)
			}
		})
	}
}
