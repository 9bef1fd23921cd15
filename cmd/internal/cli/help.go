package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A topic is a group of flags that "help TOPIC" explains, instead of the help of each
// command.
type topic struct{ name, short, long string }

// Topics of the flags of several commands.
const (
	TopicConnection = "connection"
	TopicSettings   = "settings"
	TopicModels     = "models"
	TopicOffloading = "offloading"
	TopicShell      = "shell"
	TopicHeartbeat  = "heartbeat"
)

var topics = []topic{
	{TopicConnection, "how to reach the bus: --server, --context, --data, --creds, ...", `Without --server and --context, a command connects to the server that "stevedore up"
runs in the data directory --data. The flags, and the variables in parentheses, are
those of the nats CLI; a context is one of its contexts. If both a server and a
context are set, a flag wins over the environment, and the environment over the
settings file.`},
	{TopicSettings, "settings file, environment, log: --config, --log-level, ...", `Each flag is a setting. The command line wins over the environment, the environment
over the settings file, and the file over the default. The file is YAML and its keys
are the names of the flags; all commands can use the same file. The name of an
environment variable is STEVEDORE_ and the name of the flag in upper case, with _
instead of -: STEVEDORE_LOG_LEVEL.`},
	{TopicModels, "models and agents: --model, --system, --max-turns, ...", `A worker with a model runs agents. Their calls are stored on the queue "agent", and
any free worker runs the tools that they call. Calls of sub-agents are on the queues
agent-1, agent-2, ..., one for each depth.

A SPEC is anthropic:MODEL, openai:MODEL (any server of chat completions, see --base-url)
or script:FILE, a model for tests without an account: each line of FILE is a turn, such as

  {"text":"Let me look.","tools":[{"name":"grep","input":{"pattern":"needle"}}]}
  {"expect":["needle"],"text":"Found it."}`},
	{TopicOffloading, "offloading of results, and their store: --store, --offload-threshold, ...", `A large result is stored as an artifact, and a reference replaces it in the prompt.
An artifact expires when it was not read for --artifact-ttl.`},
	{TopicShell, "the sandbox of the shell tool: --shell-sandbox, --shell-network, ...", `Commands of the shell tool run in a sandbox. They can read the system (/usr and some files
of /etc), and write the workspace, a private HOME and a private TMPDIR. They never see
the real home, the data directory, other processes or the worker's environment, and they
have no network. Git repositories and the settings of editors and agents are read-only;
--shell-write .git opens the repository of the workspace.
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
	writeFlags(&b, cmd)
	b.WriteString(exitCodesHelp)
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// writeFlags writes the command's own flags and the topics of its other flags.
func writeFlags(b *strings.Builder, cmd *cobra.Command) {
	own, used := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError), map[string]bool{}
	for _, child := range cmd.Commands() { // the root lists all topics
		used[child.Name()] = true
	}
	note := func(f *pflag.Flag) {
		if name := topicOf(f); name != "" {
			used[name] = true
		} else if own.Lookup(f.Name) == nil {
			own.AddFlag(f)
		}
	}
	cmd.LocalFlags().VisitAll(note)
	cmd.InheritedFlags().VisitAll(note)
	if own.HasAvailableFlags() {
		fmt.Fprintf(b, "\nFlags:\n%s\n", strings.TrimRight(own.FlagUsagesWrapped(helpWidth), "\n"))
	}
	heading := "\nHelp topics with more flags:\n"
	for _, t := range topics {
		if used[t.name] {
			fmt.Fprintf(b, "%s  %s help %-12s %s\n", heading, cmd.Root().Name(), t.name, t.short)
			heading = ""
		}
	}
}
