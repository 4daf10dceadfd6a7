package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/manual"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "fairsem",
		Short: "Share a limit fairly between processes, on Redis",
		Long: `fairsem limits how many units of something are in use at once, in all processes and
on all machines together. Grants are first come, first served, and the units of a
process that died are granted to others when its lease ends. Redis stores the state.`,
		Example: `  # watch it at work: seven processes, an embedded server, ten seconds
  fairsem demo

  # the server for the following commands
  export REDIS_URL=redis://localhost:6379

  # at most two of these at once, on all machines together
  fairsem run staging --limit 2 -- ./integration-tests.sh

  # holders, waiters, and a check of the server
  fairsem show staging
  fairsem doctor`,
		Version:       buildInfo(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = refuseURL
	root.SetFlagErrorFunc(wrongFlag(asArgument))
	root.SetVersionTemplate("fairsem {{.Version}}\n")
	addGroup(root, "To share a limit:", newRun(), newLimit())
	addGroup(root, "To inspect:", newLs(), newShow(), newTop(), newServe(), newDoctor())
	addGroup(root, "To change what is shared:", newResize(), newPause(), newResume(), newEvict())
	addGroup(root, "To get to know it:", newDemo(), newMan(), newCompletion(), newVersion())
	root.SetHelpCommandGroupID("To get to know it:")
	root.AddCommand(newDemoWorker())
	root.AddCommand(manual.Topics()...)
	return root
}

// addGroup adds commands that help lists under one title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
		complete(cmd)
		root.AddCommand(cmd)
	}
}

// refuseURL refuses the address of a server in the place of a name, of which errors and tables would show the password.
func refuseURL(cmd *cobra.Command, args []string) error {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		args = args[:n]
	}
	for _, arg := range args {
		if _, err := dial.Parse(arg); err == nil && !strings.HasPrefix(cmd.Name(), "__") { // those complete a whole command line
			return exit.Usagef("%q is the address of a server: give it with --redis", arg)
		}
	}
	return nil
}

// asArgument is the advice for commands without an own one.
const asArgument = `to pass it as an argument, put it after "--"`

// wrongFlag returns a function that explains a wrong flag. advice says how to pass an argument that begins with - and is no flag.
func wrongFlag(advice string) func(*cobra.Command, error) error {
	return func(_ *cobra.Command, err error) error {
		if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
			if len(unknown.GetSpecifiedShortnames()) > 1 { // the rest may have a password
				return exit.Usagef("unknown shorthand flag: %q (flags of several letters begin with two dashes; %s)", unknown.GetSpecifiedName(), advice)
			}
			return exit.Usagef("%w (%s)", err, advice)
		}
		if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
			if wants := typeErrors[invalid.GetFlag().Value.Type()]; wants != "" {
				return exit.Usagef("--%s %q is %s", invalid.GetFlag().Name, invalid.GetValue(), wants)
			}
		}
		return err
	}
}

// typeErrors explains, by the type of a flag, why a value is invalid.
var typeErrors = map[string]string{
	"bool":     "not true or false",
	"int":      "not a whole number, or too large",
	"string":   "empty: leave the flag out, or give it a value",
	"duration": "not a length of time: give a number and a unit, such as 30s or 5m",
}

// strictHelp makes the help command, which is cobra's own, refuse unknown commands.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // it is there
	help.Args = func(_ *cobra.Command, args []string) error {
		if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
			return exit.Usagef("unknown command %q", strings.Join(args, " "))
		}
		return nil
	}
}

// ownFailure runs the steps up to the first error. An error without an exit code gets that of a failure of the command
// itself.
func ownFailure(steps ...func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		var err error
		for i := 0; i < len(steps) && err == nil; i++ {
			err = steps[i](cmd)
		}
		var coded *exit.Error
		var stop exit.Signal
		if err == nil || errors.As(err, &coded) || errors.As(err, &stop) {
			return err
		}
		return &exit.Error{Code: exit.Failure, Err: err}
	}
}

// version returns the version of the module; "(devel)" for a build that is no release.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// buildInfo is the version, the revision and the toolchain.
func buildInfo() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown build)"
	}
	version := version()
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " revision " + s.Value
		}
	}
	return fmt.Sprintf("%s %s %s/%s", version, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
