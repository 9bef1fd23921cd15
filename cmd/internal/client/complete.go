package client

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
)

// completeTimeout limits a completion: a person waits at the prompt. A busy machine may need seconds.
const completeTimeout = 5 * time.Second

// Names returns the names that complete an argument.
type Names func(ctx context.Context, o *Options, b *bus.Bus) ([]string, error)

// Complete lets shells complete the first argument of the commands that take one. The names come
// from the bus. If the bus is unreachable, there are no suggestions and no errors.
func (o *Options) Complete(names Names, cmds ...*cobra.Command) {
	for _, cmd := range cmds {
		if !strings.Contains(cmd.Use, " ") {
			continue
		}
		o.CompleteArgs(cmd, func(before []string) Names {
			if len(before) > 0 {
				return nil
			}
			return names
		})
	}
}

// CompleteArgs lets shells complete each argument of a command. namesAfter returns the names for the one that
// follows others, or nil.
func (o *Options) CompleteArgs(cmd *cobra.Command, namesAfter func(before []string) Names) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		names, directive := namesAfter(args), cobra.ShellCompDirectiveNoFileComp
		if names == nil {
			return nil, directive
		}
		found := o.complete(cmd, prefix, names)
		if len(found) == 1 && strings.HasSuffix(found[0], "=") { // its value follows
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

// CompleteSession lets shells complete --session of a command.
func (o *Options) CompleteSession(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return o.complete(cmd, prefix, SessionNames), cobra.ShellCompDirectiveNoFileComp
	}) // fails only without the flag
}

// complete asks the bus of a command's flags and settings.
func (o *Options) complete(cmd *cobra.Command, prefix string, names Names) (found []string) {
	if resolve := cmd.Root().PersistentPreRunE; resolve != nil {
		cmd.SetErr(io.Discard)
		if resolve(cmd, nil) != nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	b, err := o.Connect(ctx, "completion", io.Discard)
	if err != nil {
		return nil
	}
	defer b.Close()
	all, err := names(ctx, o, b)
	if err != nil {
		return nil
	}
	for _, name := range all {
		if strings.HasPrefix(name, prefix) && !strings.ContainsAny(name, "\t\r\n") {
			found = append(found, name)
		}
	}
	return found
}

// SessionNames are the default session and those that have a conversation.
func SessionNames(ctx context.Context, _ *Options, b *bus.Bus) (names []string, err error) {
	sessions, err := session.New(b).List(ctx)
	names = append(sessions, tools.DefaultSession)
	slices.Sort(names)
	return slices.Compact(names), err
}

// Listed returns the names that an operation lists: the key of each item.
func Listed[In, Out, Item any](op *rpc.Op[In, Out], items func(Out) []Item, name func(Item) string) Names {
	return func(ctx context.Context, o *Options, b *bus.Bus) (names []string, err error) {
		var in In
		answer, err := Ask(ctx, o, b, op, in)
		if err != nil {
			return nil, err
		}
		for _, item := range items(answer.Out) {
			names = append(names, name(item))
		}
		return names, nil
	}
}
