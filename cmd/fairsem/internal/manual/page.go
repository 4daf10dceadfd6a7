// Package manual writes the documentation of commands from their help texts and flags: one page in Markdown, and manual
// pages for man.
package manual

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is the documentation of one command.
type page struct {
	path    string // with its parents
	short   string
	use     string
	about   []string // paragraphs
	exit    string   // the exit codes; "": there are none
	flags   []flag
	example string
}

// flag is one option of a command.
type flag struct {
	short, name, value string // value is the name of its argument; "": it has none
	initial            string // the default; "": none, or an obvious one
	usage              string
}

// exits matches the part of a description with the exit codes.
var exits = regexp.MustCompile(`(?s)(?:^|\s)(Exit codes?: .*)$`)

func describe(cmd *cobra.Command) page {
	p := page{
		path:    cmd.CommandPath(),
		short:   cmd.Short,
		use:     strings.ReplaceAll(cmd.UseLine(), " [flags] [flags]", " [flags]"),
		example: indent.ReplaceAllString(strings.Trim(cmd.Example, "\n"), ""),
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(cmd.Long), "\n\n") {
		if at := exits.FindStringSubmatchIndex(paragraph); at != nil && p.exit == "" {
			p.exit = paragraph[at[2]:]
			paragraph = paragraph[:at[0]]
		}
		if paragraph != "" {
			p.about = append(p.about, strings.Trim(paragraph, "\n"))
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && f.Name != "version" {
			p.flags = append(p.flags, describeFlag(f))
		}
	})
	return p
}

// obvious are defaults that mean that a flag was not given.
var obvious = []string{"", "0", "0s", "false", "[]"}

func describeFlag(f *pflag.Flag) flag {
	value, usage := pflag.UnquoteUsage(f)
	d := flag{short: f.Shorthand, name: f.Name, value: value, usage: usage}
	if !slices.Contains(obvious, f.DefValue) {
		d.initial = f.DefValue
	}
	return d
}

// commands are the subcommands that users should know, in the order of help.
func commands(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.Name() == "help"
	})
}

// descendants are the commands, each followed by its own.
func descendants(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range commands(cmd) {
		all = append(append(all, sub), descendants(sub)...)
	}
	return all
}

// verbatim reports whether a paragraph is laid out by hand: a list, or a table.
func verbatim(paragraph string) bool { return strings.Contains("\n"+paragraph, "\n  ") }

// indent is at the start of the lines of examples.
var indent = regexp.MustCompile("(?m)^  ")

var special = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`, "`", "\\`", "#", `\#`)

// plain escapes text for Markdown.
func plain(text string) string { return special.Replace(text) }
