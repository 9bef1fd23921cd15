// Package process is the composition root of a worker process: it opens the parts
// that the flags describe and runs them together. up, serve and the demo use it.
//
// Options.Run opens the parts (streams, store, notifier, tools, MCP servers, worker, receivers of
// messages, health), passes each one the earlier ones that it uses, and closes them in the
// reverse order. The heartbeat uses only the bus. If one part fails, all stop.
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
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/heartbeat"
	"github.com/stevedore-bus/stevedore/cmd/internal/memory"
	"github.com/stevedore-bus/stevedore/cmd/internal/otlp"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// process has what all its parts use.
type process struct {
	*Options
	bus     *bus.Bus
	log     zerolog.Logger
	trouble trouble.Register // what its parts try again and again
	closers []func() error
	running []func(context.Context) error
}

// Run opens all parts and runs them until ctx is cancelled. It calls onReady when
// the process accepts calls, and calls onStop, which onReady returns, when ctx is
// cancelled.
func (o *Options) Run(ctx context.Context, b *bus.Bus, log zerolog.Logger, stdout io.Writer, onReady OnReady) (err error) {
	if o.tenant == nil { // its process has done it
		otlp.LogErrors(log)
	}
	p := &process{Options: o, bus: b, log: log}
	if err := limited.CheckOpenFiles(); err != nil {
		log.Warn().Err(err).Msg(cli.OpenFilesAdvice)
	}
	ctx = p.trouble.With(ctx)
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.provision(ctx); err != nil {
		return err
	}
	artifacts, err := p.openStore(ctx)
	if err != nil {
		return err
	}
	facts, err := openState(&o.Connection, b, log)
	if err != nil {
		return err
	}
	channels, err := p.openChannels(stdout, func(string) bool { return false })
	if err != nil {
		return err
	}
	announced := make(chan struct{})
	notifier, err := p.openNotifier(artifacts, channels, facts, announced)
	if err != nil {
		return err
	}
	shell, err := p.openShell()
	if err != nil {
		return err
	}
	registry, err := p.openTools(ctx, artifacts, notifier, shell, p.noteOwner(channels))
	if err != nil {
		return err
	}
	if err := errors.Join(p.openMCP(registry, shell), p.openHeartbeat()); err != nil {
		return err
	}
	w, err := p.openWorker(artifacts, registry, notifier, facts)
	if err != nil {
		return err
	}
	if err := p.openReceivers(ctx, artifacts, notifier, channels); err != nil {
		return err
	}
	h, err := p.openHealth(w)
	if err != nil {
		return err
	}
	serving := p.openService(artifacts, w)
	if !o.NoNotify {
		if err := notifier.Register(ctx); err != nil {
			return err
		}
	}
	p.beside(p.untilClosed,
		func(ctx context.Context) error { return watchPermissions(ctx, b) },
		func(ctx context.Context) error { return announce(ctx, serving, announced, h, onReady) },
		func(ctx context.Context) error {
			select {
			case <-serving: // who has a result may read its artifacts
				return w.Run(ctx)
			case <-ctx.Done():
				return nil
			}
		})
	stopped := ctx
	p.beside(func(ctx context.Context) error {
		<-ctx.Done()
		if stopped.Err() != nil { // otherwise a part failed, and Run returns its error
			p.logStop(w)
		}
		return nil
	})
	return Together(ctx, p.running...)
}

// atEnd closes a part after those that were opened later.
func (p *process) atEnd(closePart func() error) { p.closers = append(p.closers, closePart) }

// beside runs parts until the process ends.
func (p *process) beside(run ...func(context.Context) error) { p.running = append(p.running, run...) }

// close closes the parts, the last one first.
func (p *process) close() (err error) {
	for _, closePart := range slices.Backward(p.closers) {
		err = errors.Join(err, closePart())
	}
	return err
}

func (p *process) provision(ctx context.Context) error {
	change := admin.Nothing
	if p.OwnServer != nil {
		change = admin.Limits
		if err := moveData(ctx, p.bus, p.Connection.Data, p.log); err != nil {
			return err
		}
	}
	provisioned, err := admin.Provision(ctx, p.bus, change)
	if n := len(provisioned.Created); n > 0 && n+len(provisioned.Unused) < len(p.bus.All(bus.Config{})) {
		p.log.Warn().Strs("streams", provisioned.Created).Msg("streams were missing, and are empty now; if they had contents, stop this process and restore a backup")
	}
	for _, d := range provisioned.Differences {
		p.log.Warn().Str("stream", d.Name).Str("setting", d.Setting).Str("have", d.Have).Str("want", d.Want).Msg("stream differs; see stevedore provision")
	}
	if err != nil || p.OwnServer == nil {
		return err
	}
	return admin.TakeOver(ctx, p.bus, p.log) // of an earlier process on this server
}

// artifactStore is the store of artifacts and what reads it.
type artifactStore struct {
	offload.Store
	reader *offload.Reader
	pool   *limited.Pool // where sessions take turns with reads, pictures and pages
}

func (p *process) openStore(ctx context.Context) (a artifactStore, err error) {
	store, closeStore, err := p.Store.Open(ctx, &p.Connection, p.bus, p.log)
	if err != nil {
		return a, err
	}
	p.atEnd(closeStore)
	databases := tables.NewCache("")
	p.atEnd(databases.Close)
	_, onDisk := p.Store.Dir(&p.Connection)
	p.beside(
		func(ctx context.Context) error { return sweep(ctx, store, p.log) },
		func(ctx context.Context) error { return watchStore(ctx, store, onDisk) },
	)
	pool := NewPool()
	if p.tenant != nil {
		pool = p.tenant.fleet.helpers.Tenant()
	}
	cfg := offload.ReaderConfig{Pool: pool, SQLCache: databases, SubSessions: agents.SubSessions(p.bus)}
	return artifactStore{store, offload.NewReader(store, cfg), pool}, nil
}

// openTools registers the built-in tools, the tools that read artifacts, the external ones,
// and the tools that run agents. noteOwner returns the owner of the notes of a session.
func (p *process) openTools(
	ctx context.Context, artifacts artifactStore, notifier *notify.Notifier, shell confinedShell, noteOwner func(string) string,
) (*tools.Registry, error) {
	web, err := p.External.web()
	if err != nil {
		return nil, err
	}
	shell.Artifacts = artifacts.open
	toolset, closeTools, err := builtin.Tools(builtin.Config{
		Workspace: p.Workspace, Pool: artifacts.pool, Web: web, Shell: shell.ShellConfig, Unguarded: shell.unguarded, Hide: p.secretDirs(),
		Advise: func(r sandbox.Refusal) string { return shellAdvice[r] },
	})
	if err != nil {
		return nil, err
	}
	p.atEnd(closeTools)
	external, err := p.External.tools(ctx, p.bus, artifacts.reader, notifier, p.Agents.prompts(), p.log)
	if err != nil {
		return nil, err
	}
	registry := tools.NewRegistry(p.log)
	agents, err := p.Agents.tools(p.bus, artifacts.Store, notifier, registry.Definitions, p.Workspace, p.log)
	if err != nil {
		return nil, err
	}
	var notes []tools.Tool
	if p.Agents.Enabled() {
		notes = memory.New(p.bus).Tools(noteOwner)
	}
	all := slices.Concat(toolset, artifacts.reader.Tools(), notes, external, agents, p.Approvals.tools())
	if err := registry.Register(all...); err != nil {
		return nil, err
	}
	if err := p.checkToolNames(registry); err != nil {
		return nil, err
	}
	if len(p.Tools) > 0 {
		if err := registry.Keep(p.Tools...); err != nil {
			return nil, cli.Exit(cli.ExitUsage, "--tools: %w", err)
		}
	}
	p.awaitRemoteTools(registry, external)
	return registry, nil
}

// open opens an artifact for a command of the session.
func (a artifactStore) open(ctx context.Context, session, id string) (content io.ReadCloser, lost []string, err error) {
	rec, stored, err := a.reader.Open(ctx, session, id)
	if err != nil {
		return nil, nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(stored, 0, stored.Size()), stored}, rec.Lost(), nil
}

// checkToolNames refuses names of tools that no worker with these settings has: a misspelt
// --ask would ask for nothing. The tools of MCP servers, NAME_tool, come later.
func (p *process) checkToolNames(registry *tools.Registry) error {
	var known []string
	for _, d := range registry.Definitions() {
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
			return cli.Exit(cli.ExitUsage, "--ask %q: there is no tool of this name%s", rule.tool, tools.DidYouMean(rule.tool, known))
		}
	}
	for _, name := range p.Tools {
		if hint := tools.DidYouMean(name, known); hint != "" && !isKnown(name) {
			return cli.Exit(cli.ExitUsage, "--tools: there is no tool %q%s", name, hint)
		}
	}
	return nil
}

func (p *process) openHeartbeat() error {
	if p.Heartbeat == nil {
		return nil
	}
	cfg, err := p.Heartbeat.Configuration(p.Workspace)
	if err != nil {
		return err
	}
	cfg.Log, cfg.NoAgent = p.log, !p.Agents.Enabled()
	p.beside(func(ctx context.Context) error { return heartbeat.Run(ctx, p.bus, cfg) })
	return nil
}

// maxResult returns the largest result event that fits the server's max_payload with its headers.
func maxResult(maxPayload int64) int { return int(min(512<<10, maxPayload*3/4)) }

func (p *process) openWorker(artifacts artifactStore, registry *tools.Registry, notifier *notify.Notifier, facts state.Store) (*worker.Worker, error) {
	offloading := p.Offload
	offloading.Log, offloading.Pool, offloading.InlineChars = p.log, artifacts.pool, InlineChars(offloading)
	offloading.MaxResult = maxResult(p.bus.Conn().MaxPayload())
	cfg := p.Worker
	cfg.Queues = p.Queues()
	cfg.Log, cfg.State, cfg.Ticks, cfg.OwnServer = p.log, facts, !p.NoTicks, p.OwnServer != nil
	cfg.Reader = artifacts.reader
	if p.tenant != nil {
		cfg.Pool = p.tenant.fleet.pool
	}
	approvals, err := p.Approvals.approvals(notifier, p.Connection.CommandForOthers)
	if err != nil {
		return nil, err
	}
	cfg.Approvals = approvals
	return worker.New(p.bus, registry, offload.NewOffloader(artifacts.Store, offloading), cfg), nil
}

// openService opens the service that answers requests. serving is closed when it answers.
func (p *process) openService(artifacts artifactStore, w *worker.Worker) (serving chan struct{}) {
	serving = make(chan struct{})
	service := rpc.NewService(p.bus, artifacts.reader, rpc.ServiceConfig{
		Version: cli.ReadVersion().Version, Log: p.log, OnReady: func() { close(serving) },
		Metadata: p.metadata(w),
		Stats: func() any {
			store, id := p.Store.identity(&p.Connection, p.bus)
			return status.Report{Stats: w.Stats(), Failures: failures(&p.trouble), Store: store, StoreID: id}
		},
	})
	p.beside(service.Run)
	return serving
}

// metadata describes the process to programs that ask for its statistics. "channels" has
// NAME=KIND,... of the channels that it delivers to, without their settings.
func (p *process) metadata(w *worker.Worker) map[string]string {
	m := map[string]string{"worker": w.Stats().Worker, "queues": strings.Join(p.Queues(), ",")}
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

func (p *process) openHealth(w *worker.Worker) (*health, error) {
	cfg := retention.Config{MinAge: p.minAge(), SessionsTTL: p.SessionsTTL, Log: p.log}
	if p.tenant != nil {
		cfg.Interval = tenantCheckInterval
	}
	keeper := retention.New(p.bus, cfg)
	p.beside(keeper.Run, watchOpenFiles, func(ctx context.Context) error { return watchWorkspace(ctx, p.Workspace) })
	if p.OwnServer != nil {
		p.beside(func(ctx context.Context) error { return watchDisk(ctx, p.OwnServer) })
	}
	h := &health{bus: p.bus, connection: &p.Connection, trouble: &p.trouble, worker: w, keeper: keeper, slots: p.Worker.Slots}
	switch {
	case p.tenant != nil:
		p.tenant.set(h)
	case p.Health != "":
		stop, err := listenHealth(p.Health, w.Stats().Worker, p.log, h.alive, h.ready, h.metrics)
		if err != nil {
			return nil, err
		}
		p.atEnd(func() error { stop(); return nil })
	}
	return h, nil
}
