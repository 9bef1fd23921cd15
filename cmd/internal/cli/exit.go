package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/bus"
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

// ExitCodesHelp is the help text about exit codes.
const ExitCodesHelp = `Exit codes: 0 ok, 1 failed, 2 usage, 3 the tool returned an error,
4 bus unreachable, 5 not found, 6 timed out or still running.`

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
	if format == "" {
		return &Error{Code: code}
	}
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Run executes a root command and returns its exit code. It writes an error to stderr.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	refuseUnknown(root)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Exit(ExitUsage, "%w; see %s --help", err, cmd.CommandPath())
	})
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if text := strings.TrimSpace(err.Error()); text != "" {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), Printable(stderr, text))
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	switch {
	case errors.Is(err, bus.ErrUnreachable):
		return ExitUnreachable
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "required flag"):
		return ExitUsage
	}
	return ExitFailed
}

// refuseUnknown makes commands that only contain other commands refuse an unknown
// command; cobra would print the help and succeed.
func refuseUnknown(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		refuseUnknown(child)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = Args(cobra.NoArgs)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// Args wraps an argument check of cobra so that its failure is a usage error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case strings.HasPrefix(err.Error(), "unknown command") && cmd.HasSubCommands():
			return Exit(ExitUsage, "unknown command %q; see %s --help", args[0], cmd.CommandPath())
		case strings.HasPrefix(err.Error(), "unknown command"): // the error of cobra.NoArgs
			return Exit(ExitUsage, "unexpected argument %q; usage: %s", args[0], cmd.UseLine())
		}
		return Exit(ExitUsage, "%w; usage: %s", err, cmd.UseLine())
	}
}
