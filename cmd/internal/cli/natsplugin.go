package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NATSPluginFlag is the only argument with which "nats plugins register" runs a program.
// It is no flag: the standard output and error must contain nothing but the model.
const NATSPluginFlag = "--fisk-introspect"

// pluginModel describes a command for fisk, the command-line library of the nats CLI
// (ApplicationModel and CmdModel there).
type pluginModel struct {
	Name     string        `json:"name"`
	Help     string        `json:"help"`
	HelpLong string        `json:"help_long,omitempty"`
	Aliases  []string      `json:"aliases,omitempty"`
	Args     []pluginValue `json:"args,omitempty"`
	Flags    []pluginValue `json:"flags,omitempty"`
	Commands []pluginModel `json:"commands,omitempty"`
}

type pluginValue struct {
	Name        string `json:"name"`
	Help        string `json:"help"`
	PlaceHolder string `json:"place_holder,omitempty"`
	Short       rune   `json:"short,omitempty"`
	Hidden      bool   `json:"hidden,omitempty"`
	Boolean     bool   `json:"boolean"`
	Cumulative  bool   `json:"cumulative"`
}

// WriteNATSPlugin writes the model of the commands of root, with which the nats CLI offers
// them as its own: "nats stevedore status".
func WriteNATSPlugin(w io.Writer, root *cobra.Command) error { return JSON(w, pluginOf(root)) }

func pluginOf(cmd *cobra.Command) pluginModel {
	m := pluginModel{Name: cmd.Name(), Help: cmd.Short, HelpLong: cmd.Long, Aliases: cmd.Aliases}
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && !strings.Contains(child.Use, " -- ") { // nats drops the "--"
			m.Commands = append(m.Commands, pluginOf(child))
		}
	}
	if len(m.Commands) > 0 {
		return m // nats runs only commands without subcommands, and passes only their own flags
	}
	add := func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		_, list := f.Value.(pflag.SliceValue)
		v := pluginValue{Name: f.Name, Hidden: f.Hidden || topicOf(f) != "", Cumulative: list}
		v.PlaceHolder, v.Help = pflag.UnquoteUsage(f)
		v.Boolean = f.Value.Type() == "bool" && f.DefValue == "false" // nats cannot pass --flag=false of a boolean
		if f.Shorthand != "" {
			v.Short = rune(f.Shorthand[0]) // pflag allows one ASCII character
		}
		m.Flags = append(m.Flags, v)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if _, args, ok := strings.Cut(cmd.Use, " "); ok { // one value: nats passes several in random order
		m.Args = []pluginValue{{Name: "arguments", Help: args, Cumulative: true}}
	}
	return m
}
