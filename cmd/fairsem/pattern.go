package main

import (
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// parsePattern returns the PATTERN of a command that shows names until it is stopped; "" if there is none.
func parsePattern(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args) > 1:
		return "", exit.Usagef("%q is one argument too many: give one PATTERN, and quote it, so that the shell leaves it alone", args[1])
	case args[0] == "":
		return "", exit.Usagef("PATTERN is empty: leave it out to see every name")
	}
	if _, err := inspect.Glob(args[0]); err != nil {
		return "", exit.Usagef("PATTERN %w", err)
	}
	return args[0], nil
}
