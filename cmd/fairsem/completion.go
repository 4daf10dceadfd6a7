package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

var shells = []string{"bash", "zsh", "fish"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Write a completion script for a shell",
		Long: `Writes a script to standard output. A shell that has read it completes commands and
flags, and queries the server of --redis or REDIS_URL for names, ids and tenants: for at
most two seconds, and for names in a tenth of its time. It offers what it has found by
then; without a server it is silent. Those with characters that are special to a shell
are left out.

The scripts never execute anything on the command line; variables on it are expanded only
in bash. A command whose path has a blank or a character that is special to a shell is
not completed. PowerShell has none: the usual one evaluates the line.

The script for bash needs the package bash-completion, the one for zsh needs compinit.

Exit code: 0 if it was written, 2 for a wrong command line, 125 if it cannot be written.`,
		Example: `  # for this shell only
  source <(fairsem completion bash)
  source <(fairsem completion zsh)
  fairsem completion fish | source

  # for every shell from now on
  fairsem completion bash > /etc/bash_completion.d/fairsem
  fairsem completion zsh > "${fpath[1]}/_fairsem"
  fairsem completion fish > ~/.config/fish/completions/fairsem.fish`,
		ValidArgs: shells,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			args := cmd.Flags().Args()
			if len(args) != 1 {
				return exit.Usagef("give one shell: bash, zsh or fish")
			}
			script, err := completionScript(cmd.Root(), args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), script)
			return err
		}),
	}
}

func completionScript(root *cobra.Command, shell string) (string, error) {
	var b strings.Builder
	var err error
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(&b, true)
	case "zsh":
		err = root.GenZshCompletion(&b)
	case "fish":
		err = root.GenFishCompletion(&b, true)
	default:
		err = exit.Usagef("unknown shell %q: give bash, zsh or fish", shell)
	}
	if err != nil {
		return "", err
	}
	return withoutEvaluation(shell, b.String())
}

// evaluates are the lines of cobra's scripts that contain the line of the user, which they then pass to eval, and
// their replacements. The key Tab must run nothing and write to no file. The first word, the command, is evaluated as it is, so nothing is
// done for one that may be more than a path.
var evaluates = map[string][][2]string{
	// The words have their quotes. Bash cannot remove those without eval, so an operator, also one in quotes, becomes a character of no name.
	"bash": {{
		`args=("${words[@]:1}")`,
		`[[ ${words[0]#\\} == *[^[:alnum:]_./~+@%-]* ]] && return; args=("${words[@]:1}"); args=("${args[@]//[\` + "`" + `(){\}<>;&|]/�}")`,
	}},
	// The words have their quotes, and an empty last one is a word, too. The prefix is evaluated again where candidates are added.
	"zsh": {{
		`words=("${=words[1,CURRENT]}")`,
		`[[ ${words[1]#\\} == *[^[:alnum:]_./~+@%-]* ]] && return 1; words=("${words[1]}" "${(@qq)${(@Q)words[2,CURRENT]}}")`,
	}, {
		`flagPrefix="-P ${BASH_REMATCH}"`,
		`flagPrefix="-P ${(q)BASH_REMATCH}"`,
	}},
	// The words have lost their quotes.
	"fish": {{
		`set -l args (commandline -opc)`,
		`string match -qr -- '[^\w./~+@%-]' (commandline -opc)[1]; and return; set -l args (commandline -opc)[1] (string escape -- (commandline -opc)[2..-1])`,
	}},
}

func withoutEvaluation(shell, script string) (string, error) {
	for _, line := range evaluates[shell] {
		if strings.Count(script, line[0]) != 1 {
			return "", fmt.Errorf("the script of cobra for %s has no line %s", shell, line[0])
		}
		script = strings.Replace(script, line[0], line[1], 1)
	}
	return script, nil
}
