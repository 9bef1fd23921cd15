//go:build unix

package agents

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// The test binary is also the worker process that the tests kill. These variables
// configure it; it is a worker if the first one is set.
const (
	agentChildEnv   = "STEVEDORE_TEST_AGENT_URL"     // URL of the server
	agentModelEnv   = "STEVEDORE_TEST_AGENT_MODEL"   // base URL of the fake provider
	agentRunsEnv    = "STEVEDORE_TEST_AGENT_RUNS"    // file in which the tools record their runs
	agentDieEnv     = "STEVEDORE_TEST_AGENT_DIE"     // probability of a kill at each step
	agentContextEnv = "STEVEDORE_TEST_AGENT_CONTEXT" // context limit in tokens
	agentTurnsEnv   = "STEVEDORE_TEST_AGENT_LIFE"    // if set, the process dies before it asks for one turn more, see dieAfterTurns
	agentLeaseEnv   = "STEVEDORE_TEST_AGENT_LEASE"   // of the calls; default agentLease
	agentDeathsEnv  = "STEVEDORE_TEST_AGENT_DEATHS"  // file in which dieAfterTurns records the deaths
)

func TestMain(m *testing.M) {
	if os.Getenv(agentChildEnv) != "" {
		os.Exit(agentChild())
	}
	os.Exit(slow.RunWaiting(m))
}

const agentLease = 500 * time.Millisecond

func agentChild() int {
	if err := runAgentChild(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func runAgentChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// The process exits when the test process ends, even if the test is killed.
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(3)
	}()
	lease, err := time.ParseDuration(cmp.Or(os.Getenv(agentLeaseEnv), agentLease.String()))
	if err != nil {
		return err
	}
	b, err := bus.Connect(ctx, bus.Config{Server: os.Getenv(agentChildEnv), Lease: lease})
	if err != nil {
		return err
	}
	defer b.Close()
	store, err := object.Open(ctx, b.JetStream(), object.Config{Bucket: b.BucketName(bus.BlobsBucket), Records: b.BucketName(bus.ArtifactsBucket)})
	if err != nil {
		return err
	}
	die, err := dieSomewhere(os.Getenv(agentDieEnv))
	if err != nil {
		return err
	}

	model, err := provider.NewAnthropic("m", provider.Config{BaseURL: os.Getenv(agentModelEnv)})
	if err != nil {
		return err
	}
	recorder, err := notify.New(b, notify.Config{Conversations: dyingRecorder{NewConversations(b, stateOf(b), nil), die}})
	if err != nil {
		return err
	}
	go func() {
		if err := recorder.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "child: notifier:", err)
		}
	}()
	registry := tools.NewRegistry(zerolog.Nop())
	setup := NewToolsConfig(b, store, zerolog.New(os.Stderr).Level(zerolog.ErrorLevel))
	setup.Definitions, setup.DefaultModel = registry.Definitions, "m"
	setup.Models = map[string]agent.Provider{"m": model}
	notifier, err := notify.New(b, notify.Config{})
	if err != nil {
		return err
	}
	send := OutputSender(notifier)
	setup.Config.ToolOutput = agent.OutputAll
	setup.Config.SendOutput = func(ctx context.Context, call tools.Call, res tools.Result) error {
		err := send(ctx, call, res)
		die()
		return err
	}
	if setup.Config.ContextTokens, err = strconv.ParseInt(os.Getenv(agentContextEnv), 10, 64); err != nil {
		return err
	}
	setup.Config.Limits.MaxTurns = 1000
	setup.Config.PollInterval = 50 * time.Millisecond
	maxAttempts := 10_000 // so often that no step is made in between
	dieAfterTurns := func(string) {}
	if turns := os.Getenv(agentTurnsEnv); turns != "" {
		maxAttempts = 5
		if dieAfterTurns, err = diesAfterTurns(turns, os.Getenv(agentDeathsEnv)); err != nil {
			return err
		}
	}
	steps := func(step string) {
		dieAfterTurns(step)
		switch step {
		case "compact", "summarize", "log_summary": // these are rare
			for range 200 {
				die()
			}
		}
		die()
	}
	toolset, err := agent.Tools(setup)
	if err != nil {
		return err
	}
	for _, effect := range []tools.Effect{tools.Once, tools.Idempotent} {
		toolset = append(toolset, echoTool(string(effect), effect))
	}
	toolset = append(toolset, offload.NewReader(store, offload.ReaderConfig{}).Tools()...)
	if err := registry.Register(toolset...); err != nil {
		return err
	}
	return worker.New(b, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{
		Queues: append([]string{bus.DefaultQueue}, Queues(2)...), Slots: 32, MaxAttempts: maxAttempts,
		AskTimeout: 300 * time.Millisecond,
	}).Run(tracing.OnStep(ctx, steps))
}

// dyingRecorder kills the process before or after it adds a completion to a conversation.
type dyingRecorder struct {
	Conversations
	die func()
}

func (r dyingRecorder) Completed(ctx context.Context, session, call string, event tools.ResultEvent) error {
	for range 50 { // completions are rare
		r.die()
	}
	err := r.Conversations.Completed(ctx, session, call, event)
	for range 50 {
		r.die()
	}
	return err
}

// dieSomewhere returns a function that kills the process with this probability.
func dieSomewhere(probability string) (func(), error) {
	p, err := strconv.ParseFloat(probability, 64)
	if err != nil {
		return nil, err
	}
	return func() {
		if rand.Float64() < p {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, nil
}

// maxDeaths is how often dieAfterTurns kills a process.
const maxDeaths = 8

// diesAfterTurns returns a function that kills the process when it asks the model for more
// than a number of turns, maxDeaths times in all processes.
func diesAfterTurns(turns, deaths string) (func(string), error) {
	limit, err := strconv.Atoi(turns)
	if err != nil {
		return nil, err
	}
	asked := 0
	return func(step string) {
		if step != "ask" {
			return
		}
		if asked++; asked <= limit {
			return
		}
		f, err := os.OpenFile(deaths, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() >= maxDeaths {
			return
		}
		if _, err := f.WriteString("x"); err == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, nil
}

// echoTool returns a tool that answers with the session of its call and records its run.
func echoTool(name string, effect tools.Effect) tools.Tool {
	tool, err := tools.NewTool(name, "echoes", func(_ context.Context, call tools.Call, in struct {
		N int `json:"n"`
	}) *tools.Result {
		f, err := os.OpenFile(os.Getenv(agentRunsEnv), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s %s/%s\n", name, call.Session, call.ID)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return tools.Failure(err)
		}
		return tools.UserResult(fmt.Sprintf("echo %d for <%s>", in.N, call.Session))
	})
	if err != nil {
		panic(err)
	}
	return tool.WithEffect(effect)
}

// workerProcesses runs a number of worker processes, and restarts killed ones, until the test ends.
type workerProcesses struct{ deaths chan struct{} }

func startWorkers(t *testing.T, size int, env ...string) *workerProcesses {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &workerProcesses{deaths: make(chan struct{}, 100_000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, size)
	for range size {
		go func() {
			for ctx.Err() == nil {
				cmd := exec.CommandContext(ctx, exe)
				cmd.Env = append(os.Environ(), env...)
				cmd.Stderr = os.Stderr
				stdin, err := cmd.StdinPipe() // closed when this process ends
				if err == nil {
					err = cmd.Run()
					_ = stdin.Close()
				}
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					done <- fmt.Errorf("worker process: %w", err)
					return
				}
				c.deaths <- struct{}{}
			}
			done <- nil
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range size {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// runsOf counts the runs that the tools recorded.
func runsOf(t *testing.T, file string) map[string]int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(data)) {
		runs[strings.TrimSpace(line)]++
	}
	return runs
}
