package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A topic is a group of flags that "help TOPIC" explains, instead of the help of each
// command.
type topic struct{ name, short, long string }

// Topics of the flags of several commands.
const (
	topicConnection = "connection"
	topicSettings   = "settings"
	topicModels     = "models"
	TopicOffloading = "offloading"
	topicShell      = "shell"
	TopicHeartbeat  = "heartbeat"
)

var topics = []topic{
	{topicConnection, "how to reach the bus: --server, --context, --data, --creds, ...", `Without --server and --context, a command connects to the server that "stevedore up"
runs in the data directory --data. The flags, and the variables in parentheses, are
those of the nats CLI; a context is one of its contexts. If both a server and a
context are set, a flag wins over the environment, and the environment over the
settings file.`},
	{topicSettings, "settings file, environment, log: --config, --log-level, ...", `Each flag is a setting. The command line wins over the environment, the environment
over the settings file, and the file over the default. The file is YAML and its keys
are the names of the flags; all commands can use the same file. The name of an
environment variable is STEVEDORE_ and the name of the flag in upper case, with _
instead of -: STEVEDORE_LOG_LEVEL.`},
	{topicModels, "models and agents: --model, --system, --max-turns, ...", `A worker with a model runs agents. Their calls are stored on the queue "agent", and
any free worker runs the tools that they call. Calls of sub-agents are on the queues
agent-1, agent-2, ..., one for each depth.

Repeat --model to add models: the first is the default, and calls choose others by their spec.
SPEC,SPEC is a model and the one that answers while it is down; it is tried again each minute.
With models of both providers, --base-url and --api-key-file are anthropic=VALUE or
openai=VALUE. A price has no currency: openai:gpt=2.5,10. A budget needs the prices of all
models. With --memory owner, all sessions share the notes, but each chat that users write from
has its own.

A SPEC is anthropic:MODEL, openai:MODEL (any server of chat completions, see --base-url)
or script:FILE, a model for tests without an account: each line of FILE is a turn, such as

  {"text":"Let me look.","tools":[{"name":"grep","input":{"pattern":"needle"}}]}
  {"expect":["needle"],"text":"Found it."}`},
	{TopicOffloading, "offloading of results, and their store: --store, --offload-threshold, ...", `A large result is stored as an artifact, and a reference replaces it in the prompt.
An artifact expires when it was not read for --artifact-ttl.`},
	{topicShell, "the sandbox of the shell tool: --shell-sandbox, --shell-network, ...", `Commands of the shell tool run in a sandbox. They can read the system (/usr and some files
of /etc), and write the workspace, a private HOME and a private TMPDIR. They never see
the real home, the data directory, other processes or the worker's environment, and they
have no network. With --shell-sandbox required, shell refuses commands if the system cannot
confine them; with besteffort, they run with the protection that there is. Git repositories
and the settings of editors and agents are read-only; --shell-write .git opens the repository
of the workspace.
HOME keeps the caches of tools; each session has its own TMPDIR.

On Linux the sandbox needs Landlock (Linux 5.13), and, as root, user namespaces. On macOS
it is sandbox-exec. Windows has none: a job object only ends the processes of a command.`},
	{TopicHeartbeat, "the heartbeat: --heartbeat-every, ...", `HEARTBEAT.md in the workspace is the prompt of a regular call; see stevedore-heartbeat --help.`},
}

const topicAnnotation = "stevedore_topic"

func topicOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[topicAnnotation], "")
}

// AddHelp adds "help TOPIC" to root and removes the flags of topics from the other
// help texts. Call it after adding all commands.
func AddHelp(root *cobra.Command) {
	root.SetUsageFunc(usage)
	groups := map[string]*pflag.FlagSet{}
	visitFlags(root, func(f *pflag.Flag) {
		if list, ok := f.Value.(pflag.SliceValue); ok && len(list.GetSlice()) > 0 {
			f.DefValue = strings.Join(list.GetSlice(), ",") // pflag shows "[a b]"
		}
		if name := topicOf(f); name != "" {
			if groups[name] == nil {
				groups[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			}
			if groups[name].Lookup(f.Name) == nil {
				groups[name].AddFlag(f)
			}
		}
	})
	for _, t := range topics {
		if group := groups[t.name]; group != nil {
			root.AddCommand(&cobra.Command{Use: t.name, Short: t.short, Long: t.long + "\n\n" + strings.TrimRight(group.FlagUsagesWrapped(helpWidth), "\n")})
		}
	}
}

// helpWidth is the width of help texts, in characters.
const helpWidth = 100

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
		fmt.Fprintf(&b, "\nAliases: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if examples := examplesOf(cmd); examples != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", examples)
	}
	writeCommands(&b, cmd)
	writeFlags(&b, cmd)
	b.WriteString(exitCodesHelp)
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// examplesOf returns the examples of a command. Those in the help of its parents are shown, too, if
// it has none.
func examplesOf(cmd *cobra.Command) string {
	path := cmd.CommandPath()
	examples := strings.TrimRight(cmd.Example, "\n")
	if examples != "" || strings.Contains(cmd.Long, path) {
		return examples
	}
	var lines []string
	shown := map[string]int{} // the line of an example, without its description
	for parent := cmd.Parent(); parent != nil; parent = parent.Parent() {
		for line := range strings.Lines(parent.Long + "\n" + parent.Example) {
			line = strings.TrimSpace(line)
			example, _, _ := strings.Cut(line, "  ")
			if example != path && !strings.HasPrefix(example, path+" ") {
				continue
			}
			if at, ok := shown[example]; !ok {
				shown[example], lines = len(lines), append(lines, "  "+line)
			} else if lines[at] == "  "+example {
				lines[at] = "  " + line
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Group assigns commands to a group of the help of root.
func Group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = title
	}
	root.AddCommand(commands...)
}

// writeCommands writes the children of a command, by groups; those without one are the last.
func writeCommands(b *strings.Builder, cmd *cobra.Command) {
	groups := append(cmd.Groups(), &cobra.Group{Title: "Commands"})
	if len(groups) > 1 {
		groups[len(groups)-1].Title = "More commands"
	}
	for _, group := range groups {
		heading := "\n" + group.Title + ":\n"
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() && child.GroupID == group.ID {
				fmt.Fprintf(b, "%s  %-*s  %s\n", heading, cmd.NamePadding(), child.Name(), child.Short)
				heading = ""
			}
		}
	}
}

const helpAll = "help-all"

// commonAnnotation has the names of the flags that the help of a command shows.
const commonAnnotation = "stevedore_common"

// CommonFlags makes the help of a command with many flags show only some of them, and adds
// --help-all, which shows all.
func CommonFlags(cmd *cobra.Command, names ...string) {
	cmd.Annotations = map[string]string{commonAnnotation: strings.Join(names, ",")}
	cmd.Flags().BoolFunc(helpAll, "help with all flags", func(string) error { return cmd.Flags().Set("help", "true") })
}

// writeFlags writes the command's own flags and the topics of its other flags.
func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	own, byTopic := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError), map[string]*pflag.FlagSet{}
	for _, child := range cmd.Commands() { // the root lists all topics
		byTopic[child.Name()] = pflag.NewFlagSet(child.Name(), pflag.ContinueOnError)
	}
	common := strings.Split(cmd.Annotations[commonAnnotation], ",")
	all := cmd.Flags().Changed(helpAll)
	few := len(common) > 1 && !all
	note := func(f *pflag.Flag) {
		name, to := topicOf(f), own
		if name != "" {
			if byTopic[name] == nil {
				byTopic[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			}
			to = byTopic[name]
		}
		if few && slices.Contains(common, f.Name) {
			to = own
		} else if few && to == own && f.Name != "help" && f.Name != helpAll {
			return
		}
		if to.Lookup(f.Name) == nil {
			to.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if own.HasAvailableFlags() {
		fmt.Fprintf(b, "\nFlags:\n%s\n", strings.TrimRight(own.FlagUsagesWrapped(helpWidth), "\n"))
	}
	if few {
		fmt.Fprintf(b, "\n%s --help-all shows all flags.\n", cmd.CommandPath())
	}
	heading := "\nHelp topics with more flags:\n"
	for _, t := range topics {
		if byTopic[t.name] == nil {
			continue
		}
		fmt.Fprintf(b, "%s  %s help %-12s %s\n", heading, cmd.Root().Name(), t.name, t.short)
		heading = ""
		if all {
			fmt.Fprintf(b, "%s\n\n", strings.TrimRight(byTopic[t.name].FlagUsagesWrapped(helpWidth), "\n"))
		}
	}
}
