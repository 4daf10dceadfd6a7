package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/redistest"
)

// The package bash-completion is where bash gets two functions from; these are enough without colons in names.
const bashCompletion = `source /usr/share/bash-completion/bash_completion 2>/dev/null || {
	_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}; }
	__ltrim_colon_completions() { :; }
}
source <(fairsem completion bash)
`

const zshCompletion = "autoload -U compinit; compinit -D -u; source <(fairsem completion zsh)\n"

// shellWith is an interactive shell that has read a script.
func (s *station) shellWith(script string, argv ...string) *console {
	s.t.Helper()
	file := s.t.TempDir() + "/script"
	require.NoError(s.t, os.WriteFile(file, []byte(script), 0o600))
	sh := s.shell(argv...)
	sh.press(". " + file + "; echo loa''ded\n")
	sh.await("loaded")
	sh.await("ready> ")
	return sh
}

// evaluatingShells are those whose scripts take the line apart with eval.
var evaluatingShells = []struct {
	script string
	argv   []string
}{
	{bashCompletion, bash},
	{zshCompletion, []string{"zsh", "-f", "-i"}},
}

func TestRealShellsComplete(t *testing.T) {
	t.Parallel()
	for _, c := range evaluatingShells {
		t.Run(c.argv[0], func(t *testing.T) {
			s := newStation(t)
			s.hold("alpha", "alpine", "other", "a;touch owned")
			sh := s.shellWith(c.script, c.argv...)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/unmistakable", nil, 0o600))
			for typed, want := range map[string]string{
				"fairsem ru":                             "fairsem run",
				"fairsem run alpi":                       "fairsem run alpine",
				`\fairsem run alpi`:                      `fairsem run alpine`, // not an alias
				"fairsem run o":                          "fairsem run other",
				"fairsem run a\\;":                       "fairsem run a;", // not offered, and nothing else is
				"fairsem run n --on-lost ig":             "fairsem run n --on-lost ignore",
				"fairsem run other -- ls " + dir + "/un": "fairsem run other -- ls " + dir + "/unmistakable",
				"fairsem run other -- ls --on-lost ig":   "fairsem run other -- ls --on-lost ig",
			} {
				// Once completed the line is made one that only shows itself.
				sh.press(typed + "\t\x01echo 'line:' \x05.\n")
				sh.await("line: " + want)
				sh.await(".")
				sh.await("ready> ")
			}
		})
	}
}

// The scripts of cobra pass the line to eval.
func TestShellsRunNothingOfALineThatTheyComplete(t *testing.T) {
	t.Parallel()
	for _, c := range evaluatingShells {
		t.Run(c.argv[0], func(t *testing.T) {
			s := newStation(t)
			s.hold("my job")
			id := s.holderOf("my job")
			sh := s.shellWith(c.script, c.argv...)
			ran := t.TempDir() + "/ran"
			for i, l := range []struct{ typed, want string }{
				{`fairsem evict 'my job' "$(echo ran >>` + ran + `)" `, "fairsem evict my job  " + id},
				{`fairsem evict my\ job "` + "`echo ran >>" + ran + "`" + `" `, "fairsem evict my job  " + id},
				{`fairsem run n -c "$(echo ran >>` + ran + `)" --on-lost ig`, "fairsem run n -c  --on-lost ignore"},
				{`fairsem run n --on-lost="$(echo ran >>` + ran + `)="`, "fairsem run n --on-lost=="},
			} {
				// Once completed the line is made one that shows itself, and is run.
				sh.press(l.typed + "\t\x01echo 'line:' \x05 .\n")
				sh.await("line: " + l.want + " ")
				sh.await(".")
				sh.await("ready> ")
				all, err := os.ReadFile(ran)
				require.NoError(t, err)
				require.Equal(t, strings.Repeat("ran\n", i+1), string(all), "by the line, and not by its completion: %s", l.typed)
			}
		})
	}
}

// The scripts of cobra pass the command itself to eval, too. zsh also expands a first word for the completion of files.
func TestShellsRunNothingOfACommandThatTheyComplete(t *testing.T) {
	t.Parallel()
	for _, c := range evaluatingShells {
		t.Run(c.argv[0], func(t *testing.T) {
			s := newStation(t)
			s.hold("alpine")
			sh := s.shellWith(c.script, c.argv...)
			owned := t.TempDir() + "/owned"
			for _, typed := range []string{
				`"$(touch ` + owned + `)"/fairsem show al`, "`touch " + owned + "`/fairsem show al", `${x:-$(touch ` + owned + `)}/fairsem show al`,
			} {
				sh.press(typed + "\t\x01: \x05\x15echo 'al''ive'\n")
				sh.await("alive")
				sh.await("ready> ")
				assert.NoFileExists(t, owned, typed)
			}
			path := redistest.Program(t, "fairsem")
			sh.press(path + " show al\t\x01echo 'line:' \x05.\n")
			sh.await("line: " + path + " show alpine")
		})
	}
}

// holderOf returns the id of the only holder of a name.
func (s *station) holderOf(name string) string {
	s.t.Helper()
	holders := s.tickets(s.client.Inspect(name).Holders(s.t.Context()))
	require.Len(s.t, holders, 1)
	return inspect.PlainID(holders[0].ID)
}

// The script of cobra passes a line without its quotes to eval.
func TestFishRunsNothingOfALineThatItCompletes(t *testing.T) {
	redistest.Program(t, "fish")
	s := newStation(t)
	s.hold("my job")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/archive", []byte("precious"), 0o600))
	cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c", `fairsem completion fish | source
		complete -C "fairsem evict 'a;touch owned' "
		complete -C "fairsem evict a (touch owned) "
		complete -C "'x;touch owned;'/fairsem evict a "
		complete -C "/bin/touch\ owned/fairsem evict a "
		complete -C "fairsem run n -c 'tar c x | cat > archive' --tt"
		complete -C "fairsem evict 'my job' "`)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr(), "HOME="+t.TempDir())
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `\A(archive\n){2}--ttl\tlease [^\n]+\n`+s.holderOf("my job")+`\t[^\n]+\n\z`, string(out))
	assert.NoFileExists(t, dir+"/owned")
	archive, err := os.ReadFile(dir + "/archive")
	require.NoError(t, err)
	assert.Equal(t, "precious", string(archive))
}

func TestFishCompletes(t *testing.T) {
	redistest.Program(t, "fish")
	s := newStation(t)
	s.hold("alpha", "alpine", "other", "co:lon")
	cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c",
		`fairsem completion fish | source; complete -C "fairsem run al"; complete -C "fairsem run co:"; complete -C "fairsem run n --on-lost k"`)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "alpha\nalpine\nco:lon\nkill\tKILL at once\n", string(out))
}
