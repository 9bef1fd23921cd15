package process

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// Options are the settings of a worker process.
type Options struct {
	Connection cli.Connection
	Logging    cli.Logging
	Worker     worker.Config
	Offload    offload.Config

	Agents    AgentOptions    `topic:"models"`
	External  externalOptions `topic:""`
	MCP       mcpOptions      `topic:""`
	Shell     shellOptions    `topic:"shell"`
	Approvals approvalOptions `topic:""`
	Store     StoreOptions    `topic:"offloading"`
	Channels  ChannelOptions  `topic:""`
	Receive   receiveOptions  `topic:""`

	Workspace   string        `flag:"workspace" default:"." unit:"DIR" help:"DIR that the tools can read and write, and nothing outside it"`
	Tools       []string      `flag:"tools" split:"," unit:"TOOL" help:"TOOLs to offer, and no others; give such a worker its own --queue"`
	OtherZones  []string      `flag:"other-zone" split:"," unit:"ZONE" help:"ZONEs whose calls this worker takes if no worker of theirs is free"`
	Health      string        `flag:"health" unit:"HOST:PORT" help:"HOST:PORT of an HTTP server for /healthz, /readyz and /metrics; default off"`
	NoTicks     bool          `flag:"no-ticks" help:"leave the ticks of cron jobs and heartbeats to other workers"`
	NoNotify    bool          `flag:"no-notify" help:"leave notifications to other workers"`
	Lease       time.Duration `flag:"lease" default:"30s" min:"1s" unit:"TIME" help:"TIME until the calls of a dead worker move; for a queue that is created now"`
	SessionsTTL time.Duration `flag:"sessions-ttl" min:"1s" unit:"TIME" help:"TIME that a conversation is kept after its end, or until the space is needed"`

	OwnServer *embedded.Server // the server that runs in this process, if one does
	Heartbeat *cli.Heartbeat   // nil if another process schedules the heartbeat
	tenant    *tenant          // nil unless this process serves many tenants
	settings  []*pflag.Flag    // the flags of the worker, which are not those of the connection and of logging
}

// queueSettings declares the settings of a worker.Config.
type queueSettings struct {
	Queues       []string      `flag:"queue" default:"default" split:"," unit:"QUEUE" help:"QUEUEs to take calls from"`
	Name         string        `flag:"name" unit:"NAME" help:"NAME of this worker in events; default HOST-PID"`
	Slots        int           `flag:"slots" default:"64" min:"1" unit:"NUMBER" help:"NUMBER of calls that run at once, for each queue"`
	SessionSlots int           `flag:"session-slots" min:"0" unit:"NUMBER" help:"NUMBER of them that run at once of one session; 0 means no limit"`
	MaxAttempts  int           `flag:"max-attempts" default:"5" min:"1" unit:"NUMBER" help:"NUMBER of attempts, of agents: without progress, until a dead letter"`
	Grace        time.Duration `flag:"grace" default:"20s" min:"1ms" unit:"TIME" help:"TIME that running calls get to finish after a stop"`
}

// offloadSettings declares the settings of an offload.Config that say which results are big.
type offloadSettings struct {
	Threshold int64 `flag:"offload-threshold" default:"8000" min:"1" unit:"TOKENS" help:"TOKENS above which a result is offloaded"`
	Budget    int   `flag:"offload-budget" default:"100000" min:"0" unit:"CHARACTERS" help:"CHARACTERS that a session gets in full in a minute; 0 means no limit"`
}

// AddFlags adds the flags of all options except Heartbeat.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Connection.AddFlags(flags)
	o.Logging.AddFlags(flags)
	shared := map[*pflag.Flag]bool{}
	flags.VisitAll(func(f *pflag.Flag) { shared[f] = true })
	o.Agents.System, o.Agents.MaxTokens = defaultSystem, agent.DefaultMaxTokens
	o.Shell.Mode = string(sandbox.DefaultMode)
	o.SessionsTTL = retention.DefaultSessionsTTL
	cli.AddSettings(flags, o)
	cli.AddSettingsOf(flags, &o.Worker, queueSettings{}, "")
	AddOffloadFlags(flags, &o.Offload)
	cli.AddSettingsOf(flags, &o.Offload, struct {
		Disabled bool     `flag:"no-offload" help:"keep every result in the prompt"`
		Always   []string `flag:"offload-tools" split:"," unit:"TOOL" help:"TOOLs, or TOOL:ACTION, whose results are always offloaded"`
	}{}, cli.TopicOffloading)
	cli.MaxBytesFlag(flags, &o.Connection.Config, ", or less if the disk is small")
	AddResultsTTLFlag(flags, &o.Connection)
	flags.VisitAll(func(f *pflag.Flag) {
		if !shared[f] {
			o.settings = append(o.settings, f)
		}
	})
}

// AddOffloadFlags adds the flags that say which results are big.
func AddOffloadFlags(flags *pflag.FlagSet, cfg *offload.Config) {
	cli.AddSettingsOf(flags, cfg, offloadSettings{}, cli.TopicOffloading)
}

// InlineChars is the number of characters below which an offloaded result is still shown in full: five
// for each token of the threshold, which is twice what a token takes.
func InlineChars(cfg offload.Config) int64 { return min(cfg.Threshold, math.MaxInt64/5) * 5 }

// AddResultsTTLFlag adds the flag of the age of results.
func AddResultsTTLFlag(flags *pflag.FlagSet, c *cli.Connection) {
	cli.AddSettingsOf(flags, c, struct {
		ResultsTTL time.Duration `flag:"results-ttl" min:"0s" unit:"TIME" help:"TIME that results are kept, or until the space is needed; default 168h (7 days)"`
	}{}, "")
}

// Check returns an error if a setting is invalid. It starts nothing, and reads no secrets.
func (o *Options) Check() error {
	if err := CheckQueues(o.Worker.Queues); err != nil {
		return err
	}
	if len(o.Worker.Queues) == 0 {
		return cli.Exit(cli.ExitUsage, "--queue: give at least one queue")
	}
	if err := o.checkAgentQueues(); err != nil {
		return err
	}
	for _, tool := range o.Offload.Always {
		if name, _, _ := strings.Cut(tool, ":"); !tools.IsToken(name) {
			return cli.Exit(cli.ExitUsage, "--offload-tools %q: want the name of a tool, or TOOL:ACTION", tool)
		}
	}
	if err := o.addZones(); err != nil {
		return err
	}
	if err := errors.Join(o.Agents.check(), o.Shell.check(), o.Store.check(), o.checkChannels(), errorOf(o.MCP.configs(keepSecret)),
		errorOf(o.External.web()), errorOf(o.External.search(keepSecret)), errorOf(o.External.remotes()), errorOf(o.Approvals.parse())); err != nil {
		return err
	}
	if info, err := os.Stat(o.Workspace); errors.Is(err, fs.ErrNotExist) {
		return cli.Exit(cli.ExitUsage, "--workspace %q does not exist; make the directory, or name another one", o.Workspace)
	} else if err != nil {
		return cli.Exit(cli.ExitUsage, "--workspace: %w", err)
	} else if !info.IsDir() {
		return cli.Exit(cli.ExitUsage, "--workspace %q is not a directory", o.Workspace)
	}
	if o.Heartbeat != nil {
		if _, err := o.Heartbeat.Configuration(o.Workspace); err != nil {
			return err
		}
	}
	if err := o.Connection.CheckData(); err != nil { // also with a server elsewhere: it has the homes of commands
		return err
	}
	return o.Connection.Check()
}

// errorOf returns the error of a parser.
func errorOf[T any](_ T, err error) error { return err }

// addZones adds the queues of the zones to those of the worker.
func (o *Options) addZones() error {
	if len(o.OtherZones) > 0 && o.Connection.Zone == "" {
		return cli.Exit(cli.ExitUsage, "--other-zone: give this worker a --zone, too")
	}
	if o.Connection.Zone == "" || !slices.Contains(o.Worker.Queues, bus.DefaultQueue) {
		return nil
	}
	for _, zone := range o.OtherZones {
		o.Worker.Spare = append(o.Worker.Spare, bus.ZoneQueue(zone))
	}
	o.Worker.Queues = slices.Concat(o.Worker.Queues, []string{bus.ZoneQueue(o.Connection.Zone)}, o.Worker.Spare)
	return CheckQueues(o.Worker.Queues)
}

// checkAgentQueues refuses the queue of agents without what runs them: the worker would end the prompts that wait there.
func (o *Options) checkAgentQueues() error {
	i := slices.IndexFunc(o.Worker.Queues, agents.IsQueue)
	if i < 0 || o.Agents.Enabled() || slices.ContainsFunc(o.External.Remotes, func(tool string) bool { return strings.HasPrefix(tool, agent.AgentTool+"=") }) {
		return nil
	}
	return cli.Exit(cli.ExitUsage, "--queue %s: a worker without a --model would end the prompts in the queue of agents; give --model instead, with which "+
		"it serves that queue, too", o.Worker.Queues[i])
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

// NotifyIfAsked leaves notifications to other workers if the flags name no channel: nobody reads the console.
func (o *Options) NotifyIfAsked(flags *pflag.FlagSet) {
	o.NoNotify = o.NoNotify || !flags.Changed("channel") && !flags.Changed("default-channel")
}

// minAge is the age up to which workers remove nothing from streams that hold it: an hour, or less
// if results or conversations are kept for less.
func (o *Options) minAge() time.Duration {
	age := min(retention.DefaultMinAge, o.SessionsTTL)
	if ttl := o.Connection.ResultsTTL; ttl > 0 {
		age = min(age, ttl)
	}
	return age
}

// BusConfig returns the configuration of the connection, without an address.
func (o *Options) BusConfig(log zerolog.Logger) bus.Config {
	cfg := o.Connection.Config
	cfg.Name, cfg.Log, cfg.Lease = "stevedore worker", log, o.Lease
	cfg.AnyFormat = o.OwnServer != nil // Run moves what is stored
	return cfg
}
