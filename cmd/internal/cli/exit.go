package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Exit codes of all commands.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitToolError   = 3 // the tool returned an error
	ExitUnreachable = 4 // the bus is unreachable
	ExitNotFound    = 5
	ExitPending     = 6 // timed out, or still running
)

// exitCodesHelp ends the help of all commands.
const exitCodesHelp = `
Exit codes: 0 ok, 1 failed, 2 usage, 3 the tool returned an error,
4 bus unreachable, 5 not found, 6 timed out or still running.
`

// Error is an error with an exit code. An empty text prints nothing.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Exit returns an error that ends the command with a code.
func Exit(code int, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// ListenError is the error about an address of a flag on which the process cannot listen.
func ListenError(flag, address string, err error) error {
	host, _, _ := net.SplitHostPort(address)
	return Exit(ExitUsage, "--%s %q: %w; stop the program that uses it, or choose another port: --%s %s picks a free one", flag, address, err, flag,
		net.JoinHostPort(host, "0"))
}

// Run executes a root command and returns its exit code. It writes an error to stderr.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checkCommandLines(root)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		visitFlags(root, func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }) // cobra shows it unchanged
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
			var known []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
			if name := tools.Nearest(unknown.GetSpecifiedName(), known); name != "" {
				err = fmt.Errorf("%w (did you mean --%s?)", err, name)
			}
		}
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = fmt.Errorf("--%s %w", invalid.GetFlag().Name, reason(err))
		}
		return Exit(ExitUsage, "%w; see %s --help", err, cmd.CommandPath())
	})
	cmd, err := root, misusedTopic(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	if err == nil {
		return ExitOK
	}
	if text := strings.TrimSpace(err.Error()); text != "" {
		text = strings.TrimSpace(Indent(tools.Escape(text)))
		if advice := connectionOf(cmd.Flags()).Advice(err); advice != "" {
			text += "\n" + advice
		}
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), text)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, bus.ErrUnreachable):
		return ExitUnreachable
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "if any flags in the group"),
		tools.CodeOf(err) == tools.CodeInvalidArguments:
		return ExitUsage
	}
	return ExitFailed
}

// misusedTopic returns an error if a help topic has arguments, as if it were a command; cobra would print its
// text and succeed.
func misusedTopic(root *cobra.Command, args []string) error {
	topic, rest, err := root.Find(args)
	if err != nil || !topic.IsAdditionalHelpTopicCommand() || len(rest) == 0 || slices.Contains(rest, "--help") || slices.Contains(rest, "-h") {
		return nil
	}
	words := []string{root.Name(), "call"}
	for _, arg := range args {
		words = append(words, ShellWord(arg))
	}
	return Exit(ExitUsage, "%q is a help topic, no command: %s help %[1]s shows it; to call a tool of that name: %[3]s", topic.Name(), root.Name(),
		strings.Join(words, " "))
}

// checkCommandLines makes all commands check their arguments, and "help", and commands that only
// contain other commands, refuse an unknown command; cobra would print the help and succeed.
func checkCommandLines(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		checkCommandLines(child)
	}
	if cmd.Name() == "help" {
		help := cmd.Run
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if found, rest, err := cmd.Root().Find(args); err != nil || len(rest) > 0 {
				hint := ""
				if len(rest) > 0 {
					hint = similarCommand(found, rest[0])
				}
				return Exit(ExitUsage, "unknown help topic %q%s; see %s --help", strings.Join(args, " "), hint, cmd.Root().Name())
			}
			help(cmd, args)
			return nil
		}
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = nil
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.Args == nil && cmd.Name() != "help" {
		cmd.Args = checkArgs
	}
}

// checkArgs compares the arguments with the usage line, such as "update NAME [TOOL [ARGS]]": those
// in brackets may be missing, and ARGS and "..." stand for any number.
func checkArgs(cmd *cobra.Command, args []string) error {
	use, _, _ := strings.Cut(cmd.Use, " --")
	names := strings.Fields(use)[1:]
	required := slices.IndexFunc(names, func(name string) bool { return name[0] == '[' })
	if required < 0 {
		required = len(names)
	}
	switch {
	case len(args) < required:
		return Exit(ExitUsage, "the %s is missing; usage: %s", strings.TrimRight(names[len(args)], "."), cmd.UseLine())
	case len(args) <= len(names), strings.Contains(cmd.Use, "ARGS"), strings.Contains(cmd.Use, "..."):
		return nil
	case cmd.HasSubCommands():
		return Exit(ExitUsage, "unknown command %q%s; see %s --help", args[0], similarCommand(cmd, args[0]), cmd.CommandPath())
	}
	return Exit(ExitUsage, "unexpected argument %q; usage: %s", args[len(names)], cmd.UseLine())
}

// similarCommand returns the hint at the child of cmd that is most likely meant by name, or "".
func similarCommand(cmd *cobra.Command, name string) string {
	var known []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() || child.IsAdditionalHelpTopicCommand() {
			known = append(known, child.Name())
		}
	}
	if !cmd.HasParent() {
		known = append(known, "help") // cobra does not list it
	}
	return tools.DidYouMean(name, known)
}
