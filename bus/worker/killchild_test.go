//go:build unix

package worker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// The test binary is also the worker process that the tests kill. Then childEnv is
// the server's URL, and the other variables configure the worker.
const (
	childEnv  = "STEVEDORE_TEST_WORKER_URL"
	queuesEnv = "STEVEDORE_TEST_QUEUES"
	dirEnv    = "STEVEDORE_TEST_DIR"
	stepEnv   = "STEVEDORE_TEST_STEP" // STEP or STEP:N, to die at its N-th occurrence
	slotsEnv  = "STEVEDORE_TEST_SLOTS"
	retryEnv  = "STEVEDORE_TEST_RETRY" // retry all dead letters, and die before the N-th write
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(slow.RunAtOnce(m, 12)) // each lease of a worker that was killed is a wait of more than a second
}

// killLease and killAskTimeout let the other workers notice a death early.
const (
	killLease      = 1500 * time.Millisecond
	killAskTimeout = 300 * time.Millisecond
)

func runChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// The process ends with the test process.
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(3)
	}()
	cfg := bus.Config{Server: os.Getenv(childEnv), Lease: killLease}
	if n, err := strconv.Atoi(os.Getenv(retryEnv)); err == nil {
		return retryAndDie(ctx, cfg, n)
	}
	b, err := bus.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	slots := 16
	if n, err := strconv.Atoi(os.Getenv(slotsEnv)); err == nil {
		slots = n
	}
	registry := tools.NewRegistry(zerolog.Nop())
	log := &runLog{dir: os.Getenv(dirEnv)}
	if err := registry.Register(log.tools()...); err != nil {
		return err
	}
	return worker.New(b, registry, workertest.Plain{}, worker.Config{
		Queues: strings.Split(os.Getenv(queuesEnv), ","), Slots: slots, MaxAttempts: 1000,
		AskTimeout: killAskTimeout,
	}).Run(tracing.OnStep(ctx, dieAt(os.Getenv(stepEnv))))
}

// dieAt kills the process at a step.
func dieAt(step string) func(string) {
	name, occurrence := step, 1
	if before, after, ok := strings.Cut(step, ":"); ok {
		name = before
		fmt.Sscan(after, &occurrence)
	}
	var mu sync.Mutex
	return func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if s != name {
			return
		}
		if occurrence--; occurrence == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// child is a worker process.
type child struct {
	cmd *exec.Cmd
}

func startChild(t *testing.T, url, dir, queues, step string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+url, queuesEnv+"="+queues, dirEnv+"="+dir, stepEnv+"="+step)
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stderr = os.Stderr
	if _, err := c.cmd.StdinPipe(); err != nil { // closed when this process ends
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kill() })
	return c
}

// kill kills the process and waits for its end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// awaitKilled waits until the process has killed itself.
func (c *child) awaitKilled(t *testing.T) {
	t.Helper()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the worker process did not kill itself: %v", err)
	}
}

// runLog records executions in a file of one line each, for all processes.
type runLog struct{ dir string }

func (l *runLog) file() string { return filepath.Join(l.dir, "runs") }

func (l *runLog) add(words ...string) {
	f, err := os.OpenFile(l.file(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(strings.Join(words, " ") + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// count returns how often each line was written.
func (l *runLog) count(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(l.file())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(data)) {
		runs[strings.TrimSpace(line)]++
	}
	return runs
}

// recorder is a tool that records its runs. It takes a millisecond, in which the
// process can be killed.
type recorder struct {
	name   string
	effect tools.Effect
	log    *runLog
}

func (r recorder) Definition() tools.Definition {
	return tools.Definition{Name: r.name, Description: "records that it ran", Effect: r.effect}
}

func (r recorder) Execute(ctx context.Context, call tools.Call) *tools.Result {
	r.log.add("run", call.ID)
	<-time.After(time.Millisecond)
	if string(call.Args) == `{"gate":true}` {
		r.awaitGate(ctx, call)
	}
	if string(call.Args) == `{"kill":true}` && os.Getenv(childEnv) != "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return tools.UserResult("answer to " + call.ID)
}

// awaitGate blocks a worker process until the test opens the gate. A worker in the
// test process does not wait, so it can finish first.
func (r recorder) awaitGate(ctx context.Context, call tools.Call) {
	if os.Getenv(childEnv) == "" {
		return
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(r.log.dir, "gate")); err == nil {
			r.log.add("through", call.ID)
			return
		}
		<-time.After(2 * time.Millisecond)
	}
}

// asyncRecorder is a recorder that runs in the background.
type asyncRecorder struct{ recorder }

func (r asyncRecorder) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() { callback(ctx, r.Execute(ctx, call)) }()
	return tools.AsyncResult("started")
}

var effects = []tools.Effect{tools.Once, tools.Keyed, tools.Idempotent}

// tools returns a tool and an async tool for each effect: once, async_once, ...
func (l *runLog) tools() []tools.Tool {
	var all []tools.Tool
	for _, effect := range effects {
		all = append(all, recorder{string(effect), effect, l},
			asyncRecorder{recorder{"async_" + string(effect), effect, l}})
	}
	return all
}

// skipKills skips a test that kills processes: the race detector slows them down and finds
// nothing across them.
func skipKills(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("kills processes")
	}
}

// killBus starts a server that other processes can reach, and connects to it.
func killBus(t *testing.T) (*bus.Bus, string) {
	t.Helper()
	skipKills(t)
	s := bustest.Listen(t)
	return bustest.Connect(t, s, bus.Config{Lease: killLease, Log: bustest.Log(t)}), s.URL()
}

// startConsoleAt starts a notifier with a long lease: if its lease ends while it waits for
// a processor, it sends a notification again.
func startConsoleAt(t *testing.T, url string) testChannel {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Config{Server: url, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return startConsole(t, b)
}

// noDeadLetters fails the test if there are dead letters.
func noDeadLetters(t *testing.T, b *bus.Bus) {
	t.Helper()
	if n := bustest.Messages(t, b, bus.Dead); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
