package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Write the version",
		Long: `Writes the version, the revision that it was built from, the version of Go and the
system, as fairsem --version does.

Exit code: 0, 2 for a wrong command line, 125 if it cannot be written.`,
		Example: `  fairsem version`,
		Args:    cobra.NoArgs,
		RunE: ownFailure(func(cmd *cobra.Command) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "fairsem", buildInfo())
			return err
		}),
	}
}
