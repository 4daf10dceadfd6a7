// Package manual writes the documentation of commands from what they say of themselves: one page in Markdown,
// and manual pages for man.
package manual

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// page is what there is to say of one command.
type page struct {
	path    string // with its parents
	short   string
	use     string
	about   []string // paragraphs
	exit    string   // the exit codes; "": nothing is said
	flags   []flag
	example string
}

// flag is one option of a command.
type flag struct {
	short, name, value string // value is what its argument is called; "": it has none
	initial            string // the default; "": none, or what goes without saying
	usage              string
}

// exits is where a description goes over to the exit codes.
var exits = regexp.MustCompile(`(?s)(?:^|\s)(Exit codes?: .*)$`)

func describe(cmd *cobra.Command) page {
	p := page{
		path:    cmd.CommandPath(),
		short:   cmd.Short,
		use:     strings.ReplaceAll(cmd.UseLine(), " [flags] [flags]", " [flags]"),
		example: dedent(cmd.Example),
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

// obvious are defaults that say no more than that a flag was not given.
var obvious = []string{"", "0", "0s", "false", "[]"}

func describeFlag(f *pflag.Flag) flag {
	value, usage := pflag.UnquoteUsage(f)
	d := flag{short: f.Shorthand, name: f.Name, value: value, usage: usage}
	if !slices.Contains(obvious, f.DefValue) {
		d.initial = f.DefValue
	}
	return d
}

// visible are a command and those under it that people are to know, in the order of help.
func visible(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		if !yield(cmd) {
			return
		}
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() || sub.Name() == "help" {
				continue
			}
			for c := range visible(sub) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// verbatim says whether a paragraph is laid out by hand: a list, or a table.
func verbatim(paragraph string) bool {
	return slices.ContainsFunc(strings.Split(paragraph, "\n"), func(line string) bool { return strings.HasPrefix(line, "  ") })
}

// dedent removes the two spaces at the start of the lines of examples.
func dedent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}

var special = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`, "`", "\\`", "#", `\#`)

// plain is text that Markdown is to leave alone.
func plain(text string) string { return special.Replace(text) }
