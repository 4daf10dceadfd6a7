package main

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/manual"
)

//go:generate go run . man --markdown ../../docs/cli.md

type manOptions struct{ dir, markdown string }

func newMan() *cobra.Command {
	var o manOptions
	cmd := &cobra.Command{
		Use:   "man [COMMAND] [flags]",
		Short: "Write manual pages",
		Long: `Writes the manual page of fairsem, or of one of its commands, to standard output;
with --dir, the pages of all of them into a directory. They have no date, unless
SOURCE_DATE_EPOCH gives one, so that a build can be repeated.

Exit code: 0 if all was written, 2 for a wrong command line, 125 if it cannot be
written.`,
		Example: `  fairsem man run | man -l -
  fairsem man --dir /usr/local/share/man/man1`,
		RunE: ownFailure(o.write),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, c := range cmd.Root().Commands() {
				if len(args) == 0 && c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	textFlag(f, &o.dir, "dir", "write all pages into `DIR`, which is created if needed")
	f.StringVar(&o.markdown, "markdown", "", "write one page about all commands, in Markdown, to `FILE`")
	_ = cmd.MarkFlagDirname("dir") // fails only for a flag that is not there
	_ = f.MarkHidden("markdown")   // as above; docs/cli.md is made with it
	return cmd
}

func (o *manOptions) write(cmd *cobra.Command) error {
	args, root := cmd.Flags().Args(), cmd.Root()
	if o.markdown != "" {
		return os.WriteFile(o.markdown, []byte(manual.Markdown(root, markdownIntro)), 0o644)
	}
	edition, err := newEdition()
	if err != nil {
		return err
	}
	if o.dir != "" && len(args) > 0 {
		return exit.Usagef("--dir takes all commands: leave out %q", args[0])
	}
	if o.dir != "" {
		return manual.WriteMan(root, edition, o.dir)
	}
	about, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 || about.Hidden || about.IsAdditionalHelpTopicCommand() {
		return exit.Usagef("unknown command %q", strings.Join(args, " "))
	}
	_, err = cmd.OutOrStdout().Write(manual.Man(about, edition))
	return err
}

const markdownIntro = "Generated from the commands by `go generate ./cmd/fairsem`. `fairsem help COMMAND` and `man fairsem-COMMAND` have the same text."

// newEdition returns the edition of this program.
func newEdition() (e manual.Edition, err error) {
	e.Version = version()
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return e, nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return e, exit.Usagef("SOURCE_DATE_EPOCH is %q, which is not a number of seconds", epoch)
	}
	e.Date = time.Unix(seconds, 0)
	return e, nil
}
