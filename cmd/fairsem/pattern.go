package main

import (
	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// onePattern refuses a second argument.
func onePattern(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%q is one argument too many: give one PATTERN; quote it, so that the shell leaves it alone", args[1])
	}
	return nil
}

// parsePattern returns the PATTERN of a command that shows names; "" if there is none.
func parsePattern(args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	if args[0] == "" {
		return "", exit.Usagef("PATTERN is empty: leave it out to see every name")
	}
	if _, err := inspect.Glob(args[0]); err != nil {
		return "", exit.Usagef("PATTERN %w", err)
	}
	return args[0], nil
}
