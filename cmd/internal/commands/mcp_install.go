package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/hosts"
	"github.com/stevedore-bus/stevedore/tools"
)

const mcpInstallHelp = `Put "stevedore mcp wrap --" before the commands of the MCP servers that a host already has,
all or those that you name. Comments, order and indentation of its configuration stay.

Hosts: %s.

Quit the host before, because one that runs may write its old configuration again.

The scope user means the files in your home directory; for Claude Code, these include the
servers that you added for a single project. The scope project means the file in this
directory, which is often shared with others, who then need Stevedore, too.

If you name no servers, the scope user of Claude Code, Codex, Gemini CLI, opencode and Pi also
gets the adapter that shortens the output of the host's own shell ("stevedore hook"), as files in
the directory of the host; --shell=false leaves it out.

If no server was wrapped, the exit code is 5, also if the adapter was installed.

Servers that are wrapped already, and servers at a URL, are left alone. A configuration
that Stevedore does not understand is left alone as a whole. The original is stored in
--data, readable for you only, because configurations contain secrets.

  stevedore mcp install claude-code
  stevedore mcp install codex files github --dry-run
  stevedore mcp install vscode --scope project
  stevedore mcp uninstall claude-code`

const mcpUninstallHelp = `Take "stevedore mcp wrap --" away from the commands of the MCP servers of a host, all or those
that you name. If nobody changed the file after the installation, it gets the bytes that it
had before. Otherwise only what "stevedore mcp install" wrote is taken away. A server that was
wrapped by hand is unwrapped if you name it. Without names, the adapter for the shell of the host
is removed, too.

Hosts: %s.

  stevedore mcp uninstall claude-code
  stevedore mcp uninstall codex files`

type mcpInstallOptions struct {
	connection cli.Connection
	Scope      string `flag:"scope" default:"user" oneof:"user,project" unit:"user or project" help:"user or project: the files of your home or of this directory"`
	Shell      bool   `flag:"shell" default:"true" help:"without SERVERs, also the adapter for the output of the host's shell"`
	DryRun     bool   `flag:"dry-run" help:"print what would change, and change nothing"`
	JSON       bool   `flag:"json" help:"print one JSON object per server"`
}

func newMCPInstallCommand() *cobra.Command {
	return newMCPChangeCommand("install HOST [SERVER...]", "Wrap the MCP servers that a host already has", mcpInstallHelp, true)
}

func newMCPUninstallCommand() *cobra.Command {
	return newMCPChangeCommand("uninstall HOST [SERVER...]", "Unwrap the MCP servers of a host", mcpUninstallHelp, false)
}

func newMCPChangeCommand(use, short, long string, install bool) *cobra.Command {
	var o mcpInstallOptions
	cmd := &cobra.Command{
		Use: use, Short: short, Long: fmt.Sprintf(long, strings.Join(hostNames(), ", ")),
		ValidArgs: hostNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			host, err := findHost(args[0])
			if err != nil {
				return err
			}
			change := hosts.Change{Names: args[1:], DryRun: o.DryRun, Backups: filepath.Join(o.connection.Data, "mcp-install")}
			if install {
				if change.Prefix, err = wrapPrefix(host, o, cmd.Flags().Changed("data")); err != nil {
					return err
				}
			}
			return changeHost(cmd.Context(), host, o, change, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	o.connection.AddDataFlag(flags, "the original configurations; with a DIR of your own, the wrapped servers use it, too")
	cli.AddOptions(flags, &o)
	return cmd
}

func hostNames() (names []string) {
	for _, h := range hosts.All {
		names = append(names, h.Name)
	}
	return names
}

func findHost(name string) (*hosts.Host, error) {
	if h := hosts.Find(name); h != nil {
		return h, nil
	}
	return nil, cli.Exit(cli.ExitUsage, "unknown host %q%s; want one of %s", name, tools.DidYouMean(name, hostNames()), strings.Join(hostNames(), ", "))
}

func thisMachine() (m hosts.Machine, err error) {
	m = hosts.Machine{OS: runtime.GOOS, Getenv: os.Getenv}
	if m.Home, err = os.UserHomeDir(); err != nil {
		return m, err
	}
	m.Dir, err = os.Getwd()
	return m, err
}

// wrapPrefix returns what comes before the command of a server.
func wrapPrefix(host *hosts.Host, o mcpInstallOptions, ownData bool) ([]string, error) {
	program, err := wrapProgram(host.Desktop && o.Scope == hosts.User)
	if err != nil {
		return nil, err
	}
	prefix := []string{program, "mcp", "wrap"}
	if ownData {
		data, err := filepath.Abs(o.connection.Data)
		if err != nil {
			return nil, err
		}
		prefix = append(prefix, "--data", data)
	}
	return append(prefix, "--"), nil
}

// wrapProgram returns how a host starts this program: by its name, if the PATH leads to it,
// and otherwise by its path. The PATH of the desktop is not that of this process.
func wrapProgram(desktop bool) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "", cli.Exit(cli.ExitUsage, "this program is temporary, because `go run` built it; build it with `make install` first")
	}
	found, err := exec.LookPath("stevedore")
	if err != nil || !sameFile(found, self) {
		return self, nil
	}
	if desktop {
		return filepath.Abs(found)
	}
	return "stevedore", nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// changedServer is one line of the output of install and uninstall.
type changedServer struct {
	Host    string `json:"host"`
	File    string `json:"file"`
	Project string `json:"project,omitempty"`
	Server  string `json:"server"`
	Changed bool   `json:"changed"`
	// Restored tells that the file has the bytes that it had before the installation.
	Restored bool   `json:"restored,omitempty"`
	Reason   string `json:"reason,omitempty"` // why it was not changed
}

func changeHost(ctx context.Context, host *hosts.Host, o mcpInstallOptions, c hosts.Change, out, stderr io.Writer) error {
	machine, err := thisMachine()
	if err != nil {
		return err
	}
	locations := host.Locations(machine, o.Scope)
	missing := "" // the directory of the host, before the adapter makes it
	if home, _ := host.Adapter(machine); home != "" {
		if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
			missing = home
		}
	}
	failed, changed, wrapped := 0, false, false
	var adapter []adapterFile
	if o.Shell && o.Scope == hosts.User && len(c.Names) == 0 {
		program, flags := "", []string(nil)
		if c.Prefix != nil {
			program, flags = c.Prefix[0], c.Prefix[3:len(c.Prefix)-1] // it is PROGRAM mcp wrap FLAGS --
		}
		if adapter, err = adapterFiles(host, machine, program, flags...); err != nil {
			return err
		}
	}
	if err := checkNames(host, locations, c.Names); err != nil && adapter == nil {
		return err
	}
	if adapter != nil {
		line, err := changeAdapter(adapter, c.Prefix != nil, o.DryRun)
		if err != nil {
			failed++
			_ = cli.Line(stderr, "the adapter for the shell of %s cannot be changed: %v", host.Title, err)
		} else if err := printAdapter(out, host, c, line, o.JSON); err != nil {
			return err
		}
		changed = line.Changed
	}
	for _, l := range locations {
		outcomes, err := l.Apply(ctx, c)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			failed++
			_ = cli.Line(stderr, "%s was left alone: %v", l.Path, err)
			continue
		}
		if err := printOutcomes(out, l, c, outcomes, o.JSON); err != nil {
			return err
		}
		changed = changed || slices.ContainsFunc(outcomes, func(o hosts.Outcome) bool { return o.Changed })
		wrapped = wrapped || slices.ContainsFunc(outcomes, func(o hosts.Outcome) bool { return o.Changed || o.Why == hosts.WrappedAlready })
	}
	if failed > 0 {
		return cli.Exit(cli.ExitFailed, "%d of the files of %s could not be changed", failed, host.Title)
	}
	if changed && !o.JSON && !o.DryRun {
		fmt.Fprintf(out, "Start %s again, so that it reads its configuration.\n", host.Title)
	}
	if c.Prefix != nil && !wrapped && len(locations) > 0 {
		return noServer(&o.connection, host, locations, missing, host.Locations(machine, hosts.Project))
	}
	return nil
}

// noServer is the error of an installation that wrapped no server.
func noServer(c *cli.Connection, host *hosts.Host, locations []hosts.Location, missing string, project []hosts.Location) error {
	var paths []string
	for _, l := range locations {
		paths = append(paths, l.Path)
	}
	hint := ""
	if missing != "" {
		hint = fmt.Sprintf("; there was no %s: is %s installed?", missing, host.Title)
	}
	for _, l := range project {
		if _, err := os.Stat(l.Path); err == nil && !slices.Contains(paths, l.Path) {
			hint = fmt.Sprintf("; for the servers in %s: %s", l.Path, c.Command("mcp", "install", host.Name, "--scope", "project"))
		}
	}
	return cli.Exit(cli.ExitNotFound, "no MCP server was wrapped: %s has none that can be, in %s; add one, then run again: %s%s",
		host.Title, strings.Join(paths, " or "), c.Command("mcp", "install", host.Name), hint)
}

// checkNames refuses names that no file has, before anything is changed, and a host without
// a file. A file that cannot be read may have any name.
func checkNames(host *hosts.Host, locations []hosts.Location, names []string) error {
	var paths, known []string
	found, unreadable := false, false
	for _, l := range locations {
		paths = append(paths, l.Path)
		servers, err := l.Read()
		found = found || !errors.Is(err, fs.ErrNotExist)
		unreadable = unreadable || err != nil && !errors.Is(err, fs.ErrNotExist)
		for _, s := range servers {
			known = append(known, s.Name)
		}
	}
	switch {
	case len(paths) == 0:
		return cli.Exit(cli.ExitUsage, "%s has no configuration of this scope", host.Title)
	case !found:
		return cli.Exit(cli.ExitNotFound, "no configuration of %s; its place is %s; add an MCP server there first", host.Title, strings.Join(paths, " or "))
	}
	for _, name := range names {
		if !slices.Contains(known, name) && !unreadable {
			return cli.Exit(cli.ExitNotFound, "no server %q%s in %s", name, tools.DidYouMean(name, known), strings.Join(paths, " or "))
		}
	}
	return nil
}

func printAdapter(out io.Writer, host *hosts.Host, c hosts.Change, line changedServer, asJSON bool) error {
	if line.Host = host.Name; asJSON {
		return cli.JSONLines(out, []changedServer{line})
	}
	what := line.Reason
	if line.Changed {
		what = map[bool]string{true: "installed", false: "removed"}[c.Prefix != nil]
		if c.DryRun {
			what = "would be " + what
		} else if host.Name == "codex" && c.Prefix != nil {
			what += "; trust it with /hooks in Codex"
		}
	}
	_, err := fmt.Fprintf(out, "%s, %s\n  the adapter for the shell: %s\n", host.Title, line.File, what)
	return err
}

func printOutcomes(out io.Writer, l hosts.Location, c hosts.Change, outcomes []hosts.Outcome, asJSON bool) error {
	lines := []changedServer{}
	for _, o := range outcomes {
		line := changedServer{Host: l.Host().Name, File: l.Path, Project: o.Project, Server: o.Name, Changed: o.Changed, Restored: o.Restored}
		if !o.Changed {
			line.Reason = o.Why
		}
		lines = append(lines, line)
	}
	if asJSON {
		return cli.JSONLines(out, lines)
	}
	done := map[bool]string{true: "wrapped", false: "unwrapped"}[c.Prefix != nil]
	if c.DryRun {
		done = "would be " + done
	}
	_ = cli.Line(out, "%s, %s", l.Host().Title, l.Path)
	for i, line := range lines {
		what := done
		if !line.Changed {
			what = line.Reason
		} else if c.Prefix != nil {
			what += ": " + shortCommand(slices.Concat(c.Prefix, outcomes[i].Command))
		}
		_ = cli.Line(out, "  %s: %s", serverTitle(line.Server, line.Project), what)
	}
	switch {
	case len(lines) == 0:
		fmt.Fprintln(out, "  no servers")
	case lines[0].Restored && !c.DryRun:
		fmt.Fprintln(out, "  The file is as it was before the installation, byte for byte.")
	}
	return nil
}

func serverTitle(name, project string) string {
	if project == "" {
		return name
	}
	return name + " (" + project + ")"
}

// shortCommand leaves out the arguments of the server, which may be secrets.
func shortCommand(command []string) string {
	end := slices.Index(command, "--") + 2
	words := make([]string, 0, end+1)
	for _, word := range command[:min(end, len(command))] {
		words = append(words, cli.ShellWord(word))
	}
	if len(command) > end {
		words = append(words, "...")
	}
	return strings.Join(words, " ")
}
