package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The commands and flags of every stevedore command line in the README, in docs and in the
// help texts exist.
func TestDocumentedCommandLines(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "reference.md" }) // made from the help
	for _, file := range append(files, filepath.Join("..", "..", "..", "README.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	var collect func(*cobra.Command)
	collect = func(cmd *cobra.Command) {
		texts[cmd.CommandPath()+" --help"] = cmd.Long + "\n" + cmd.Example
		for _, child := range cmd.Commands() {
			collect(child)
		}
	}
	collect(newRoot())

	checked := 0
	for where, text := range texts {
		for line := range strings.Lines(text) {
			args, ok := commandLine(line)
			if !ok {
				continue
			}
			checked++
			if wrong := refused(newRoot(), args); wrong != "" {
				t.Errorf("%s: %q: %s", where, strings.TrimSpace(line), wrong)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// commandLine returns the arguments of a line that starts with stevedore. Two spaces end the
// command line: an explanation may follow.
func commandLine(line string) ([]string, bool) {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "$ ")
	line = strings.Replace(line, "go run ./cmd/worker", "stevedore", 1)
	line, _, _ = strings.Cut(line, "  ")
	for _, end := range []string{" #", " | ", " < ", " > ", " &"} {
		line, _, _ = strings.Cut(line, end)
	}
	args := strings.Fields(line)
	if len(args) < 2 || args[0] != "stevedore" {
		return nil, false
	}
	return args[1:], true
}

// refused returns the error of a command line, or "". It checks only names, because values
// may be placeholders.
func refused(root *cobra.Command, args []string) string {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return "unknown command " + rest[0]
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range rest {
		if arg == "--" { // the rest is another program's
			break
		}
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch dashes := len(arg) - len(strings.TrimLeft(arg, "-")); {
		case dashes == 2 && name != "" && cmd.Flag(name) == nil && name != "version":
			return "unknown flag --" + name
		case dashes == 1 && len(name) == 1 && cmd.Flags().ShorthandLookup(name) == nil && cmd.InheritedFlags().ShorthandLookup(name) == nil:
			return "unknown flag -" + name
		}
	}
	return ""
}

func TestCommandLineErrorsAreFound(t *testing.T) {
	for _, line := range []string{"stevedore nonsense", "stevedore up --nonsense", "stevedore artifacts nonsense", "stevedore artifacts grep ID x -Z 2"} {
		args, ok := commandLine("  " + line + "   as an example")
		if !ok || refused(newRoot(), args) == "" {
			t.Errorf("%q has no error", line)
		}
	}
}
