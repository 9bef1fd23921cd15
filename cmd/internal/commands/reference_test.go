package commands

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/reference.md")

// docs/reference.md has the help of all commands and topics. To write it again:
// go test ./cmd/internal/commands -run TestReference -update
func TestReference(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/home/you/.local/share")
	t.Setenv("HOME", "/home/you")
	t.Setenv("COLUMNS", "")
	var page strings.Builder
	page.WriteString("# Reference\n\nThe help of all commands, as `--help` or `--help-all` prints it. A test keeps this page up to date.\n")
	var write func(cmd *cobra.Command, path []string)
	write = func(cmd *cobra.Command, path []string) {
		if cmd.Hidden || cmd.Name() == "help" && len(path) == 0 {
			return
		}
		root, out := newRoot(), new(bytes.Buffer)
		root.SetOut(out)
		help := "--help"
		if cmd.Flags().Lookup("help-all") != nil {
			help = "--help-all"
		}
		root.SetArgs(append(path[:len(path):len(path)], help))
		if err := root.Execute(); err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		text, _, _ := strings.Cut(out.String(), "\nHelp topics with more flags:")
		if len(path) == 0 {
			text = out.String()
		}
		title := "stevedore " + strings.Join(path, " ")
		if cmd.IsAdditionalHelpTopicCommand() {
			title = "stevedore help " + strings.Join(path, " ")
		}
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", strings.TrimSpace(title), strings.TrimSpace(text))
		for _, child := range cmd.Commands() {
			write(child, append(path[:len(path):len(path)], child.Name()))
		}
	}
	write(newRoot(), nil)
	const file = "../../../docs/reference.md"
	if *update {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != page.String() {
		t.Errorf("docs/reference.md is not what the commands print (%v): go test ./cmd/internal/commands -run TestReference -update", err)
	}
}
