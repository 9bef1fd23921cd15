package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// The examples of a command come from the help of its parents; one that both have is shown once, with its description.
func TestExamplesOfParents(t *testing.T) {
	root := &cobra.Command{Use: "stevedore", Long: "Tools.\n\n  stevedore tools ls            all\n  stevedore tools ls --wide     more columns\n  stevedore up\n"}
	tools := &cobra.Command{Use: "tools", Long: "Show tools.\n\n  stevedore tools ls\n  stevedore tools lsof\n"}
	ls := &cobra.Command{Use: "ls"}
	tools.AddCommand(ls)
	root.AddCommand(tools)
	if got, want := examplesOf(ls), "  stevedore tools ls            all\n  stevedore tools ls --wide     more columns"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
