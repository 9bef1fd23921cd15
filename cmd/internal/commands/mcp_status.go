package commands

import (
	"errors"
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

The exit code is 1 if the program of a wrapped server does not exist any more.

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
				all = append(all, hostServer{Host: h.Name, Scope: hosts.User, File: files[0].path, Server: shellServer, State: state.String()})
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
		line.Server, line.Project = s.Name, s.Project
		line.State, line.Reason = stateOf(s)
		all = append(all, line)
	}
	return all
}

func stateOf(s hosts.Server) (state, reason string) {
	switch {
	case s.Left != "":
		return "left alone", s.Left
	case !s.Wrapped:
		return "not wrapped", ""
	}
	if _, err := exec.LookPath(s.Command[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		return "broken", "the program " + s.Command[0] + " does not exist; install it again"
	}
	return "wrapped", ""
}

func printHostServers(out io.Writer, servers []hostServer, asJSON bool) error {
	broken := 0
	for _, s := range servers {
		if s.State == "broken" {
			broken++
		}
	}
	err := client.PrintList(asJSON, out, servers, "No MCP servers of a known host were found.", []string{"host", "scope", "server", "state", "file"},
		func(s hostServer) []any {
			return []any{s.Host, s.Scope, serverTitle(s.Server, s.Project), strings.TrimSuffix(s.State+": "+s.Reason, ": "), s.File}
		})
	if err == nil && broken > 0 {
		return cli.Exit(cli.ExitFailed, "wrapped servers whose program does not exist: %d", broken)
	}
	return err
}
