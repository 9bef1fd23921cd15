package commands

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/client"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
)

const mcpStatusHelp = `Show the MCP servers of all hosts on this computer, in the files of your home directory and of
this directory, and which of them "stevedore mcp install" wrapped; (shell) is the adapter for the
shell of the host. It changes nothing.

The exit code is 1 if the program of a wrapped server or of an adapter does not exist any more.

  stevedore mcp status --json`

// hostServer is one line of mcp status.
type hostServer struct {
	Host    string `json:"host"`
	Scope   string `json:"scope"`
	File    string `json:"file"`
	Project string `json:"project,omitempty"`
	Server  string `json:"server,omitempty"`
	State   string `json:"state"` // wrapped, not wrapped, left alone, broken, or not understood; of (shell), see adapterState
	Reason  string `json:"reason,omitempty"`
	Fix     string `json:"fix,omitempty"` // what to do, if something is broken or outdated
}

func newMCPStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the MCP servers of all hosts and which of them are wrapped",
		Long:  mcpStatusHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			machine, err := thisMachine()
			if err != nil {
				return err
			}
			return printHostServers(cmd.OutOrStdout(), hostServers(machine), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per server")
	return cmd
}

func hostServers(m hosts.Machine) (all []hostServer) {
	program, _ := wrapProgram(false) // a temporary program has installed nothing
	for _, h := range hosts.All {
		if files, err := adapterFiles(h, m, program); err == nil && files != nil {
			if state, err := stateOfAdapter(files); err != nil || state != adapterMissing {
				line := hostServer{Host: h.Name, Scope: hosts.User, File: files[0].path, Server: shellServer, State: state.String()}
				line.describeAdapter(state, files)
				all = append(all, line)
			}
		}
		for _, scope := range []string{hosts.User, hosts.Project} {
			for _, l := range h.Locations(m, scope) {
				all = append(all, serversOf(l)...)
			}
		}
	}
	return all
}

func serversOf(l hosts.Location) (all []hostServer) {
	servers, err := l.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	line := hostServer{Host: l.Host().Name, Scope: l.Scope, File: l.Path}
	if err != nil {
		line.State, line.Reason = "not understood", err.Error()
		return []hostServer{line}
	}
	for _, s := range servers {
		line.describe(s)
		all = append(all, line)
	}
	return all
}

func (line *hostServer) describe(s hosts.Server) {
	line.Server, line.Project, line.Reason, line.Fix = s.Name, s.Project, s.Left, ""
	switch {
	case s.Left != "":
		line.State = "left alone"
	case !s.Wrapped:
		line.State = "not wrapped"
	default:
		line.State = "wrapped"
		place := " " + line.Host + " " + cli.ShellWord(s.Name)
		if line.Scope == hosts.Project {
			place += " --scope project"
		}
		// One that was wrapped by hand, or is recorded in another --data, counts as wrapped already until it is unwrapped.
		line.findProgram(s.Command[0], fmt.Sprintf("run %q, then %q", "stevedore mcp uninstall"+place, "stevedore mcp install"+place))
	}
}

func (line *hostServer) describeAdapter(state adapterState, files []adapterFile) {
	install := fmt.Sprintf("run %q", "stevedore mcp install "+line.Host)
	if state == adapterOutdated {
		line.Fix = install
	}
	if program := programOf(files); state == adapterSimilar && program != "" {
		line.findProgram(program, install)
	}
}

// findProgram says that the line is broken if the program that it calls does not exist.
func (line *hostServer) findProgram(program, fix string) {
	if _, err := exec.LookPath(program); err != nil && !errors.Is(err, exec.ErrDot) {
		line.State, line.Reason, line.Fix = "broken", "the program "+program+" does not exist", fix
	}
}

func printHostServers(out io.Writer, servers []hostServer, asJSON bool) error {
	broken := 0
	err := client.PrintList(asJSON, out, servers, "No MCP servers of a known host were found.", []string{"host", "scope", "server", "state", "file"},
		func(s hostServer) []any {
			return []any{s.Host, s.Scope, serverTitle(s.Server, s.Project), strings.TrimSuffix(s.State+": "+s.Reason, ": "), s.File}
		})
	for _, s := range servers {
		if s.State == "broken" {
			broken++
		}
		if s.Fix != "" && !asJSON && err == nil {
			err = cli.Line(out, "For %s of %s: %s", s.Server, s.Host, s.Fix)
		}
	}
	if err == nil && broken > 0 {
		return cli.Exit(cli.ExitFailed, "wrapped servers and adapters whose program does not exist: %d", broken)
	}
	return err
}
