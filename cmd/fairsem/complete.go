package main

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// A completion runs while the user waits for the key. A server that does not answer yields no candidates and no errors.
const (
	completeLimit = 2 * time.Second
	completeMost  = 300
)

// completeNames offers the names in use for the first argument, and no files for any. The command has the
// flags of connection.
func completeNames(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return gather(cmd, func(ctx context.Context, client *fairsem.Client, offer func(cobra.Completion) bool) {
		for name, err := range client.List(ctx) {
			if err != nil || strings.HasPrefix(name, typed) && text.IsWord(name) && !offer(name) {
				return
			}
		}
	})
}

// completeMore offers names for every argument.
func completeMore(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeNames(cmd, nil, typed)
}

// completeIDs offers names for the first argument, and for the others the ids of holders and waiters of that name, with
// their labels. Any client of the server can choose a name or an id, and the completed line is run with the next key, so only those are
// offered that need no quotes.
func completeIDs(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completeNames(cmd, args, typed)
	}
	fits := func(id string) bool {
		return strings.HasPrefix(id, typed) && text.IsWord(id) && !slices.Contains(args[1:], id)
	}
	return gather(cmd, func(ctx context.Context, client *fairsem.Client, offer func(cobra.Completion) bool) {
		there := client.Inspect(args[0])
		for _, tickets := range []iter.Seq2[fairsem.Ticket, error]{there.Holders(ctx), there.Waiters(ctx)} {
			for t, err := range tickets {
				id := inspect.PlainID(t.ID)
				if err != nil || fits(id) && !offer(cobra.CompletionWithDesc(id, text.Clean(t.Label))) {
					return
				}
			}
		}
	})
}

// completeTenants offers the tenants of the name that is on the line already, of which only those that need no quotes: fairsem run takes a
// tenant as it is.
func completeTenants(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return gather(cmd, func(ctx context.Context, client *fairsem.Client, offer func(cobra.Completion) bool) {
		for t, err := range client.Inspect(args[0]).Tenants(ctx) {
			if err != nil || strings.HasPrefix(t.Name, typed) && text.IsWord(t.Name) && !offer(t.Name) {
				return
			}
		}
	})
}

// completeCommand offers a name for the first of the arguments before a command, nothing for the others, and leaves the
// command with its files to the shell.
func completeCommand(before int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= before {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return completeNames(cmd, args, typed)
	}
}

// gather returns what find offers, until that is enough or has taken too long.
func gather(cmd *cobra.Command, find func(context.Context, *fairsem.Client, func(cobra.Completion) bool)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	found := make(chan cobra.Completion)
	go func() { // ends with ctx, or with the process where a server does not answer
		defer close(found)
		s, err := connectionOf(cmd).open(ctx)
		if err != nil {
			return
		}
		defer s.Close()
		find(ctx, s.Client, func(one cobra.Completion) bool {
			select {
			case found <- one:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	var all []cobra.Completion
	for len(all) < completeMost {
		select {
		case one, more := <-found:
			if !more {
				return all, cobra.ShellCompDirectiveNoFileComp
			}
			all = append(all, one)
		case <-ctx.Done():
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// connectionOf returns the connection that the flags of a command describe so far.
func connectionOf(cmd *cobra.Command) *connection {
	c := &connection{}
	c.redis, _ = cmd.Flags().GetString("redis") // a command without the flag has an empty one
	c.prefix, _ = cmd.Flags().GetString("prefix")
	return c
}

// complete offers tenants for the flag of that name, and keeps the shell from offering files for arguments of a command that takes none,
// and for other flags whose values are none, of cmd and its commands.
func complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	}
	words := []string{"redis", "prefix", "label", "listen", "host"}
	if cmd.Flags().Lookup("tenant") != nil {
		_ = cmd.RegisterFlagCompletionFunc("tenant", completeTenants) // it is there
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() != "string" || slices.Contains(words, f.Name) {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // fails where there is one
		}
	})
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}
