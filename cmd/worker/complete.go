package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/tools"
)

// completeTimeout limits a completion: a person waits at the prompt.
const completeTimeout = 1500 * time.Millisecond

// lister returns the names that complete an argument.
type lister func(ctx context.Context, o *client.Options, b *bus.Bus) ([]string, error)

// addCompletions lets shells complete the names of tools, artifacts, calls and sessions. The
// names come from the bus. If the bus is unreachable, there are no suggestions and no errors.
func addCompletions(root *cobra.Command) {
	of := map[string]lister{
		"call": toolNames, "tools show": toolNames, "sessions": sessionNames,
		"artifacts": listed("artifact", "query", "artifacts", "artifact_id"),
		"tasks":     listed("task", "list", "tasks", "id"), "approvals": listed("approval", "list", "approvals", "id"),
	}
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		parent, _, _ := strings.Cut(path, " ")
		list := of[path]
		if _, use, ok := strings.Cut(cmd.Use, " "); list == nil && ok && (strings.HasPrefix(use, "ID") || strings.HasPrefix(use, "SESSION")) {
			list = of[parent]
		}
		if list != nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return complete(cmd, prefix, list)
			}
		}
		if cmd.LocalFlags().Lookup("session") != nil {
			_ = cmd.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
				return complete(cmd, prefix, sessionNames)
			})
		}
		for _, child := range cmd.Commands() {
			add(child)
		}
	}
	add(root)
}

// complete asks the bus of a command's flags and settings.
func complete(cmd *cobra.Command, prefix string, list lister) ([]string, cobra.ShellCompDirective) {
	const nothing = cobra.ShellCompDirectiveNoFileComp
	if resolve := cmd.Root().PersistentPreRunE; resolve != nil {
		cmd.SetErr(io.Discard)
		if resolve(cmd, nil) != nil {
			return nil, nothing
		}
	}
	// The options of the command are not accessible here, so a copy gets their values.
	o, copied := new(client.Options), new(cobra.Command)
	o.AddFlags(copied)
	o.AddSessionFlag(copied, "")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if target := copied.PersistentFlags().Lookup(f.Name); target != nil && f.Changed {
			_ = target.Value.Set(f.Value.String())
		}
	})
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	b, err := o.Connect(ctx, "completion", io.Discard)
	if err != nil {
		return nil, nothing
	}
	defer b.Close()
	names, err := list(ctx, o, b)
	if err != nil {
		return nil, nothing
	}
	var found []string
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !strings.ContainsAny(name, "\t\r\n") {
			found = append(found, name)
		}
	}
	return found, nothing
}

func toolNames(ctx context.Context, o *client.Options, b *bus.Bus) (names []string, err error) {
	body, err := o.Request(ctx, b, b.RPC("tools", "ls"), tools.OfferQuery{})
	if err != nil {
		return nil, err
	}
	var list rpc.ToolList
	err = json.Unmarshal(body, &list)
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names, err
}

func sessionNames(ctx context.Context, _ *client.Options, b *bus.Bus) (names []string, err error) {
	names = []string{tools.DefaultSession}
	sizes, err := session.New(b).List(ctx)
	for _, s := range sizes {
		if s.Session != tools.DefaultSession {
			names = append(names, s.Session)
		}
	}
	return names, err
}

// listed returns a lister of a key of the items of a field in an answer of the service.
func listed(group, function, field, key string) lister {
	return func(ctx context.Context, o *client.Options, b *bus.Bus) (names []string, err error) {
		body, err := o.Ask(ctx, b, group, function, struct{}{})
		if err != nil {
			return nil, err
		}
		var answer map[string]json.RawMessage
		var items []map[string]any
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(answer[field], &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			if name, ok := item[key].(string); ok {
				names = append(names, name)
			}
		}
		return names, nil
	}
}
