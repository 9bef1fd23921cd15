package main

import (
	"context"
	"net/netip"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/remote"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// outsideOptions configure the tools that reach beyond the workspace.
type outsideOptions struct {
	remotes  []string
	webAllow []string
}

func (o *outsideOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.remotes, "remote-tool", nil, "`NAME=SUBJECT` of a tool that answers requests on a subject, in whatever language")
	flags.StringSliceVar(&o.webAllow, "web-allow", nil, "`NETWORK`s, such as 192.168.1.0/24, that web_fetch may reach beside the public internet")
}

// web is the configuration of web_fetch.
func (o *outsideOptions) web() (builtin.WebConfig, error) {
	var cfg builtin.WebConfig
	for _, given := range o.webAllow {
		prefix, err := netip.ParsePrefix(given)
		if err != nil {
			return cfg, cli.Exit(cli.ExitUsage, "--web-allow %q: want a network such as 192.168.1.0/24", given)
		}
		cfg.Allow = append(cfg.Allow, prefix.Masked())
	}
	return cfg, nil
}

// tools are those that need the bus: message, cron, and what others serve.
func (o *outsideOptions) tools(ctx context.Context, b *bus.Bus, notifier *notify.Notifier, prompts cron.ToolConfig, log zerolog.Logger) ([]tools.Tool, error) {
	message, err := builtin.NewMessage(sender{notifier})
	if err != nil {
		return nil, err
	}
	jobs, err := cron.New(b).Tool(prompts)
	if err != nil {
		return nil, err
	}
	all := []tools.Tool{message, jobs}
	for _, given := range o.remotes {
		name, subject, ok := strings.Cut(given, "=")
		if !ok {
			return nil, cli.Exit(cli.ExitUsage, "--remote-tool %q: want NAME=SUBJECT, such as shout=acme.shout", given)
		}
		tool, err := remote.Open(ctx, b, name, subject, remote.Config{Log: log})
		if err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--remote-tool: %w", err)
		}
		all = append(all, tool)
	}
	return all, nil
}

// prompts are what cron jobs may ask: an agent, where one is served.
func (o *agentOptions) prompts() cron.ToolConfig {
	if !o.enabled() {
		return cron.ToolConfig{}
	}
	return cron.ToolConfig{PromptTool: agent.AgentTool, PromptArg: "prompt", PromptQueue: agentQueue}
}

// sender takes the message tool's messages to the outbox.
type sender struct{ notifier *notify.Notifier }

func (s sender) Send(ctx context.Context, m builtin.Message) (where string, err error) {
	sent, err := s.notifier.Send(ctx, notify.Notification{
		ID: m.Key, Session: m.Session, Call: m.Call, Tool: "message",
		Channel: m.Channel, ChatID: m.ChatID, Text: m.Text, Format: notify.FormatMarkdown, // as models write it
	})
	where = sent.Channel
	if sent.ChatID != "" {
		where += ":" + sent.ChatID
	}
	if sent.Note != "" {
		where += " (" + sent.Note + ")"
	}
	return where, err
}
