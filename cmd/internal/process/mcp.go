package process

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/servers"
	"github.com/stevedore-bus/stevedore/tools"
)

// mcpOptions are the other MCP servers whose tools a worker offers.
type mcpOptions struct {
	Servers []string `flag:"mcp" unit:"NAME=COMMAND" help:"NAME=COMMAND or NAME=URL of an MCP server; the worker offers its tools as NAME_tool"`
	Env     []string `flag:"mcp-env" unit:"NAME.VARIABLE=VALUE" help:"NAME.VARIABLE=VALUE for its command; a secret is env:VARIABLE or file:PATH"`
	Headers []string `flag:"mcp-header" unit:"NAME.HEADER=VALUE" help:"NAME.HEADER=VALUE for its URL; a secret is env:VARIABLE or file:PATH"`
}

// configs returns the servers.
func (o *mcpOptions) configs(read secretReader) ([]servers.Config, error) {
	var configs []servers.Config
	for _, given := range o.Servers {
		name, target, ok := strings.Cut(given, "=")
		if !ok || !tools.IsToken(name) || len(name) > 32 {
			return nil, cli.Exit(cli.ExitUsage, "--mcp: want NAME=COMMAND or NAME=URL, with a NAME of the form %s and at most 32 characters", tools.TokenForm)
		}
		if slices.ContainsFunc(configs, func(c servers.Config) bool { return c.Name == name }) {
			return nil, cli.Exit(cli.ExitUsage, "--mcp: the name %q is given twice", name)
		}
		cfg := servers.Config{Name: name, Header: map[string]string{}, Credential: "--mcp-header " + name + ".Authorization"}
		if strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://") {
			if u, err := url.Parse(target); err != nil || u.Host == "" {
				return nil, cli.Exit(cli.ExitUsage, "--mcp %s: the URL is not valid", name)
			}
			cfg.URL = target
		} else if cfg.Argv = splitCommand(target); len(cfg.Argv) == 0 {
			return nil, cli.Exit(cli.ExitUsage, "--mcp %s: the command is empty, or a quotation mark in it has no end", name)
		}
		configs = append(configs, cfg)
	}
	err := errors.Join(
		eachSetting("mcp-env", o.Env, configs, read, func(c *servers.Config, key, value string) { c.Env = append(c.Env, key+"="+value) }),
		eachSetting("mcp-header", o.Headers, configs, read, func(c *servers.Config, key, value string) { c.Header[key] = value }),
	)
	return configs, err
}

// eachSetting calls set for each NAME.KEY=VALUE. Its errors do not quote values, which
// may be secrets.
func eachSetting(flag string, settings []string, configs []servers.Config, read secretReader, set func(c *servers.Config, key, value string)) error {
	for _, setting := range settings {
		left, source, ok := strings.Cut(setting, "=")
		name, key, named := strings.Cut(left, ".")
		if !ok || !named || key == "" {
			return cli.Exit(cli.ExitUsage, "--%s: want NAME.KEY=VALUE", flag)
		}
		i := slices.IndexFunc(configs, func(c servers.Config) bool { return c.Name == name })
		if i < 0 {
			return cli.Exit(cli.ExitUsage, "--%s %s: no --mcp has this name", flag, name)
		}
		value, err := read(source)
		if err != nil {
			return cli.Exit(cli.ExitUsage, "--%s %s: %w", flag, left, err)
		}
		set(&configs[i], key, value)
	}
	return nil
}

// secretReader is ReadSecret, or keepSecret for Check: a secret can be read once if it is in a pipe, and a
// program that only looks at the settings may have none.
type secretReader func(source string) (string, error)

func keepSecret(source string) (string, error) { return source, nil }

// ReadSecret returns the value of env:VARIABLE or of file:PATH, and any other text as it
// is.
func ReadSecret(source string) (string, error) {
	kind, name, _ := strings.Cut(source, ":")
	var value string
	switch kind {
	case "file":
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		value = strings.TrimSpace(string(data))
	case "env":
		value = os.Getenv(name)
	default:
		return source, nil
	}
	if value == "" {
		return "", errors.New(source + " is empty")
	}
	return value, nil
}

// splitCommand splits a command at white space; quotation marks keep a part together. It
// is nil if a quotation mark has no end.
func splitCommand(command string) (words []string) {
	var word strings.Builder
	open, quote := false, rune(0)
	for _, c := range command {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteRune(c)
			open = true
		}
	}
	if quote != 0 {
		return nil
	}
	if open {
		words = append(words, word.String())
	}
	return words
}

// openMCP adds the tools of other MCP servers while the process runs. A server that is
// slow or broken does not keep the worker from starting.
func (p *process) openMCP(registry *tools.Registry, shell confinedShell) error {
	configs, err := p.MCP.configs(ReadSecret)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(p.Workspace) // a sandbox enters it once more
	if err != nil {
		return err
	}
	for _, cfg := range configs {
		var registered []string
		cfg.Dir, cfg.Log = dir, p.log
		if p.Shell.MCP {
			cfg.Sandbox = shell.Sandbox
		}
		cfg.Changed = func(list []tools.Tool) {
			list = slices.DeleteFunc(list, func(t tools.Tool) bool {
				return len(p.Tools) > 0 && !slices.Contains(p.Tools, t.Definition().Name)
			})
			var err error
			if registered, err = registry.Replace(registered, list...); err != nil {
				p.log.Error().Str("server", cfg.Name).Err(err).Msg("cannot offer some tools of the MCP server")
			}
		}
		p.beside(servers.New(cfg).Run)
	}
	return nil
}
