package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// ShellOptions configure the sandbox of the shell tool.
type ShellOptions struct {
	mode        string
	network     bool
	mcp         bool // MCP servers run in the sandbox, too
	read, write []string
	env         []string
	maxOutput   int64
	cpu         time.Duration
	limits      sandbox.Limits
}

// AddFlags adds the flags of the sandbox.
func (o *ShellOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.mode, "shell-sandbox", string(sandbox.DefaultMode), "`MODE` of the sandbox: required (shell refuses commands if the system cannot confine them), besteffort (commands run with the protection that there is) or off")
	flags.BoolVar(&o.network, "shell-network", false, "let commands use the network")
	flags.BoolVar(&o.mcp, "mcp-sandbox", false, "run the commands of --mcp in this sandbox, too; those that need the network need --shell-network")
	flags.StringSliceVar(&o.read, "shell-read", nil, "`PATH`s that commands can read and execute in addition, such as a toolchain in a home directory")
	flags.StringSliceVar(&o.write, "shell-write", nil, "`PATH`s that commands can write in addition; also lets the file tools write protected paths, such as .git, which need not exist")
	flags.StringArrayVar(&o.env, "shell-env", nil, "`NAME` or NAME=VALUE of a variable that commands get in addition")
	flags.Int64Var(&o.maxOutput, "shell-output", 64<<20, "`BYTES` of a command's output that are kept")
	flags.Int64Var(&o.limits.Processes, "shell-processes", 4096, "`NUMBER` of processes and threads of a command, in its own namespace; -1 means no limit")
	flags.Int64Var(&o.limits.OpenFiles, "shell-open-files", 4096, "`NUMBER` of open files of one process; -1 means no limit")
	flags.Int64Var(&o.limits.FileSize, "shell-file-size", 2<<30, "`BYTES` of one file that a command writes; -1 means no limit")
	flags.DurationVar(&o.cpu, "shell-cpu", time.Hour, "CPU `TIME` of one process; -1s means no limit")
}

func (o *ShellOptions) check() error {
	if !slices.Contains(sandbox.Modes, sandbox.Mode(o.mode)) {
		return cli.Exit(cli.ExitUsage, "--shell-sandbox %q: want required, besteffort or off", o.mode)
	}
	if o.mcp && o.mode == string(sandbox.Off) {
		return cli.Exit(cli.ExitUsage, "--mcp-sandbox needs a sandbox; remove --shell-sandbox off")
	}
	if o.maxOutput < 1 {
		return cli.Exit(cli.ExitUsage, "--shell-output %d: want 1 or more", o.maxOutput)
	}
	for flag, value := range map[string]int64{"processes": o.limits.Processes, "open-files": o.limits.OpenFiles, "file-size": o.limits.FileSize, "cpu": int64(o.cpu)} {
		if value == 0 {
			return cli.Exit(cli.ExitUsage, "--shell-%s 0: want more, or -1 for no limit", flag)
		}
	}
	if o.cpu > 0 && o.cpu < time.Second {
		return cli.Exit(cli.ExitUsage, "--shell-cpu %s: want 1s or more", o.cpu)
	}
	return nil
}

// config returns the configuration of the sandbox. Relative paths are below the workspace.
func (o *ShellOptions) config(workspace, data string, hide ...string) (sandbox.Config, error) {
	workspace, err := filepath.Abs(workspace)
	if err != nil {
		return sandbox.Config{}, err
	}
	cfg := sandbox.Config{
		Mode: sandbox.Mode(o.mode), Workspace: workspace, State: shellState(data, workspace), Hide: hide,
		Network: o.network, Limits: o.limits,
	}
	cfg.Limits.CPU = int64(o.cpu.Round(time.Second) / time.Second)
	for _, list := range []struct {
		flag string
		from []string
		to   *[]string
	}{{"--shell-read", o.read, &cfg.Read}, {"--shell-write", o.write, &cfg.Write}} {
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
	for _, given := range o.env {
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
func (o *ShellOptions) Examine(workspace, data string) (p sandbox.Protection, refused, err error) {
	if err := o.check(); err != nil {
		return p, nil, err
	}
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

// shellAdvice says how the operator allows what the sandbox refuses.
var shellAdvice = map[sandbox.Refusal]string{
	sandbox.NoNetwork:   "--shell-network of the worker allows it",
	sandbox.Protected:   "--shell-write PATH of the worker, such as --shell-write .git, allows it, and so does an approval of the call (--ask shell)",
	sandbox.ReadOnly:    "--shell-write PATH of the worker allows more",
	sandbox.Unreadable:  "--shell-read PATH and --shell-write PATH of the worker allow more",
	sandbox.Hidden:      "--shell-read PATH of the worker shows them",
	sandbox.OpenFiles:   "--shell-open-files of the worker changes it",
	sandbox.FileSize:    "--shell-file-size of the worker changes it",
	sandbox.Processes:   "--shell-processes of the worker changes it",
	sandbox.CPUTime:     "--shell-cpu of the worker changes it",
	builtin.OutputLimit: "--shell-output of the worker changes it",
}

// Off reports whether commands run without a sandbox.
func (o *ShellOptions) Off() bool { return o.mode == string(sandbox.Off) }

// Network reports whether commands can use the network.
func (o *ShellOptions) Network() bool { return o.network || o.Off() }

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

// openShell examines what the system offers to confine commands, and logs what is missing.
// unguarded are the paths that --shell-write allows.
func (p *parts) openShell() (shell builtin.ShellConfig, unguarded []string, err error) {
	cfg, err := p.Shell.config(p.Workspace, p.Connection.Data, p.secretDirs()...)
	if err != nil {
		return shell, nil, err
	}
	if data, err := filepath.Abs(p.Connection.Data); p.Connection.Data != "" && err == nil {
		if rel, err := filepath.Rel(cfg.Workspace, data); err == nil && filepath.IsLocal(rel) {
			p.log.Warn().Str("data", data).Msg("the data directory, with the credential of the bus, is in the workspace; use another --workspace or --data")
		}
	}
	shell.MaxOutput = p.Shell.maxOutput
	sb, err := sandbox.New(cfg)
	if errors.Is(err, sandbox.ErrUnconfined) {
		p.log.Warn().Err(err).Msg("the shell tool refuses commands; --shell-sandbox besteffort runs them with the protection that there is")
		shell.Refuse = fmt.Errorf("%w; --shell-sandbox besteffort of the worker runs them with the protection that there is", err)
		if p.Shell.mcp {
			return shell, nil, cli.Exit(cli.ExitUsage, "--mcp-sandbox: %w", err)
		}
		return shell, cfg.Write, nil
	} else if err != nil {
		return shell, nil, err
	}
	p.closers = append(p.closers, sb.Close)
	shell.Sandbox = sb
	if p.Shell.mcp {
		p.MCP.Sandbox = sb
	}
	protection := sb.Protection()
	p.log.Debug().Str("protection", protection.String()).Msg("the shell tool confines commands")
	for _, missing := range protection.Missing {
		p.log.Warn().Str("missing", missing).Msg("the sandbox of the shell tool is incomplete")
	}
	return shell, cfg.Write, nil
}
