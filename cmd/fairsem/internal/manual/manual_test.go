package manual

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// tree has everything that a layout can trip over.
func tree() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "prog", Short: "Does things", Long: "It does <things> with a_b_c and *stars*."}
	sub := &cobra.Command{
		Use: "sub NAME [flags]", Short: "One | thing", Run: run,
		Long: `Keys:

  q  ends it
  j  goes down

It says more. Exit code: 0 if well,
1 if not.`,
		Example: "  prog sub x   # first\n    indented",
	}
	sub.Flags().StringP("file", "f", "", "read `FILE` | or *not*")
	sub.Flags().Int("count", 3, "how many")
	sub.Flags().Bool("quiet", false, "say nothing")
	sub.Flags().String("secret", "", "unseen")
	_ = sub.Flags().MarkHidden("secret")
	sub.AddCommand(&cobra.Command{Use: "below", Short: "A part of it", Run: run})
	root.AddCommand(sub, &cobra.Command{Use: "unseen", Hidden: true, Run: run})
	return root
}

func TestMarkdownHasTheTextOfTheCommands(t *testing.T) {
	text := Markdown(tree(), "Intro.")
	for _, want := range []string{
		"# prog\n\nIntro.\n\nIt does \\<things> with a\\_b\\_c and \\*stars\\*.\n\n## Contents\n\n- [`prog sub`](#prog-sub): One | thing\n- [`prog sub below`](#prog-sub-below): A part of it\n",
		"## `prog sub below`\n\nA part of it.\n\n```\nprog sub below\n```\n",
		"## `prog sub`\n\nOne | thing.\n\n```\nprog sub NAME [flags]\n```\n\nKeys:\n\n```\n  q  ends it\n  j  goes down\n```\n\nIt says more.\n\n**Exit code**: 0 if well,\n1 if not.\n\n",
		"| flag | default | meaning |\n|---|---|---|\n| `--count int` | `3` | how many |\n| `-f, --file FILE` |  | read FILE \\| or \\*not\\* |\n| `--quiet` |  | say nothing |\n\n",
		"```\nprog sub x   # first\n  indented\n```\n",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "unseen")
}

func TestAManualPageHasTheTextOfItsCommand(t *testing.T) {
	root := tree()
	page := string(Man(root.Commands()[0], Edition{Version: "v1"}))
	for _, want := range []string{
		`.TH "PROG-SUB" "1" "" "prog v1" "User Commands"`,
		"\n.SH NAME\nprog-sub \\- One | thing\n",
		"\n.SH SYNOPSIS\n\\fBprog sub\\fP NAME [flags]\n",
		"\n.EX\n  q  ends it\n  j  goes down\n.EE\n",
		"\n.SH COMMANDS\n.TP\n\\fBprog-sub-below\\fP(1)\nA part of it\n",
		"\n.SH EXIT STATUS\nExit code: 0 if well,\n1 if not.\n",
		"\\fB-f\\fP, \\fB--file\\fP \\fIFILE\\fP\nread FILE | or *not*\n",
		"\\fB--count\\fP \\fIint\\fP\nhow many (default 3)\n",
		"\n.SH SEE ALSO\n\\fBprog\\fP(1)\n",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "unseen")
	assert.NotContains(t, page, "SERVERS", "what concerns all stands on the page of all")
	page = string(Man(root, Edition{}))
	assert.Contains(t, page, "\\fBprog-sub\\fP(1)\nOne | thing\n")
	for _, topic := range []string{"SERVERS", "EXIT CODES", "ENVIRONMENT"} {
		assert.Contains(t, page, ".SH "+topic+"\n")
	}
}
