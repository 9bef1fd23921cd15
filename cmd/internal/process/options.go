package process

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Options are the settings of a worker process.
type Options struct {
	Connection  cli.Connection
	Logging     cli.Logging
	Worker      worker.Config
	Offload     offload.Config
	Agents      AgentOptions
	External    ExternalOptions
	MCP         MCPOptions
	Shell       ShellOptions
	Channels    ChannelOptions
	Receive     ReceiveOptions
	Approvals   ApprovalOptions
	Store       StoreOptions
	Workspace   string
	Tools       []string // that the worker offers; empty means all
	Health      string   // HOST:PORT of the health server; empty means none
	NoTicks     bool
	NoNotify    bool
	Lease       time.Duration
	MinAge      time.Duration // of what workers remove from nearly full streams
	SessionsTTL time.Duration
	OwnServer   *embedded.Server // the server that runs in this process, if one does
	Heartbeat   *cli.Heartbeat   // nil if another process schedules the heartbeat
	tenant      *tenant          // nil unless this process serves many tenants

	otherZones []string
	weights    []string      // of --session-weight
	settings   []*pflag.Flag // the flags of the worker, which are not those of the connection and of logging
}

// AddFlags adds the flags of all options except Heartbeat.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Connection.AddFlags(flags)
	o.Logging.AddFlags(flags)
	shared := map[*pflag.Flag]bool{}
	flags.VisitAll(func(f *pflag.Flag) { shared[f] = true })
	cli.Topic(flags, cli.TopicModels, o.Agents.AddFlags)
	o.External.AddFlags(flags)
	o.MCP.AddFlags(flags)
	cli.Topic(flags, cli.TopicShell, o.Shell.AddFlags)
	flags.StringVar(&o.Workspace, "workspace", ".", "`DIR` that the tools can read and write, and nothing outside it; see \"help shell\" for commands")
	flags.StringSliceVar(&o.Worker.Queues, "queue", []string{bus.DefaultQueue}, "`QUEUE`s to take calls from")
	flags.StringSliceVar(&o.otherZones, "other-zone", nil, "`ZONE`s whose calls this worker takes if no worker of their --zone is free")
	flags.StringSliceVar(&o.Tools, "tools", nil, "`TOOL`s to offer, and no others; give this worker its own --queue, because handing the calls of other tools to other workers takes time")
	flags.BoolVar(&o.NoTicks, "no-ticks", false, "leave the ticks of cron jobs and heartbeats to other workers")
	flags.BoolVar(&o.NoNotify, "no-notify", false, "leave notifications to other workers")
	flags.StringVar(&o.Worker.Name, "name", "", "`NAME` of this worker in events; default HOST-PID")
	flags.IntVar(&o.Worker.Slots, "slots", 64, "`NUMBER` of calls that run at once, for each queue")
	flags.IntVar(&o.Worker.SessionSlots, "session-slots", 0, "`NUMBER` of calls of one session that run at once, for each queue; 0 means no limit")
	flags.StringSliceVar(&o.weights, "session-weight", nil, "`SESSION=WEIGHT`s: what the sessions get of what others get if calls wait, such as batch-*=0.2 or vip=4")
	flags.IntVar(&o.Worker.MaxAttempts, "max-attempts", 5, "`NUMBER` of attempts after which a call becomes a dead letter; for agent calls, only attempts without progress count")
	flags.DurationVar(&o.Worker.Grace, "grace", 20*time.Second, "`TIME` that running calls get to finish after a stop")
	flags.DurationVar(&o.Lease, "lease", 30*time.Second, "`TIME` after which the calls of a dead worker move to another one; used only when the queue is first created")
	flags.StringVar(&o.Health, "health", "", "`HOST:PORT` of an HTTP server for /healthz, /readyz and /metrics (probes and Prometheus); default off")
	o.Channels.AddFlags(flags)
	o.Receive.AddFlags(flags)
	o.Approvals.AddFlags(flags)
	cli.Topic(flags, cli.TopicOffloading, o.addOffloadFlags)
	cli.MaxBytesFlag(flags, &o.Connection.Config, ", or less if the disk is small")
	flags.DurationVar(&o.Connection.ResultsTTL, "results-ttl", 0, "`TIME` that results are kept, or until their stream needs the space; default 168h (7 days)")
	flags.DurationVar(&o.SessionsTTL, "sessions-ttl", retention.DefaultSessionsTTL, "`TIME` that a conversation is kept after its last entry, or until the stream needs the space")
	flags.DurationVar(&o.MinAge, "min-age", retention.DefaultMinAge, "`TIME` for which results and conversations are kept if their streams hold it")
	flags.VisitAll(func(f *pflag.Flag) {
		if !shared[f] {
			o.settings = append(o.settings, f)
		}
	})
}

func (o *Options) addOffloadFlags(flags *pflag.FlagSet) {
	o.Store.AddFlags(flags)
	flags.Int64Var(&o.Store.quota, "artifact-quota", 0, "`BYTES` that all artifacts may take; 0 means no limit")
	flags.BoolVar(&o.Offload.Disabled, "no-offload", false, "keep every result in the prompt")
	AddOffloadFlags(flags, &o.Offload)
	flags.StringSliceVar(&o.Offload.Always, "offload-tools", nil, "`TOOL`s, or TOOL:ACTION, whose results are always offloaded")
}

// AddOffloadFlags adds the flags that say which results are big.
func AddOffloadFlags(flags *pflag.FlagSet, cfg *offload.Config) {
	flags.Int64Var(&cfg.Threshold, "offload-threshold", 8_000, "`TOKENS` above which a result is offloaded")
	flags.Int64Var(&cfg.InlineChars, "offload-inline", 40_000, "`CHARACTERS` below which an offloaded result is still shown in full; for JSON and tables, half of them")
	flags.IntVar(&cfg.Budget, "offload-budget", 100_000,
		"`CHARACTERS` of results in full that a session gets in a minute; above it, those of 4,000 or more are offloaded; 0 means no limit")
}

// CheckOffload returns an error if a flag of AddOffloadFlags is out of its range.
func CheckOffload(cfg offload.Config) error {
	switch {
	case cfg.Threshold < 1:
		return cli.Exit(cli.ExitUsage, "--offload-threshold %d: want 1 or more tokens; --no-offload keeps every result in the prompt", cfg.Threshold)
	case cfg.InlineChars < 1:
		return cli.Exit(cli.ExitUsage, "--offload-inline %d: want 1 or more characters; with 1, no offloaded result is shown in full", cfg.InlineChars)
	}
	if cfg.Budget < 0 {
		return cli.Exit(cli.ExitUsage, "--offload-budget %d: want 0 (no limit) or more characters", cfg.Budget)
	}
	for _, tool := range cfg.Always {
		if name, _, _ := strings.Cut(tool, ":"); !tools.IsToken(name) {
			return cli.Exit(cli.ExitUsage, "--offload-tools %q: want the name of a tool, or TOOL:ACTION", tool)
		}
	}
	return nil
}

// Check returns an error if a setting is invalid. It starts nothing.
func (o *Options) Check() error {
	if err := CheckQueues(o.Worker.Queues); err != nil {
		return err
	}
	switch {
	case len(o.Worker.Queues) == 0:
		return cli.Exit(cli.ExitUsage, "--queue: give at least one queue")
	case o.Worker.Slots < 1:
		return cli.Exit(cli.ExitUsage, "--slots %d: want 1 or more", o.Worker.Slots)
	case o.Worker.SessionSlots < 0:
		return cli.Exit(cli.ExitUsage, "--session-slots %d: want 0 (no limit) or more", o.Worker.SessionSlots)
	case o.Worker.MaxAttempts < 1:
		return cli.Exit(cli.ExitUsage, "--max-attempts %d: want 1 or more", o.Worker.MaxAttempts)
	case o.Lease < time.Second:
		return cli.Exit(cli.ExitUsage, "--lease %s: want 1s or more", o.Lease)
	case o.Connection.ResultsTTL < 0 || o.Connection.ResultsTTL > 0 && o.Connection.ResultsTTL < o.MinAge:
		return cli.Exit(cli.ExitUsage, "--results-ttl %s: want at least --min-age (%s)", o.Connection.ResultsTTL, o.MinAge)
	case o.SessionsTTL < o.MinAge:
		return cli.Exit(cli.ExitUsage, "--sessions-ttl %s: want at least --min-age (%s)", o.SessionsTTL, o.MinAge)
	case o.MinAge < time.Second:
		return cli.Exit(cli.ExitUsage, "--min-age %s: want 1s or more", o.MinAge)
	case o.Worker.Grace <= 0:
		return cli.Exit(cli.ExitUsage, "--grace %s: want more than 0s", o.Worker.Grace)
	}
	if err := errors.Join(o.setWeights(), o.addZones()); err != nil {
		return err
	}
	if err := errors.Join(o.Store.check(), CheckOffload(o.Offload)); err != nil {
		return err
	}
	if err := errors.Join(o.Agents.check(), o.Shell.check()); err != nil {
		return err
	}
	if err := o.Approvals.check(); err != nil {
		return err
	}
	if info, err := os.Stat(o.Workspace); err != nil {
		return cli.Exit(cli.ExitUsage, "--workspace: %w", err)
	} else if !info.IsDir() {
		return cli.Exit(cli.ExitUsage, "--workspace %q is not a directory", o.Workspace)
	}
	if err := o.Connection.CheckData(); err != nil { // also with a server elsewhere: it has the homes of commands
		return err
	}
	return o.Connection.Check()
}

// addZones adds the queues of the zones to those of the worker.
func (o *Options) addZones() error {
	if len(o.otherZones) > 0 && o.Connection.Zone == "" {
		return cli.Exit(cli.ExitUsage, "--other-zone: give this worker a --zone, too")
	}
	if o.Connection.Zone == "" || !slices.Contains(o.Worker.Queues, bus.DefaultQueue) {
		return nil
	}
	for _, zone := range o.otherZones {
		o.Worker.Spare = append(o.Worker.Spare, bus.ZoneQueue(zone))
	}
	o.Worker.Queues = slices.Concat(o.Worker.Queues, []string{bus.ZoneQueue(o.Connection.Zone)}, o.Worker.Spare)
	return CheckQueues(o.Worker.Queues)
}

// CheckQueues returns an error if a queue name is invalid.
func CheckQueues(queues []string) error {
	for _, queue := range queues {
		if !tools.IsToken(queue) {
			return cli.Exit(cli.ExitUsage, "--queue %q: want the form %s", queue, tools.TokenForm)
		}
	}
	return nil
}

// QueueNames returns the queues as one text.
func (o *Options) QueueNames() string { return strings.Join(o.Worker.Queues, ", ") }

// BusConfig returns the configuration of the connection, without an address.
func (o *Options) BusConfig(log zerolog.Logger) bus.Config {
	cfg := o.Connection.Config
	cfg.Name, cfg.Log, cfg.Lease = "stevedore worker", log, o.Lease
	return cfg
}
