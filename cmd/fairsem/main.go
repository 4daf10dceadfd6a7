// Command fairsem shares limits between processes from the command line. `fairsem help` says how.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

func execute(args []string, stdout file, stderr io.Writer) int {
	// go-redis would write into the view. Its calls return the errors that matter.
	logging.Disable()
	ctx, stop := exit.OnSignal()
	defer stop()
	root := newRoot()
	strictHelp(root)
	root.SetArgs(args)
	out := &output{file: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	err = out.orFailed(err)
	code := report(stderr, cmd.CommandPath(), err)
	exit.Interrupted(err)
	return code
}

// report writes one line about the error to stderr, and returns the exit code. Errors that have no
// code are cobra's own, about the command line.
func report(stderr io.Writer, command string, err error) int {
	if stop, is := errors.AsType[exit.Signal](err); is {
		return stop.Code()
	}
	if err == nil {
		return 0
	}
	code, hint := exit.Usage, fmt.Sprintf("; see '%s --help'", command)
	var coded *exit.Error
	switch {
	case !errors.As(err, &coded):
	case coded.Err == nil:
		return coded.Code
	case coded.Code != exit.Usage:
		code, hint = coded.Code, ""
	}
	// Servers choose their words themselves, and a URL in the wrong place has a password.
	said := text.Clean(lineEnds.ReplaceAllString(strings.TrimSpace(strings.TrimPrefix(err.Error(), "fairsem: ")), " "))
	if code == exit.Usage {
		said = text.WithoutPasswords(said)
	}
	_, _ = fmt.Fprintf(stderr, "fairsem: %s%s\n", said, hint) // an error cannot be reported anywhere
	return code
}

// lineEnds matches the space between two lines of a text: a suggestion of cobra has several.
var lineEnds = regexp.MustCompile(`\s*\n\s*`)
