package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/heartbeat"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// processOptions are the settings of a process that works: up and serve.
type processOptions struct {
	connection cli.Connection
	logging    cli.Logging
	worker     worker.Config
	offload    offload.Config
	agent      agentOptions
	outside    outsideOptions
	workspace  string
	only       []string // of the tools; empty is all
	health     string
	noTicks    bool
	noNotify   bool
	channels   channelOptions
	store      string
	ttl        time.Duration
	quota      int64
	lease      time.Duration
	maxBytes   int64
	// heartbeat is kept by up only; beside a cluster, cmd/heartbeat does it.
	heartbeat *cli.Heartbeat
}

func (o *processOptions) addFlags(flags *pflag.FlagSet) {
	o.connection.AddFlags(flags)
	o.logging.AddFlags(flags)
	cli.Topic(flags, cli.TopicModels, o.agent.addFlags)
	o.outside.addFlags(flags)
	flags.StringVar(&o.workspace, "workspace", ".", "`DIR` that the file tools see, and nothing outside of it; shell starts there but is not confined to it")
	flags.StringSliceVar(&o.worker.Queues, "queue", []string{bus.DefaultQueue}, "`QUEUE`s to serve")
	flags.StringSliceVar(&o.only, "tools", nil, "`TOOL`s to offer, and no others; give such a worker a --queue of its own, because it answers calls of other tools as unknown")
	flags.BoolVar(&o.noTicks, "no-ticks", false, "leave the ticks of cron jobs and heartbeats to other workers")
	flags.BoolVar(&o.noNotify, "no-notify", false, "leave notifications to other workers")
	flags.StringVar(&o.worker.Name, "name", "", "`NAME` of this worker in events; default HOST-PID")
	flags.IntVar(&o.worker.Slots, "slots", 64, "`NUMBER` of calls of a queue that run at once")
	flags.IntVar(&o.worker.MaxAttempts, "max-attempts", 5, "`NUMBER` of deliveries after which a call is a dead letter; an agent's, if it gets no further")
	flags.DurationVar(&o.worker.Grace, "grace", 20*time.Second, "`TIME` that running calls get after a stop")
	flags.DurationVar(&o.lease, "lease", 30*time.Second, "`TIME` after which the calls of a silent worker go to another; set when the consumer is created")
	flags.StringVar(&o.health, "health", "", "`HOST:PORT` that answers /healthz, /readyz and /metrics over HTTP, for probes and Prometheus; none is off")
	o.channels.addFlags(flags)
	cli.Topic(flags, cli.TopicOffloading, o.addOffloadFlags)
	flags.Int64Var(&o.maxBytes, "max-bytes", 0, "`BYTES` that each stream may hold, results four times as much, where they are created; default 1 GiB, or what the disk has room for")
}

func (o *processOptions) addOffloadFlags(flags *pflag.FlagSet) {
	o.addStoreFlags(flags)
	flags.Int64Var(&o.quota, "artifact-quota", 0, "`BYTES` that artifacts may take; 0 is no limit")
	flags.BoolVar(&o.offload.Disabled, "no-offload", false, "keep every result in the prompt")
	flags.Int64Var(&o.offload.Threshold, "offload-threshold", 8_000, "`TOKENS` above which a result is offloaded")
	flags.Int64Var(&o.offload.InlineChars, "offload-inline", 40_000, "`CHARACTERS` below which an offloaded result is shown whole all the same")
	flags.StringSliceVar(&o.offload.Allow, "offload-tools", nil, "`TOOL`s, or TOOL:ACTION, whose results are always offloaded")
}

// addStoreFlags adds what a sweep must know of the store as well.
func (o *processOptions) addStoreFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.store, "store", "object:", "where artifacts are kept: object:BUCKET (on the bus) or disk:DIR")
	flags.DurationVar(&o.ttl, "artifact-ttl", 7*24*time.Hour, "`TIME` that an artifact is kept after it was last read")
}

// check refuses settings that make no sense before anything is started.
func (o *processOptions) check() error {
	if err := checkQueues(o.worker.Queues); err != nil {
		return err
	}
	switch {
	case len(o.worker.Queues) == 0:
		return cli.Exit(cli.ExitUsage, "--queue: name at least one")
	case o.worker.Slots < 1:
		return cli.Exit(cli.ExitUsage, "--slots %d: want 1 or more", o.worker.Slots)
	case o.worker.MaxAttempts < 1:
		return cli.Exit(cli.ExitUsage, "--max-attempts %d: want 1 or more", o.worker.MaxAttempts)
	case o.lease < time.Second:
		return cli.Exit(cli.ExitUsage, "--lease %s: want 1s or more", o.lease)
	case o.worker.Grace <= 0:
		return cli.Exit(cli.ExitUsage, "--grace %s: want more than 0s", o.worker.Grace)
	}
	if err := o.agent.check(); err != nil {
		return err
	}
	if info, err := os.Stat(o.workspace); err != nil {
		return cli.Exit(cli.ExitUsage, "--workspace: %w", err)
	} else if !info.IsDir() {
		return cli.Exit(cli.ExitUsage, "--workspace %q is no directory", o.workspace)
	}
	return o.connection.Check()
}

func checkQueues(queues []string) error {
	for _, queue := range queues {
		if !tools.IsToken(queue) {
			return cli.Exit(cli.ExitUsage, "--queue %q: want the form %s", queue, tools.TokenForm)
		}
	}
	return nil
}

func (o *processOptions) queueNames() string { return strings.Join(o.worker.Queues, ", ") }

// busConfig is the connection's configuration, without an address.
func (o *processOptions) busConfig(log zerolog.Logger) bus.Config {
	cfg := o.connection.Config
	cfg.Name, cfg.Log, cfg.Lease, cfg.MaxBytes = "stevedore worker", log, o.lease, o.maxBytes
	return cfg
}

// A result event must fit what the server takes, headers included.
const (
	defaultMaxResult = 512 << 10 // of offload.Config
	publishMargin    = 64 << 10
)

// run puts the parts together and works until ctx ends. ready is called when
// the process can be used; what it returns is called at the end.
func (o *processOptions) run(ctx context.Context, b *bus.Bus, log zerolog.Logger, stdout io.Writer, ready func() (func() error, error), extra ...tools.Tool) (err error) {
	provisioned, err := b.Provision(ctx, false)
	if err != nil {
		return err
	}
	for _, d := range provisioned.Differences {
		log.Warn().Str("stream", d.Name).Str("setting", d.Setting).Str("have", d.Have).Str("want", d.Want).Msg("stream differs; see worker provision")
	}
	store, closeStore, err := o.openStore(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	reader := offload.NewReader(store, offload.ReaderConfig{JQCommand: jqCommand()})
	facts, err := o.openState(ctx, b, log)
	if err != nil {
		return err
	}
	notifier, err := o.notifier(b, facts, stdout, log)
	if err != nil {
		return err
	}
	outside, err := o.outside.tools(ctx, b, notifier, o.agent.prompts(), log)
	if err != nil {
		return err
	}
	registry, closeTools, err := o.tools(log, reader, append(outside, extra...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeTools()) }()
	agents, err := o.agent.tools(b, store, registry.Definitions, log)
	if err != nil {
		return err
	}
	if err := registry.Register(agents...); err != nil {
		return err
	}
	if len(o.only) > 0 {
		if err := registry.Keep(o.only...); err != nil {
			return cli.Exit(cli.ExitUsage, "--tools: %w", err)
		}
	}
	o.worker.Queues = append(o.worker.Queues, o.agent.queues()...)

	o.offload.Log, o.worker.Log, o.worker.State = log, log, facts
	if room := int(b.Conn().MaxPayload()) - publishMargin; room < defaultMaxResult {
		o.offload.MaxResult = room
	}
	o.worker.Ticks = !o.noTicks
	w := worker.New(b, registry, offload.NewOffloader(store, o.offload), o.worker)
	serving := make(chan struct{})
	service := rpc.NewService(b, reader, rpc.ServiceConfig{
		Version: semanticVersion(), Log: log, OnReady: func() { close(serving) },
		Metadata: map[string]string{"worker": w.Stats().Worker, "queues": strings.Join(o.worker.Queues, ",")},
		Stats:    func() any { return w.Stats() },
	})
	watched := &health{bus: b, worker: w, slots: o.worker.Slots}
	if o.health != "" {
		stop, err := watched.listen(o.health, log)
		if err != nil {
			return err
		}
		defer stop()
	}

	parts := []func(context.Context) error{
		w.Run,
		service.Run,
		func(ctx context.Context) error { return sweep(ctx, store, log) },
		func(ctx context.Context) error { return untilClosed(ctx, b) },
	}
	if !o.noNotify {
		if err := notifier.Register(ctx); err != nil {
			return err
		}
		parts = append(parts, notifier.Run)
	}
	if o.heartbeat != nil {
		cfg, err := o.heartbeat.Configuration()
		if err != nil {
			return err
		}
		cfg.Workspace, cfg.Log = o.workspace, log
		if cfg.Tool == "" && o.agent.enabled() {
			// Fresh, or the conversation would grow with every tick.
			cfg.Tool, cfg.Queue, cfg.PromptArg, cfg.Args = agent.AgentTool, agentQueue, "prompt", json.RawMessage(`{"fresh":true}`)
		}
		if err := cfg.Validate(); err != nil {
			return cli.Exit(cli.ExitUsage, "%w", err)
		}
		parts = append(parts, func(ctx context.Context) error { return heartbeat.Run(ctx, b, cfg) })
	}

	parts = append(parts, func(ctx context.Context) error {
		select {
		case <-serving:
		case <-ctx.Done():
			return nil
		}
		withdraw, err := ready()
		if err != nil {
			return err
		}
		watched.serving.Store(true)
		<-ctx.Done()
		watched.serving.Store(false)
		return withdraw()
	})
	asked := ctx
	parts = append(parts, func(ctx context.Context) error {
		<-ctx.Done()
		if asked.Err() != nil { // else something failed, and is reported
			o.sayStop(w.Stats(), log)
		}
		return nil
	})
	return together(ctx, parts...)
}

// sayStop says what the process still waits for after it was asked to end.
func (o *processOptions) sayStop(s worker.Stats, log zerolog.Logger) {
	calls := 0
	for _, q := range s.Queues {
		calls += q.Running
	}
	level := zerolog.InfoLevel
	if calls > 0 {
		level = zerolog.WarnLevel
	}
	log.WithLevel(level).Int("calls", calls).Stringer("grace", o.worker.Grace).
		Msg("stopping: the calls that run get the grace time to finish; a second interrupt or SIGTERM ends the process at once")
}

// outlive lets a process go on when nobody reads its standard output any more. A
// pipe whose reader went has none again, so that what the console had to deliver
// later, for as long as a notification is tried, would only fill log and outbox.
func outlive(stdout io.Writer, log zerolog.Logger) io.Writer {
	return cli.Outlive(stdout, func(err error) {
		log.Warn().Err(err).Msg("nobody reads the standard output any more; what goes to the console is dropped from now on, see --default-channel")
	})
}

// tools are the built-in ones, those that read artifacts back, and extra ones.
func (o *processOptions) tools(log zerolog.Logger, reader *offload.Reader, extra []tools.Tool) (*tools.Registry, func() error, error) {
	web, err := o.outside.web()
	if err != nil {
		return nil, nil, err
	}
	all, closeTools, err := builtin.Tools(builtin.Config{Workspace: o.workspace, Web: web})
	if err != nil {
		return nil, nil, err
	}
	all = append(append(all, reader.Tools()...), extra...)
	registry := tools.NewRegistry(log)
	if err := registry.Register(all...); err != nil {
		return nil, nil, errors.Join(err, closeTools())
	}
	return registry, closeTools, nil
}

// untilClosed ends the process when the connection is given up for good: a
// worker that can do nothing must not look alive.
func untilClosed(ctx context.Context, b *bus.Bus) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.Closed():
		return b.ClosedErr()
	}
}

// together runs all parts until ctx ends or one of them fails, and returns when
// all of them returned.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		group.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
