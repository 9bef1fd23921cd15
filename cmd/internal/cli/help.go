package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A topic is a group of flags that is explained once, by "help TOPIC", and not
// in the help of each command that has them.
type topic struct{ name, short, long string }

// Topics of the flags that several commands have.
const (
	TopicConnection = "connection"
	TopicSettings   = "settings"
	TopicModels     = "models"
	TopicOffloading = "offloading"
	TopicHeartbeat  = "heartbeat"
)

var topics = []topic{
	{TopicConnection, "where the bus is: --server, --context, --data, --creds, ...", `Without --server and --context a command speaks to the bus that "worker up" runs in
the data directory --data. The flags, and the variables in parentheses, are those
of the nats CLI; a context is one of its contexts. Of a server and a context, the
one that was said last counts: in the settings file, the environment, or a flag.`},
	{TopicSettings, "settings file, environment, log: --config, --log-level, ...", `Each flag is a setting. It comes, in rising order, from its default, the settings
file, the environment and the command line. The file is YAML, and its keys are the
flags' names; one file serves all commands. The environment's names are STEVEDORE_
and the flag's in upper case, with _ for -: STEVEDORE_LOG_LEVEL.`},
	{TopicModels, "models and agents: --model, --system, --max-turns, ...", `A worker that has a model runs agents: their calls wait on the queue "agent", and
the tools that they call run on whichever worker is free.`},
	{TopicOffloading, "what leaves the prompt, and where it is kept: --store, --offload-threshold, ...", `A result that is big is replaced by a reference; what was offloaded is an artifact,
and is kept for --artifact-ttl after it was last read.`},
	{TopicHeartbeat, "the heartbeat: --heartbeat-every, ...", `HEARTBEAT.md in the workspace is a prompt for now and then; see heartbeat --help.`},
}

const topicAnnotation = "stevedore_topic"

// Topic adds the flags that add adds, as those of a topic.
func Topic(flags *pflag.FlagSet, name string, add func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(name, pflag.ContinueOnError)
	add(group)
	group.VisitAll(func(f *pflag.Flag) { setTopic(f, name) })
	flags.AddFlagSet(group)
}

func setTopic(f *pflag.Flag, name string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[topicAnnotation] = []string{name}
}

func topicOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[topicAnnotation], "")
}

// AddHelp makes the help of root and its commands short: the flags of topics
// stand in "help TOPIC". It is called when all commands are there.
func AddHelp(root *cobra.Command) {
	root.SetUsageFunc(usage)
	groups := map[string]*pflag.FlagSet{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		note := func(f *pflag.Flag) {
			if name := topicOf(f); name != "" {
				if groups[name] == nil {
					groups[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
				}
				if groups[name].Lookup(f.Name) == nil {
					groups[name].AddFlag(f)
				}
			}
		}
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(root)
	for _, t := range topics {
		if group := groups[t.name]; group != nil {
			root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: t.long + "\n\n" + strings.TrimRight(group.FlagUsagesWrapped(helpWidth), "\n")})
		}
	}
}

// helpWidth is that of a small terminal.
const helpWidth = 100

// FlagsOf says that a command's flags are those of another one, which explains
// them.
func FlagsOf(cmd, other *cobra.Command) {
	cmd.Flags().AddFlagSet(other.Flags())
	cmd.Annotations = map[string]string{topicAnnotation: other.Name()}
}

func usage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAlso called: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-*s  %s\n", cmd.NamePadding(), child.Name(), child.Short)
			}
		}
	}
	if other := cmd.Annotations[topicAnnotation]; other != "" {
		fmt.Fprintf(&b, "\nWithout a command, the flags are those of %q: see %[2]s %[1]s --help\n", other, cmd.CommandPath())
	}
	writeFlags(&b, cmd)
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// writeFlags writes the flags that are the command's own, and where the others
// are explained.
func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	own, used := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError), map[string]bool{}
	note := func(f *pflag.Flag) {
		if name := topicOf(f); name != "" {
			used[name] = true
		} else if own.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if own.HasAvailableFlags() && cmd.Annotations[topicAnnotation] == "" {
		fmt.Fprintf(b, "\nFlags:\n%s\n", strings.TrimRight(own.FlagUsagesWrapped(helpWidth), "\n"))
	}
	heading := "\nMore flags:\n"
	for _, t := range topics {
		if used[t.name] {
			fmt.Fprintf(b, "%s  %-27s %s\n", heading, cmd.Root().Name()+" help "+t.name, t.short)
			heading = ""
		}
	}
}
