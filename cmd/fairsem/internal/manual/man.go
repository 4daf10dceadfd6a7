package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
)

// Edition is the text at the foot of manual pages. A zero date is none.
type Edition struct {
	Version string
	Date    time.Time
}

// Man returns the manual page of one command, in roff.
func Man(cmd *cobra.Command, e Edition) []byte {
	p := describe(cmd)
	date := ""
	if !e.Date.IsZero() {
		date = e.Date.UTC().Format(time.DateOnly)
	}
	var b strings.Builder
	// A Builder takes everything.
	_, _ = fmt.Fprintf(&b, "%% %q \"1\" %q %q \"User Commands\"\n", strings.ToUpper(dashed(p.path)), date, cmd.Root().Name()+" "+e.Version)
	_, _ = fmt.Fprintf(&b, "# NAME\n%s - %s\n\n", dashed(p.path), plain(p.short))
	_, _ = fmt.Fprintf(&b, "# SYNOPSIS\n**%s**%s\n\n# DESCRIPTION\n", p.path, plain(strings.TrimPrefix(p.use, p.path)))
	p.markAbout(&b)
	title := "# COMMANDS\n"
	for _, sub := range commands(cmd) {
		_, _ = fmt.Fprintf(&b, "%s**%s**(1)\n: %s\n\n", title, dashed(sub.CommandPath()), plain(sub.Short))
		title = ""
	}
	p.manOptions(&b)
	p.manTopics(&b, cmd)
	if p.example != "" {
		b.WriteString("# EXAMPLES\n" + fenced(p.example))
	}
	if cmd.HasParent() {
		_, _ = fmt.Fprintf(&b, "# SEE ALSO\n**%s**(1)\n", dashed(cmd.Parent().CommandPath()))
	}
	return md2man.Render([]byte(b.String()))
}

// WriteMan writes the pages of root and its commands into a directory, which it makes if needed.
func WriteMan(root *cobra.Command, e Edition, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, cmd := range append(descendants(root), root) {
		file := filepath.Join(dir, dashed(cmd.CommandPath())+".1")
		if err := os.WriteFile(file, Man(cmd, e), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func dashed(path string) string { return strings.ReplaceAll(path, " ", "-") }

func (p page) manOptions(b *strings.Builder) {
	if len(p.flags) > 0 {
		b.WriteString("# OPTIONS\n")
	}
	for _, f := range p.flags {
		if f.short != "" {
			_, _ = fmt.Fprintf(b, "**-%s**, ", f.short)
		}
		_, _ = fmt.Fprintf(b, "**--%s**", f.name)
		if f.value != "" {
			_, _ = fmt.Fprintf(b, " *%s*", plain(f.value))
		}
		_, _ = fmt.Fprintf(b, "\n: %s", plain(f.usage))
		if f.initial != "" {
			_, _ = fmt.Fprintf(b, " (default %s)", plain(f.initial))
		}
		b.WriteString("\n\n")
	}
}

// manTopics writes all topics on the page of the command itself, and only the exit status on the others.
func (p page) manTopics(b *strings.Builder, cmd *cobra.Command) {
	if p.exit != "" {
		b.WriteString("# EXIT STATUS\n" + plain(p.exit) + "\n\n")
	}
	if cmd.HasParent() {
		return
	}
	for _, t := range topics {
		_, _ = fmt.Fprintf(b, "# %s\n", strings.ToUpper(t.title))
		for _, e := range t.entries {
			_, _ = fmt.Fprintf(b, "**%s**\n: %s\n\n", plain(e.name), e.meaning)
		}
		b.WriteString(t.text + "\n\n")
	}
}
