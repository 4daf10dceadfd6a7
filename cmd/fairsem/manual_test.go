package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/manual"
	"github.com/fairsem/fairsem/internal/redistest"
)

const markdownFile = "../../docs/cli.md"

func TestTheManualInDocsIsGeneratedFromTheCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(markdownFile)
	require.NoError(t, err)
	if manual.Markdown(newRoot(), markdownIntro) != string(text) {
		t.Fatal("docs/cli.md is not what the commands say: go generate ./cmd/fairsem makes it anew")
	}
}

func TestTheManualCoversEveryCommandAndVariable(t *testing.T) {
	t.Parallel()
	root := newRoot()
	text := manual.Markdown(root, "")
	for _, cmd := range withTheirs(root.Commands()) {
		if cmd.IsAdditionalHelpTopicCommand() {
			assert.Contains(t, strings.ToLower(text), "\n## "+strings.ReplaceAll(cmd.Name(), "-", " ")+"\n")
			continue
		}
		assert.Equal(t, cmd.Hidden, !strings.Contains(text, "\n## `"+cmd.CommandPath()+"`\n"), cmd.CommandPath())
		assert.Regexp(t, `(?m)^Exit code`, cmd.Long+strings.Repeat("Exit code", btoi(cmd.Hidden)), "%s has a paragraph about its exit codes", cmd.CommandPath())
		assert.NotEmpty(t, cmd.Example+strings.Repeat("none", btoi(cmd.Hidden)), cmd.CommandPath())
	}
	for _, want := range []string{"REDIS_URL", "FAIRSEM_PREFIX", "FAIRSEM_SERVE_TOKEN", "LC_ALL, LC_CTYPE, LANG", "NO_COLOR", "TERM", "SSL_CERT_FILE", "FAIRSEM_NAME", "FAIRSEM_ID", "FAIRSEM_TOKEN", "FAIRSEM_WEIGHT", "FAIRSEM_TENANT", "FAIRSEM_NUMBER", "FAIRSEM_NUMBERS"} {
		assert.Contains(t, text, "- `"+want+"`: ")
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		heading := strings.ReplaceAll(link[1], "-", "[- ]")
		assert.Regexp(t, "(?im)^## `?"+heading+"`?$", text, "a link that leads nowhere")
	}
}

// withTheirs are the commands and their subcommands.
func withTheirs(commands []*cobra.Command) (all []*cobra.Command) {
	for _, cmd := range commands {
		all = append(append(all, cmd), withTheirs(cmd.Commands())...)
	}
	return all
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// manualPages are the files that fairsem man writes.
func manualPages(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "fairsem", "man", "--dir", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, out)
	pages, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Contains(t, pages, dir+"/fairsem.1")
	require.Contains(t, pages, dir+"/fairsem-run.1")
	return pages
}

func TestManualPagesAreCompleteAndTheSameEachTime(t *testing.T) {
	t.Parallel()
	others := manualPages(t)
	for i, page := range manualPages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		again, err := os.ReadFile(others[i])
		require.NoError(t, err)
		assert.Equal(t, string(text), string(again))
		title := strings.ToUpper(strings.TrimSuffix(filepath.Base(page), ".1"))
		assert.Regexp(t, `(?m)^\.TH "`+title+`" "1" "" "fairsem [^"]+" "User Commands"$`, string(text))
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES"} {
			assert.Regexp(t, `(?m)^\.SH `+section+`$`, string(text), page)
		}
	}
}

// It is groff that typesets them for man, whose own flags are not the same everywhere.
func TestManualPagesAreTypesetWithoutAWarning(t *testing.T) {
	t.Parallel()
	groff := redistest.Program(t, "groff")
	for _, page := range manualPages(t) {
		out, err := exec.CommandContext(t.Context(), groff, "-man", "-wmac", "-Kutf8", "-Tutf8", "-z", page).CombinedOutput()
		require.NoError(t, err)
		assert.Empty(t, string(out), page)
	}
}

func TestTheDateOfManualPagesIsThatOfTheSource(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	e, err := newEdition()
	require.NoError(t, err)
	require.Equal(t, time.Unix(1700000000, 0), e.Date)
	require.Contains(t, string(manual.Man(newRoot(), e)), `"2023-11-14"`)
}
