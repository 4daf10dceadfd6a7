package main

import (
	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a completion script for a shell",
		Long: `Writes a script to standard output. A shell that has read it completes commands and
flags, and queries the server of --redis or REDIS_URL for names, ids and tenants: for at
most two seconds, and for names in a tenth of its time. It offers what it has found by
then; without a server it is silent. Those with characters that are special to a shell
are left out.

The script for bash needs the package bash-completion, the one for zsh needs compinit.

Exit code: 0 if it was written, 2 for a wrong command line, 125 if it cannot be written.`,
		Example: `  # for this shell only
  source <(fairsem completion bash)
  source <(fairsem completion zsh)
  fairsem completion fish | source

  # for every shell from now on
  fairsem completion bash > /etc/bash_completion.d/fairsem
  fairsem completion zsh > "${fpath[1]}/_fairsem"
  fairsem completion fish > ~/.config/fish/completions/fairsem.fish
  fairsem completion powershell >> $PROFILE`,
		ValidArgs: shells,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			args, root, out := cmd.Flags().Args(), cmd.Root(), cmd.OutOrStdout()
			if len(args) != 1 {
				return exit.Usagef("give one shell: bash, zsh, fish or powershell")
			}
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(out)
			}
			return exit.Usagef("unknown shell %q: give bash, zsh, fish or powershell", args[0])
		}),
	}
}
