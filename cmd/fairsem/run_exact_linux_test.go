package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The process that becomes the command is another program at first, and nothing of that may be left.

func TestTheCommandHasTheLimitsAndSignalsOfADirectStart(t *testing.T) {
	s := newStation(t)
	// A soft limit below the hard one is raised by every Go program. grep takes the lines that change with each process.
	setting := `ulimit -S -n 77; umask 027; trap "" HUP INT; exec "$@"`
	report := `^(Sig[PBIC]|ShdPnd|Cap|NoNewPrivs|Seccomp:|Umask|Threads|Uid|Gid|Groups|Cpus_allowed:)|^Max `
	show := []string{"grep", "-hE", report, "/proc/self/status", "/proc/self/limits"}
	within := func(command ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), "sh", append([]string{"-c", setting, "sh"}, command...)...)
	}
	want, err := within(show...).Output()
	require.NoError(t, err)
	run := s.command(append([]string{"--limit", "1", "--"}, show...)...)
	cmd := within(run.Args...)
	cmd.Env = run.Env
	got, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	assert.Regexp(t, `SigIgn:\s+[0-9a-f]{15}[37bf]\n`, string(got), "HUP and INT, and what the test ignores itself")
	assert.Regexp(t, `Max open files\s+77 `, string(got))
}

func TestTheCommandHasTheEnvironmentOfTheRun(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "--", "cat", "/proc/self/environ")
	odd := []string{"PATH=" + os.Getenv("PATH"), "EMPTY=", "LINES=a\nb", "not a variable", "_=kept", "SHLVL=7", "GODEBUG=http2debug=0"}
	cmd.Env = slices.Concat(odd, []string{"REDIS_URL=redis://" + s.server.Addr()})
	out, err := cmd.Output()
	require.NoError(t, err)
	env := regexp.MustCompile(`FAIRSEM_[^\x00]*\x00`).ReplaceAllString(string(out), "")
	assert.Equal(t, strings.Join(odd, "\x00")+"\x00", env)
}

func TestTheCommandHasItsArgumentsAndADirectoryForItsPath(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/bin/cat", dir+"/show me"))
	cmd := s.command("--limit", "1", "--", "./show me", "--", "/proc/self/cmdline", "/dev/null", "")
	cmd.Dir = dir
	out, err := cmd.Output()
	assert.Equal(t, 1, exitCode(err), "cat has no file without a name")
	assert.Equal(t, "./show me\x00--\x00/proc/self/cmdline\x00/dev/null\x00\x00", string(out))
}

// make passes descriptors on to the commands that it starts, 3 and 4 for example.
func TestTheCommandHasTheDescriptorsOfTheRunAndNoOthers(t *testing.T) {
	s := newStation(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	script := `ls /proc/$$/fd; readlink /proc/$$/fd/3 /proc/$$/fd/4`
	direct, run := exec.CommandContext(t.Context(), "/bin/sh", "-c", script), s.command("--limit", "1", "-c", script)
	direct.ExtraFiles, run.ExtraFiles = []*os.File{r, w}, []*os.File{r, w}
	want, err := direct.Output()
	require.NoError(t, err)
	got, err := run.Output()
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	assert.Contains(t, string(got), "\n4\n")
	assert.NoError(t, r.Close())
	assert.NoError(t, w.Close())
}

func TestTheCommandIsAChildOfTheRunAndLeadsItsGroup(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "--", "cat", "/proc/self/stat")
	out, err := cmd.Output()
	require.NoError(t, err)
	pid, rest, _ := strings.Cut(string(out), " (cat) ")
	fields := strings.Fields(rest)
	assert.Equal(t, strconv.Itoa(cmd.Process.Pid), fields[1], "its parent")
	assert.Equal(t, pid, fields[2], "its group")
	mine, err := os.ReadFile("/proc/self/stat")
	require.NoError(t, err)
	_, rest, _ = strings.Cut(string(mine), ") ")
	assert.Equal(t, strings.Fields(rest)[3], fields[3], "its session")
}
