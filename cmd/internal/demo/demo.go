// Package demo is "worker demo": it shows the main job of Stevedore once, on the files
// of a directory.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
)

// Run runs the demo on a temporary data directory.
func Run(ctx context.Context, o process.Options, stdout, stderr io.Writer) (err error) {
	log, err := o.Logging.Logger(stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stevedore-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := chooseModel(&o.Agents, dir); err != nil {
		return err
	}
	// Small enough that a small directory has something big, too.
	o.Offload.Threshold, o.Offload.InlineChars = 500, 2_000
	o.Connection.Data = filepath.Join(dir, "data")
	server, closeServer, err := process.Embed(o.Connection.Data, "", true, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	b, err := bus.Connect(ctx, server.ClientConfig(o.BusConfig(log)))
	if err != nil {
		return err
	}
	defer b.Close()
	// The client of the demonstration has a connection of its own.
	client, err := bus.Connect(ctx, server.ClientConfig(bus.Config{Name: "stevedore demo", Log: log}))
	if err != nil {
		return err
	}
	defer client.Close()

	count, err := newCountTool(o.Workspace)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// A demonstration that nobody watches ends, after it has cleaned up.
	errUnwatched := cli.Exit(cli.ExitFailed, "")
	stdout = cli.SurviveClosedPipe(stdout, func(error) { stop(errUnwatched) })
	d := &demonstration{bus: client, out: stdout, workspace: o.Workspace, model: o.Agents.Models[0]}
	err = process.Together(ctx,
		func(ctx context.Context) error {
			return o.Run(ctx, b, log, stdout, func() (func() error, error) { return func() error { return nil }, nil }, count)
		},
		func(ctx context.Context) error {
			defer stop(nil)
			return d.play(ctx)
		},
	)
	if context.Cause(ctx) == errUnwatched {
		return errUnwatched
	}
	return err
}

// demonstration is a client that shows what it does.
type demonstration struct {
	bus       *bus.Bus
	out       io.Writer
	workspace string
	model     string
}

const demoSession = "demo"

func (d *demonstration) play(ctx context.Context) error {
	where, err := filepath.Abs(d.workspace)
	if err != nil {
		return err
	}
	d.say("Stevedore demo: a NATS server, a worker and the notifier are running in this process.\n")

	d.say("1. A client publishes a call. The tool is grep, and it finds every line of %s:", where)
	d.say("   %s  {\"id\":\"toolu_1\",\"session\":\"demo\",\"args\":{\"pattern\":\"\\\\S\",\"max_results\":100000}}\n", d.bus.Call(bus.DefaultQueue, "grep"))
	force := true
	big, err := rpc.Submit(ctx, d.bus, bus.DefaultQueue, tools.Call{
		ID: "toolu_1", Session: demoSession, Tool: "grep", Offload: &force,
		Args: json.RawMessage(`{"pattern":"\\S","max_results":100000}`),
	})
	if err != nil {
		return err
	}
	if big.IsError || big.Artifact == nil {
		return fmt.Errorf("demo: grep answered: %s", tools.Excerpt(big.ForLLM, 500))
	}
	a := big.Artifact
	d.say("2. The worker offloads the result. What the model sees of its %s characters, on %s:\n", thousands(a.Chars), d.bus.Result(demoSession, "toolu_1"))
	d.quote(big.ForLLM)

	middle := a.Lines / 2
	d.say("\n3. The model reads back what it needs, over the bus. Five lines from the middle:\n")
	lines, err := d.read(ctx, "lines", rpc.ReadRequest{ArtifactID: a.ID, StartLine: max(middle-2, 1), EndLine: middle + 2})
	if err != nil {
		return err
	}
	d.say("\n   And a search in it:\n")
	in := rpc.ReadRequest{ArtifactID: a.ID}
	in.Pattern, in.IgnoreCase, in.MaxResults = `license`, true, 3
	found, err := d.read(ctx, "grep", in)
	if err != nil {
		return err
	}

	d.say("\n4. A job in the background. Its first answer comes at once:\n")
	job := tools.Call{ID: "toolu_2", Session: demoSession, Tool: countTool}
	started, err := rpc.Submit(ctx, d.bus, bus.DefaultQueue, job)
	if err != nil {
		return err
	}
	d.quote(started.ForLLM)
	d.say("\n   When it is done, the notifier brings its completion to the user's channel, this console:\n")
	if _, err := rpc.AwaitCompletion(ctx, d.bus, job); err != nil {
		return err
	}
	d.awaitNotification(ctx, 1)

	switch scripted := strings.HasPrefix(d.model, "script:"); {
	case a.Chars < 4_000:
		d.say("\nThis directory is too small for the agent's part; run the demo in a larger one.")
	case scripted && !strings.Contains(found, "\n"):
		d.say("\nWith nothing said of a license here, the script that plays the agent has nothing to do; try a real model.")
	default:
		if err := d.agent(ctx, strings.SplitN(d.model, ":", 2)[0]); err != nil {
			return err
		}
	}

	seen := int64(utf8.RuneCountInString(big.ForLLM + lines + found))
	d.say("\nKept out of the context in steps 1 to 3: %s of %s characters, about %s tokens. The model read %s characters.",
		thousands(max(a.Chars-seen, 0)), thousands(a.Chars), thousands(max(a.Tokens-seen*2/5, 0)), thousands(seen))
	d.say("The temporary data directory is removed. Next: worker up, and worker --help.")
	return nil
}

// read asks a worker to read the artifact, and shows and returns the answer.
func (d *demonstration) read(ctx context.Context, function string, in rpc.ReadRequest) (string, error) {
	body, err := rpc.Request(ctx, d.bus, d.bus.RPC("artifact", demoSession, function), in)
	if err != nil {
		return "", err
	}
	var answer struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	d.quote(answer.Text)
	return answer.Text, nil
}

// awaitNotification gives the notifier the time to bring n notifications here,
// all of this demonstration.
func (d *demonstration) awaitNotification(ctx context.Context, n uint64) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; {
		stream, err := d.bus.JetStream().Stream(ctx, d.bus.StreamName(bus.Outbox))
		if err == nil && stream.CachedInfo().State.LastSeq >= n && stream.CachedInfo().State.Msgs == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (d *demonstration) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// quote shows a text indented, with long lines cut: they are the demo's, not
// the product's.
func (d *demonstration) quote(text string) {
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		fmt.Fprintf(d.out, "   | %s\n", cli.Printable(d.out, tools.Excerpt(strings.TrimSuffix(line, "\n"), 160)))
	}
}

// thousands writes a number in groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
