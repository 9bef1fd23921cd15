package process

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/remote"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// externalOptions configure the tools that use more than the workspace.
type externalOptions struct {
	Remotes   []string `flag:"remote-tool" unit:"NAME=SUBJECT" help:"NAME=SUBJECT of a tool, in any language, that answers requests on a NATS subject"`
	WebAllow  []string `flag:"web-allow" split:"," unit:"NETWORK" help:"NETWORKs that web_fetch may reach in addition, such as 192.168.1.0/24"`
	WebSearch string   `flag:"web-search" unit:"SERVICE" help:"SERVICE of web_search: searxng=URL, brave=env:VARIABLE or tavily=env:VARIABLE"`
}

// search returns the tool web_search, if a service is configured.
func (o *externalOptions) search(read secretReader) ([]tools.Tool, error) {
	if o.WebSearch == "" {
		return nil, nil
	}
	service, value, _ := strings.Cut(o.WebSearch, "=")
	cfg := builtin.SearchConfig{Service: builtin.SearchService(service), URL: value}
	if cfg.Service != builtin.SearXNG {
		key, err := read(value)
		if err == nil && key == "" {
			err = errors.New("want a key, such as brave=env:BRAVE_API_KEY")
		}
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--web-search %s: %w", service, err)
		}
		cfg.URL, cfg.Key = "", key
	}
	tool, err := builtin.NewWebSearch(cfg)
	if err != nil {
		return nil, cli.Exit(cli.ExitUsage, "--web-search: %w", err)
	}
	return []tools.Tool{tool}, nil
}

// web returns the configuration of web_fetch.
func (o *externalOptions) web() (cfg builtin.WebConfig, err error) {
	for _, given := range o.WebAllow {
		prefix, err := netip.ParsePrefix(given)
		if err != nil {
			return cfg, cli.Exit(cli.ExitUsage, "--web-allow %q: want a network such as 192.168.1.0/24", given)
		}
		cfg.Allow = append(cfg.Allow, prefix.Masked())
	}
	return cfg, nil
}

// remotes returns the names and subjects of the remote tools.
func (o *externalOptions) remotes() (remotes [][2]string, err error) {
	for _, given := range o.Remotes {
		name, subject, ok := strings.Cut(given, "=")
		if !ok {
			return nil, cli.Exit(cli.ExitUsage, "--remote-tool %q: want NAME=SUBJECT, such as shout=acme.shout", given)
		}
		remotes = append(remotes, [2]string{name, subject})
	}
	return remotes, nil
}

// tools returns the tools that need the bus: message, cron, tasks, and the remote ones.
func (o *externalOptions) tools(ctx context.Context, b *bus.Bus, reader *offload.Reader, notifier *notify.Notifier,
	prompts cron.ToolConfig, log zerolog.Logger) ([]tools.Tool, error) {
	all := []tools.Tool{builtin.NewMessage(agents.Sender{Notifier: notifier, Reader: reader}), cron.New(b).Tool(prompts), builtin.NewTasks(agents.Tasks{Bus: b})}
	search, err := o.search(ReadSecret)
	if err != nil {
		return nil, err
	}
	all = append(all, search...)
	remotes, err := o.remotes()
	if err != nil {
		return nil, err
	}
	for _, given := range remotes {
		tool, err := remote.Open(ctx, b, given[0], given[1], remote.Config{Log: log})
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--remote-tool: %w", err)
		}
		all = append(all, tool)
	}
	return all, nil
}

// awaitRemoteTools gives remote tools that no process served at the start their
// definitions when one does.
func (p *process) awaitRemoteTools(registry *tools.Registry, list []tools.Tool) {
	for _, t := range list {
		tool, ok := t.(*remote.Tool)
		if _, offered := registry.Definition(t.Definition().Name); !ok || !offered {
			continue
		}
		p.beside(func(ctx context.Context) error {
			served := tool.Await(ctx)
			if served == nil {
				return nil
			}
			if _, err := registry.Replace([]string{served.Definition().Name}, served); err != nil { // its schema was checked
				p.log.Error().Err(err).Msg("cannot offer a remote tool")
			}
			return nil
		})
	}
}

// prompts lets cron jobs prompt an agent, if this process runs agents.
func (o *AgentOptions) prompts() cron.ToolConfig {
	if !o.Enabled() {
		return cron.ToolConfig{}
	}
	return cron.ToolConfig{PromptTool: agent.AgentTool, PromptArg: "prompt", PromptQueue: bus.AgentQueue}
}
