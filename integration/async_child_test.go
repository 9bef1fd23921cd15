package integration

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	busworker "github.com/stevedore-bus/stevedore/bus/worker" // the tests have a function of that name
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

// The tests start the test binary itself as the process to kill, because the
// program has no background tool with a duration that the test sets.
const (
	roleEnv    = "STEVEDORE_TEST_ROLE" // worker or notifier
	serverEnv  = "STEVEDORE_TEST_SERVER"
	hookEnv    = "STEVEDORE_TEST_HOOK"
	secretEnv  = "STEVEDORE_TEST_SECRET"
	runsEnv    = "STEVEDORE_TEST_RUNS"
	queueEnv   = "STEVEDORE_TEST_QUEUE"
	nkeyEnv    = "STEVEDORE_TEST_NKEY"
	shortLease = 500 * time.Millisecond
)

// playRole is the main function of the child process.
func playRole(role string) int {
	if role == "nats-server" {
		if err := runServer(); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			return 1
		}
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the child ends with the test process
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(3)
	}()
	if role == "node" {
		if err := serveNode(); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			return 1
		}
		return 0
	}
	cfg := bus.Config{Server: os.Getenv(serverEnv), NKey: os.Getenv(nkeyEnv), Lease: shortLease, Log: zerolog.New(os.Stderr).With().Timestamp().Logger()}
	if cfg.NKey != "" {
		cfg.InboxPrefix = "_INBOX_worker"
	}
	b, err := bus.Connect(ctx, cfg)
	if err == nil {
		defer b.Close()
		switch role {
		case "worker":
			err = workAsync(ctx, b)
		case "notifier":
			err = notifyHook(ctx, b)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

func workAsync(ctx context.Context, b *bus.Bus) error {
	store, err := object.Open(ctx, b.JetStream(), object.Config{Bucket: b.BucketName(bus.BlobsBucket), Records: b.BucketName(bus.ArtifactsBucket)})
	if err != nil {
		return err
	}
	registry := tools.NewRegistry(zerolog.Nop())
	for _, effect := range asyncEffects {
		if err := registry.Register(background{effect, os.Getenv(runsEnv)}); err != nil {
			return err
		}
	}
	return busworker.New(b, registry, offload.NewOffloader(store, offload.Config{}), busworker.Config{
		Queues: []string{cmp.Or(os.Getenv(queueEnv), bus.DefaultQueue)}, Slots: 16, MaxAttempts: 10_000, AskTimeout: 300 * time.Millisecond,
		Name: fmt.Sprint("async-", os.Getpid()), Log: b.Config().Log,
	}).Run(ctx)
}

func notifyHook(ctx context.Context, b *bus.Bus) error {
	hook, err := channel.Open("webhook:url="+os.Getenv(hookEnv)+",secret=env:"+secretEnv, channel.Env{LookupEnv: os.LookupEnv})
	if err != nil {
		return err
	}
	n, err := notify.New(b, notify.Config{Channels: map[string]channel.Channel{"hook": hook}, Default: "hook"})
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

var asyncEffects = []tools.Effect{tools.Once, tools.Keyed, tools.Idempotent}

// background is an async tool. It takes as long as its argument says, and appends
// a line to a file when it ran.
type background struct {
	effect tools.Effect
	runs   string
}

func (j background) Definition() tools.Definition {
	return tools.Definition{Name: "background_" + string(j.effect), Description: "takes its time", Effect: j.effect}
}

func (j background) Execute(context.Context, tools.Call) *tools.Result {
	return tools.ErrorResult("this goes on in the background only")
}

func (j background) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() { callback(ctx, j.work(ctx, call)) }()
	return tools.AsyncResult("Task started in background")
}

func (j background) work(ctx context.Context, call tools.Call) *tools.Result {
	var in struct {
		MS   int
		Size int
	}
	f, err := os.OpenFile(j.runs, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(call.ID + "\n")
		err = errors.Join(err, f.Close(), json.Unmarshal(call.Args, &in))
	}
	if err != nil {
		return tools.Failure(err)
	}
	select {
	case <-time.After(time.Duration(in.MS) * time.Millisecond):
	case <-ctx.Done():
		return tools.Failure(ctx.Err())
	}
	return &tools.Result{ForLLM: "report of " + call.ID + strings.Repeat(" word", in.Size), UserContent: tools.UserContent{ForUser: "report of " + call.ID}}
}

// child is a process of the test binary.
type child struct {
	cmd    *exec.Cmd
	stderr *lockedBuffer
	exited chan struct{}
}

// startChild starts a child that ends with the test at the latest.
func startChild(t *testing.T, role string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{exec.Command(exe), &lockedBuffer{}, make(chan struct{})}
	c.cmd.Env = append(append(cleanEnvironment(), roleEnv+"="+role), env...)
	c.cmd.Stderr = c.stderr
	if _, err := c.cmd.StdinPipe(); err != nil { // closed when this process ends
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // mostly killed
		close(c.exited)
	}()
	t.Cleanup(func() {
		c.kill()
		if last := lastLine(c.stderr.String()); last != "" && t.Failed() {
			t.Logf("the last line of a process %s: %.500s", role, last)
		}
	})
	return c
}

// kill sends SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // the process may have ended already
	<-c.exited
}
