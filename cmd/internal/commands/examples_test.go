package commands

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The help of each command has an example of it.
func TestEachCommandHasAnExample(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() && child.Name() != "help" && child.Name() != "completion" {
				check(child)
			}
		}
		if !cmd.HasParent() || cmd.HasSubCommands() && !cmd.Runnable() {
			return
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line) + " "
			if strings.HasPrefix(line, cmd.CommandPath()+" ") && !strings.Contains(line, "[flags]") {
				return
			}
		}
		t.Errorf("the help of %q has no example", cmd.CommandPath())
	}
	check(newRoot())
}

// The help of a command with many flags shows ten, and --help-all shows all.
func TestHelpShowsTheCommonFlags(t *testing.T) {
	for _, command := range []string{"up", "serve", "mcp", "doctor", "demo"} {
		help := func(flag string) string {
			var out bytes.Buffer
			root := newRoot()
			root.SetOut(&out)
			root.SetArgs([]string{command, flag})
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		short, all := help("--help"), help("--help-all")
		_, flags, _ := strings.Cut(short, "\nFlags:\n")
		flags, _, _ = strings.Cut(flags, "\n\n")
		shown := 0
		for line := range strings.Lines(flags) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--"); ok {
				shown++
				if name, _, _ = strings.Cut(name, " "); !strings.Contains(all, "--"+name) {
					t.Errorf("%s --help-all does not show --%s", command, name)
				}
			}
		}
		if shown < 4 || shown > 11 { // with --help-all
			t.Errorf("%s --help shows %d flags:\n%s", command, shown, flags)
		}
		if strings.Contains(flags, "--max-attempts") || !strings.Contains(all, "--max-attempts") || !strings.Contains(all, "--offload-threshold") {
			t.Errorf("%s --help-all does not show the other flags", command)
		}
	}
}
