package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Markdown returns one page about root and its commands, with an introduction.
func Markdown(root *cobra.Command, intro string) string {
	var b strings.Builder
	top := describe(root)
	_, _ = fmt.Fprintf(&b, "# %s\n\n%s\n\n", top.path, intro) // a Builder takes everything
	top.markAbout(&b)
	b.WriteString("## Contents\n\n")
	for _, cmd := range descendants(root) {
		_, _ = fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", cmd.CommandPath(), anchor(cmd.CommandPath()), plain(cmd.Short))
	}
	for _, t := range topics {
		_, _ = fmt.Fprintf(&b, "- [%s](#%s)\n", t.title, anchor(t.title))
	}
	b.WriteString("\n")
	for _, cmd := range descendants(root) {
		describe(cmd).mark(&b)
	}
	for _, t := range topics {
		_, _ = fmt.Fprintf(&b, "## %s\n\n", t.title)
		for _, e := range t.entries {
			_, _ = fmt.Fprintf(&b, "- `%s`: %s\n", e.name, e.meaning)
		}
		_, _ = fmt.Fprintf(&b, "\n%s\n\n", t.text)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// mark writes a section about one command.
func (p page) mark(b *strings.Builder) {
	_, _ = fmt.Fprintf(b, "## `%s`\n\n%s.\n\n%s", p.path, plain(p.short), fenced(p.use))
	p.markAbout(b)
	if p.exit != "" {
		label, codes, _ := strings.Cut(p.exit, ": ")
		_, _ = fmt.Fprintf(b, "**%s**: %s\n\n", label, plain(codes))
	}
	if len(p.flags) > 0 {
		b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	}
	for _, f := range p.flags {
		f.mark(b)
	}
	if len(p.flags) > 0 {
		b.WriteString("\n")
	}
	if p.example != "" {
		b.WriteString(fenced(p.example))
	}
}

func (p page) markAbout(b *strings.Builder) {
	for _, paragraph := range p.about {
		if verbatim(paragraph) {
			b.WriteString(fenced(paragraph))
			continue
		}
		b.WriteString(plain(paragraph) + "\n\n")
	}
}

func (f flag) mark(b *strings.Builder) {
	name := strings.TrimSpace(fmt.Sprintf("--%s %s", f.name, f.value))
	if f.short != "" {
		name = fmt.Sprintf("-%s, %s", f.short, name)
	}
	initial := ""
	if f.initial != "" {
		initial = "`" + f.initial + "`"
	}
	usage := strings.ReplaceAll(plain(f.usage), "|", `\|`)
	_, _ = fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, initial, usage)
}

func fenced(text string) string { return "```\n" + text + "\n```\n\n" }

// anchor is the name that GitHub gives a heading, for a link to it.
func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }
