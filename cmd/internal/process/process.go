// Package process is the composition root of a worker process: it opens the parts
// that the flags describe and runs them together. up, serve and the demo use it.
//
// Options.Run opens the parts in a fixed order (streams, store, notifier, tools, MCP servers,
// worker, receivers of messages, health), because each one uses earlier ones, and closes
// them in the reverse order. The heartbeat uses only the bus. If one part fails, all stop.
// When the context ends, the worker takes no more calls, requeues what it has not started,
// and waits for running calls; the caller closes the bus after Run has returned.
//
// Libraries return codes and typed errors. This package and the commands turn them into
// advice that names flags. It stores nothing of its own except the version of the data
// directory (dataformat.go): unknown data is refused before a server starts on it.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/cmd/internal/otlp"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// parts are the parts of a process that others use. The open methods fill them, in the order in
// which Run calls them.
type parts struct {
	*Options
	bus    *bus.Bus
	log    zerolog.Logger
	stdout io.Writer
	extra  []tools.Tool

	store     offload.Store
	reader    *offload.Reader
	state     state.Store
	notifier  *notify.Notifier
	channels  map[string]channel.Channel
	registry  *tools.Registry
	worker    *worker.Worker
	service   *rpc.Service
	serving   chan struct{} // closed when service answers
	announced chan struct{} // closed when the caller of Run has announced that
	keeper    *retention.Keeper
	health    *health
	closers   []func() error
	running   []func(context.Context) error // in addition to the parts above
}

// Run opens all parts and runs them until ctx is cancelled. It calls onReady when
// the process accepts calls, and calls onStop, which onReady returns, when ctx is
// cancelled. The worker offers extra in addition to the tools of the options.
func (o *Options) Run(ctx context.Context, b *bus.Bus, log zerolog.Logger, stdout io.Writer, onReady func() (onStop func() error, err error), extra ...tools.Tool) (err error) {
	if o.tenant == nil { // its process has done it
		otlp.LogErrors(log)
	}
	p := &parts{Options: o, bus: b, log: log, stdout: stdout, extra: extra}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, open := range []func(context.Context) error{p.provision, p.openStore, p.openNotifier, p.openTools, p.openMCP, p.openHeartbeat, p.openWorker, p.openReceivers, p.openHealth} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return p.run(ctx, onReady)
}

// close closes the parts, the last one first.
func (p *parts) close() (err error) {
	for _, closePart := range slices.Backward(p.closers) {
		err = errors.Join(err, closePart())
	}
	return err
}

func (p *parts) provision(ctx context.Context) error {
	change := admin.Nothing
	if p.OwnServer != nil {
		change = admin.Limits
		if err := moveData(ctx, p.bus, p.Connection.Data, p.log); err != nil {
			return err
		}
	}
	provisioned, err := admin.Provision(ctx, p.bus, change)
	for _, d := range provisioned.Differences {
		p.log.Warn().Str("stream", d.Name).Str("setting", d.Setting).Str("have", d.Have).Str("want", d.Want).Msg("stream differs; see stevedore provision")
	}
	if err != nil || p.OwnServer == nil {
		return err
	}
	if others, err := task.OthersAnnounced(ctx, p.bus); others || err != nil {
		return err
	}
	return admin.TakeOver(ctx, p.bus, p.log) // of an earlier process on this server
}

func (p *parts) openStore(ctx context.Context) error {
	store, closeStore, err := p.Store.Open(ctx, &p.Connection, p.bus)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, closeStore)
	databases := tables.NewCache("")
	p.closers = append(p.closers, databases.Close)
	p.store, p.reader = store, offload.NewReader(store, offload.ReaderConfig{JQCommand: JQCommand(), SQLCommand: SQLCommand(), SQLCache: databases, SubSessions: agents.SubSessions(p.bus)})
	return nil
}

// openTools registers the built-in tools, the tools that read artifacts, the
// external ones, extra, and the tools that run agents.
func (p *parts) openTools(ctx context.Context) error {
	web, err := p.External.web()
	if err != nil {
		return err
	}
	shell, unguarded, err := p.openShell()
	if err != nil {
		return err
	}
	shell.Artifacts = p.openArtifact
	toolset, closeTools, err := builtin.Tools(builtin.Config{
		Workspace: p.Workspace, Web: web, Shell: shell, Unguarded: unguarded, Hide: p.secretDirs(),
		Advise: func(r sandbox.Refusal) string { return shellAdvice[r] },
	})
	if err != nil {
		return err
	}
	p.closers = append(p.closers, closeTools)
	external, err := p.External.tools(ctx, p.bus, p.reader, p.notifier, p.Agents.prompts(), p.log)
	if err != nil {
		return err
	}
	p.registry = tools.NewRegistry(p.log)
	agents, err := p.Agents.tools(p.bus, p.store, p.notifier, p.registry.Definitions, p.Workspace, p.log)
	if err != nil {
		return err
	}
	if err := p.registry.Register(slices.Concat(toolset, p.reader.Tools(), p.memoryTools(), external, p.extra, agents, p.Approvals.tools())...); err != nil {
		return err
	}
	if err := p.checkToolNames(); err != nil {
		return err
	}
	if len(p.Tools) > 0 {
		if err := p.registry.Keep(p.Tools...); err != nil {
			return cli.Exit(cli.ExitUsage, "--tools: %w", err)
		}
	}
	p.awaitRemoteTools(external)
	return nil
}

// openArtifact opens an artifact for a command of the session.
func (p *parts) openArtifact(ctx context.Context, session, id string) (io.ReadCloser, error) {
	_, content, err := p.reader.Open(ctx, session, id)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(content, 0, content.Size()), content}, nil
}

// checkToolNames refuses names of tools that no worker with these settings has: a misspelt
// --ask would ask for nothing. The tools of MCP servers, NAME_tool, come later.
func (p *parts) checkToolNames() error {
	var known []string
	for _, d := range p.registry.Definitions() {
		known = append(known, d.Name)
	}
	isKnown := func(name string) bool {
		return slices.Contains(known, name) || slices.ContainsFunc(p.MCP.Servers, func(server string) bool {
			server, _, _ = strings.Cut(server, "=")
			return strings.HasPrefix(name, server+"_")
		})
	}
	rules, err := p.Approvals.parse()
	if err != nil {
		return err
	}
	for _, rule := range rules {
		if !strings.ContainsAny(rule.tool, `*?[\`) && !isKnown(rule.tool) {
			return cli.Exit(cli.ExitUsage, "--ask %q: there is no tool of this name%s", rule.tool, cli.DidYouMean(rule.tool, known))
		}
	}
	for _, name := range p.Tools {
		if hint := cli.DidYouMean(name, known); hint != "" && !isKnown(name) {
			return cli.Exit(cli.ExitUsage, "--tools: there is no tool %q%s", name, hint)
		}
	}
	return nil
}

func (p *parts) openHeartbeat(context.Context) error {
	if p.Heartbeat == nil {
		return nil
	}
	cfg, err := p.Heartbeat.Configuration()
	if err != nil {
		return err
	}
	cfg.Workspace, cfg.Log, cfg.Only = p.Workspace, p.log, p.OwnServer != nil
	if cfg.Tool == "" && p.Agents.Enabled() {
		// In one conversation, each tick would add to the prompt of the next one.
		cfg.Tool, cfg.Queue, cfg.PromptArg, cfg.Args = agent.AgentTool, bus.AgentQueue, "prompt", json.RawMessage(`{"fresh":true}`)
	}
	if err := cfg.Validate(); err != nil {
		return cli.Exit(cli.ExitUsage, "%w", err)
	}
	p.running = append(p.running, func(ctx context.Context) error { return heartbeat.Run(ctx, p.bus, cfg) })
	return nil
}

// maxResult returns the largest result event that fits the server's max_payload with its headers.
func maxResult(maxPayload int64) int { return int(min(512<<10, maxPayload*3/4)) }

func (p *parts) openWorker(context.Context) (err error) {
	offloading := p.Offload
	offloading.Log, offloading.InlineChars = p.log, InlineChars(offloading)
	offloading.MaxResult = maxResult(p.bus.Conn().MaxPayload())
	cfg := p.Worker
	cfg.Queues = slices.Concat(cfg.Queues, p.Agents.queues())
	cfg.Log, cfg.State, cfg.Ticks, cfg.OwnServer = p.log, p.state, !p.NoTicks, p.OwnServer != nil
	cfg.Reader = p.reader
	if p.tenant != nil {
		cfg.Pool = p.tenant.fleet.pool
	}
	if cfg.Approvals, err = p.Approvals.approvals(p.notifier); err != nil {
		return err
	}
	p.worker = worker.New(p.bus, p.registry, offload.NewOffloader(p.store, offloading), cfg)

	p.serving, p.announced = make(chan struct{}), make(chan struct{})
	p.service = rpc.NewService(p.bus, p.reader, rpc.ServiceConfig{
		Version: cli.ReadVersion().Version, Log: p.log, OnReady: func() { close(p.serving) },
		Metadata: p.metadata(cfg.Queues),
		Stats:    func() any { return p.report() },
	})
	return nil
}

// report is what status shows of this process.
func (p *parts) report() status.Report {
	r := status.Report{Stats: p.worker.Stats(), Failing: map[string]string{}}
	for name, err := range p.notifier.Failing() {
		r.Failing[name] = err.Error()
	}
	if p.OwnServer != nil {
		if err := p.OwnServer.CheckDisk(); err != nil {
			r.Disk = err.Error()
		}
	}
	return r
}

// metadata describes the process to programs that ask for its statistics. "channels" has
// NAME=KIND,... of the channels that it delivers to, without their settings.
func (p *parts) metadata(queues []string) map[string]string {
	m := map[string]string{"worker": p.worker.Stats().Worker, "queues": strings.Join(queues, ",")}
	if names := p.Agents.names(); len(names) > 0 {
		models, _ := json.Marshal(names) // of strings, which JSON has
		m["models"] = string(models)
	}
	specs, err := p.Channels.Specs()
	if err != nil || p.NoNotify {
		return m
	}
	var channels []string
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		kind, _, _ := strings.Cut(specs[name], ":")
		channels = append(channels, name+"="+kind)
	}
	m["channels"], m["default_channel"] = strings.Join(channels, ","), p.Channels.Default
	return m
}

func (p *parts) openHealth(context.Context) error {
	cfg := retention.Config{MinAge: p.minAge(), SessionsTTL: p.SessionsTTL, Log: p.log}
	if p.tenant != nil {
		cfg.Interval = tenantCheckInterval
	}
	p.keeper = retention.New(p.bus, cfg)
	p.health = &health{bus: p.bus, server: p.OwnServer, worker: p.worker, keeper: p.keeper, slots: p.Worker.Slots}
	if p.tenant != nil {
		p.tenant.set(p)
		return nil
	}
	if p.Health == "" {
		return nil
	}
	stop, err := listenHealth(p.Health, p.log, p.health.alive, p.health.ready, p.health.metrics)
	if err == nil {
		p.closers = append(p.closers, func() error { stop(); return nil })
	}
	return err
}
