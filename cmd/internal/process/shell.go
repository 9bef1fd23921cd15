package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// shellOptions configure the sandbox of the shell tool.
type shellOptions struct {
	Mode      string   `flag:"shell-sandbox" oneof:"required,besteffort,off" unit:"MODE" help:"MODE of the sandbox: required, besteffort or off"`
	Network   bool     `flag:"shell-network" help:"let commands use the network"`
	MCP       bool     `flag:"mcp-sandbox" help:"run the commands of --mcp in this sandbox, too; --shell-network gives them the network"`
	Read      []string `flag:"shell-read" split:"," unit:"PATH" help:"PATHs that commands can read and execute in addition, such as a toolchain"`
	Write     []string `flag:"shell-write" split:"," unit:"PATH" help:"PATHs that commands can write in addition, and that the file tools can, such as .git"`
	Env       []string `flag:"shell-env" unit:"NAME" help:"NAME or NAME=VALUE of a variable that commands get in addition"`
	MaxOutput int64    `flag:"shell-output" default:"67108864" min:"1" unit:"BYTES" help:"BYTES of a command's output that are kept"`
	Unlimited bool     `flag:"shell-unlimited" help:"no limits of the processes, open files, file sizes and CPU time of a command"`
}

func (o *shellOptions) check() error {
	if o.MCP && o.Off() {
		return cli.Exit(cli.ExitUsage, "--mcp-sandbox needs a sandbox; remove --shell-sandbox off")
	}
	return nil
}

// config returns the configuration of the sandbox. Relative paths are below the workspace.
func (o *shellOptions) config(workspace, data string, hide ...string) (sandbox.Config, error) {
	workspace, err := filepath.Abs(workspace)
	if err != nil {
		return sandbox.Config{}, err
	}
	cfg := sandbox.Config{
		Mode: sandbox.Mode(o.Mode), Workspace: workspace, State: shellState(data, workspace), Hide: hide, Network: o.Network,
	}
	if o.Unlimited {
		cfg.Limits = sandbox.Limits{Processes: -1, OpenFiles: -1, FileSize: -1, CPU: -1}
	}
	for _, list := range []struct {
		flag string
		from []string
		to   *[]string
	}{{"--shell-read", o.Read, &cfg.Read}, {"--shell-write", o.Write, &cfg.Write}} {
		for _, path := range list.from {
			if !filepath.IsAbs(path) {
				path = filepath.Join(workspace, path)
			}
			if _, err := os.Stat(path); err != nil && (list.to == &cfg.Read || sandbox.Executed(path) == "") {
				return cfg, cli.Exit(cli.ExitUsage, "%s: %w", list.flag, err)
			}
			*list.to = append(*list.to, path)
		}
	}
	for _, given := range o.Env {
		name, _, hasValue := strings.Cut(given, "=")
		value, ok := os.LookupEnv(name)
		switch {
		case name == "":
			return cfg, cli.Exit(cli.ExitUsage, "--shell-env %q: want NAME or NAME=VALUE", given)
		case hasValue:
			cfg.Env = append(cfg.Env, given)
		case ok:
			cfg.Env = append(cfg.Env, name+"="+value)
		}
	}
	return cfg, nil
}

// Examine returns how a worker with these options confines commands, without changing
// anything. refused is the reason for which the shell tool would refuse all commands.
func (o *shellOptions) Examine(workspace, data string) (p sandbox.Protection, refused, err error) {
	cfg, err := o.config(workspace, "")
	if err != nil {
		return p, nil, err
	}
	if data != "" {
		cfg.Hide = []string{data}
	}
	s, err := sandbox.New(cfg)
	if errors.Is(err, sandbox.ErrUnconfined) {
		refused = err
		cfg.Mode = sandbox.BestEffort
		s, err = sandbox.New(cfg)
	}
	if err != nil {
		return p, refused, err
	}
	return s.Protection(), refused, s.Close()
}

const noLimits = "--shell-unlimited of the worker removes the limits"

// shellAdvice says how the operator allows what the sandbox refuses.
var shellAdvice = map[sandbox.Refusal]string{
	sandbox.NoNetwork:   "--shell-network of the worker allows it",
	sandbox.Protected:   "--shell-write PATH of the worker, such as --shell-write .git, allows it, and so does an approval of the call (--ask shell)",
	sandbox.ReadOnly:    "--shell-write PATH of the worker allows more",
	sandbox.Unreadable:  "--shell-read PATH and --shell-write PATH of the worker allow more",
	sandbox.Hidden:      "--shell-read PATH of the worker shows them",
	sandbox.OpenFiles:   noLimits,
	sandbox.FileSize:    noLimits,
	sandbox.Processes:   noLimits,
	sandbox.CPUTime:     noLimits,
	builtin.OutputLimit: "--shell-output of the worker changes it",
}

// Off reports whether commands run without a sandbox.
func (o *shellOptions) Off() bool { return o.Mode == string(sandbox.Off) }

// shellState returns the directory of the private home of commands in the workspace, or
// nothing if the data directory cannot be used: the sandbox then makes a temporary one.
func shellState(data, workspace string) string {
	if info, err := os.Stat(data); data == "" || err != nil || !info.IsDir() {
		return ""
	}
	digest := sha256.Sum256([]byte(workspace))
	dir := filepath.Join(data, "shell", hex.EncodeToString(digest[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return ""
	}
	return dir
}

// confinedShell is the shell tool with its sandbox.
type confinedShell struct {
	builtin.ShellConfig
	unguarded []string // the paths that --shell-write allows
}

// openShell examines what the system offers to confine commands, and logs what is missing.
func (p *process) openShell() (shell confinedShell, err error) {
	cfg, err := p.Shell.config(p.Workspace, p.Connection.Data, p.secretDirs()...)
	if err != nil {
		return shell, err
	}
	if data, err := filepath.Abs(p.Connection.Data); p.Connection.Data != "" && err == nil && builtin.Inside(cfg.Workspace, data) {
		p.log.Warn().Str("data", data).Msg("the data directory, with the credential of the bus, is in the workspace; use another --workspace or --data")
	}
	shell.MaxOutput, shell.unguarded = p.Shell.MaxOutput, cfg.Write
	sb, err := sandbox.New(cfg)
	if errors.Is(err, sandbox.ErrUnconfined) {
		p.log.Warn().Err(err).Msg("the shell tool refuses commands; --shell-sandbox besteffort runs them with the protection that there is")
		shell.Refuse = fmt.Errorf("%w; --shell-sandbox besteffort of the worker runs them with the protection that there is", err)
		if p.Shell.MCP {
			return shell, cli.Exit(cli.ExitUsage, "--mcp-sandbox: %w", err)
		}
		return shell, nil
	} else if err != nil {
		return shell, err
	}
	p.atEnd(sb.Close)
	shell.Sandbox = sb
	if left := sb.Left(); len(left) > 0 {
		p.log.Warn().Strs("renamed", left).Msg("the worker died while commands of a model ran, which had made what programs execute; it has other names now")
	}
	protection := sb.Protection()
	p.log.Debug().Str("protection", protection.String()).Msg("the shell tool confines commands")
	for _, missing := range protection.Missing {
		p.log.Warn().Str("missing", missing).Msg("the sandbox of the shell tool is incomplete")
	}
	return shell, nil
}
