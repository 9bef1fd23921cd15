package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Version describes this program, as the Go toolchain recorded it in the binary.
type Version struct {
	Version  string `json:"version"`          // semantic, such as 1.2.0; 0.0.0 if unknown
	Commit   string `json:"commit,omitempty"` // with the suffix -dirty if files were changed
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// ReadVersion returns the version of this program.
func ReadVersion() Version {
	v := Version{Version: "0.0.0", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if semantic, ok := strings.CutPrefix(info.Main.Version, "v"); ok { // otherwise "(devel)"
		v.Version = semantic
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if v.Commit != "" && dirty {
		v.Commit += "-dirty"
	}
	return v
}

// NewVersionCommand returns the command that prints the version of a program.
func NewVersionCommand(program string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  " + program + " version --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := ReadVersion()
			if asJSON {
				return JSON(cmd.OutOrStdout(), v)
			}
			commit := cmp.Or(v.Commit, "unknown")
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (commit %s, %s, %s)\n", cmd.Root().Name(), v.Version, commit, v.Go, v.Platform)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
