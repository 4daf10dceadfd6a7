package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// confirming is a command that asks before it changes something.
type confirming struct {
	connection connection
	yes        bool
	json       bool
}

// howConfirmed is the part of the help that these commands share.
const howConfirmed = `Shows what it will do and the present state, and asks. --yes does not ask, and is
needed where there is no terminal. With --json the result is one object: changed,
and before and after, as in fairsem ls --json.`

func (c *confirming) flags(cmd *cobra.Command) {
	c.connection.writerFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&c.json, "json", false, "write the result as JSON")
}

// change connects and calls do, which changes the name. It fails first if it has to ask and there is no terminal.
func (c *confirming) change(cmd *cobra.Command, name string, do func(context.Context, change.Target) error) error {
	ctx, notify := cmd.Context(), cmd.ErrOrStderr()
	width, terminal := screen.Width(notify)
	if !c.yes && (!terminal || !screen.Keyboard()) {
		return exit.Usagef("there is no terminal to ask on: give --yes to %s %q without a question", cmd.Name(), name)
	}
	s, err := c.connection.open(ctx, name)
	if err != nil {
		return err
	}
	defer s.Close()
	target := change.Target{
		Client: s.Client, Name: name, JSON: c.json, Out: cmd.OutOrStdout(),
		Messages: screen.Writer(notify), Width: width,
	}
	if !c.yes {
		target.Ask = ask
	}
	return exit.WithSignal(ctx, s.Server.WithAddress(refused(cmd, name, do(ctx, target))))
}

// ask reads an answer from the terminal. The end of the input is a no.
func ask(ctx context.Context) (bool, error) {
	_, _ = fmt.Fprint(os.Stderr, "Go on? [y/N] ") // if it cannot be written, the answer will not be yes
	answers := make(chan string, 1)
	go func() { // ends with a line or with the process; waited for below unless ctx ends
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case line := <-answers:
		if !strings.HasSuffix(line, "\n") {
			_, _ = fmt.Fprintln(os.Stderr)
		}
		answer := strings.ToLower(strings.TrimSpace(line))
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		_, _ = fmt.Fprintln(os.Stderr) // behind the question
		return false, context.Cause(ctx)
	}
}

// refused gives the exit code to errors that report a refusal.
func refused(cmd *cobra.Command, name string, err error) error {
	switch {
	case errors.Is(err, change.ErrUnknown) && cmd.Flags().Lookup("new") != nil:
		return unknown(name, fmt.Sprintf(", and with --new it can be %sd all the same", cmd.Name()))
	case errors.Is(err, change.ErrUnknown):
		return unknown(name, "")
	case errors.Is(err, change.ErrDeclined), errors.Is(err, change.ErrNoMatch), errors.Is(err, change.ErrResumed):
		return &exit.Error{Code: exit.No, Err: err}
	case errors.Is(err, change.ErrInUse):
		return &exit.Error{Code: exit.NotAcquired, Err: err}
	}
	return err
}
