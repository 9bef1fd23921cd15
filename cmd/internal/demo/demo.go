// Package demo is "stevedore demo": it shows the main features on the files of a directory.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Run runs a worker process on a temporary data directory, and a client that plays the
// demo with it.
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
	if o.Workspace, err = chooseWorkspace(o.Workspace, dir); err != nil {
		return err
	}
	o.Offload.Threshold = 400 // low, for small directories
	o.Connection.Data = filepath.Join(dir, "data")
	if err := o.Check(); err != nil {
		return err
	}
	server, closeServer, err := process.Embed(embedded.Config{Dir: o.Connection.Data, NoSync: true, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeServer()) }()
	b, err := bus.Connect(ctx, server.ClientConfig(o.BusConfig(log)))
	if err != nil {
		return err
	}
	defer b.Close()
	client, err := bus.Connect(ctx, server.ClientConfig(bus.Config{Name: "stevedore demo", Log: log}))
	if err != nil {
		return err
	}
	defer client.Close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	errClosed := cli.Exit(cli.ExitFailed, "") // the reader of stdout is gone
	stdout = cli.SurviveClosedPipe(stdout, func(error) { stop(errClosed) })
	d := &demo{bus: client, out: stdout, workspace: o.Workspace, dir: dir, model: o.Agents.Models[0]}
	err = process.Together(ctx,
		func(ctx context.Context) error {
			return o.Run(ctx, b, log, stdout, func() (func() error, error) { return func() error { return nil }, nil })
		},
		func(ctx context.Context) error {
			defer stop(nil)
			return d.play(ctx)
		},
	)
	if context.Cause(ctx) == errClosed {
		return errClosed
	}
	return err
}

// demo is a client that prints what it does.
type demo struct {
	bus       *bus.Bus
	out       io.Writer
	workspace string
	dir       string // is temporary
	model     string
}

const (
	session  = "demo"
	grepArgs = `{"pattern":"\\S","max_results":100000}`
	minChars = 4_000 // of the grep result; offloading a smaller one saves little
)

// matchedLine matches the number of a line that grep found.
var matchedLine = regexp.MustCompile(`(?m)^(\d+): `)

func (d *demo) play(ctx context.Context) error {
	directory, err := filepath.Abs(d.workspace)
	if err != nil {
		return err
	}
	offload := true
	big, err := rpc.Submit(ctx, d.bus, bus.DefaultQueue, tools.Call{
		ID: "toolu_1", Session: session, Tool: "grep", Offload: &offload, Args: json.RawMessage(grepArgs),
	})
	if err != nil {
		return err
	}
	if big.IsError || big.Artifact == nil {
		return fmt.Errorf("demo: grep answered: %s", tools.Excerpt(big.ForLLM, 500))
	}
	a := big.Artifact
	if a.Chars < minChars {
		return cli.Exit(cli.ExitUsage, "the directory %s is too small for the demo; name a larger one with --workspace DIR", directory)
	}
	d.print("Stevedore demo: a NATS server, a worker and the notifier run in this process.\n")

	if strings.HasPrefix(d.workspace, d.dir) {
		directory = "a sample log, because this directory has few files"
	}
	d.print("1. A client calls grep for all lines of %s:", directory)
	d.print("   %s %s", d.bus.RPC("call", bus.DefaultQueue, "grep"), grepArgs)
	d.print("   The worker offloads the result: %s characters became %s.", thousands(a.Chars), thousands(chars(big.ForLLM)))

	d.print("\n2. The model sees a reference and a preview:")
	d.quote(big.ForLLM, 8, 2)

	d.print("\n3. The model searches the stored result, and reads the lines around the first match:")
	in := rpc.ReadRequest{ArtifactID: a.ID}
	in.Pattern, in.IgnoreCase, in.MaxResults = `license`, true, 20
	found, err := read(ctx, d, rpc.GrepArtifact, in)
	if err != nil {
		return err
	}
	line := int64(1)
	if match := matchedLine.FindStringSubmatch(found); match != nil {
		if line, err = strconv.ParseInt(match[1], 10, 64); err != nil {
			return err
		}
	}
	lines, err := read(ctx, d, rpc.ArtifactLines, rpc.ReadRequest{ArtifactID: a.ID, StartLine: max(line-1, 1), EndLine: line + 1})
	if err != nil {
		return err
	}

	d.print("\n4. An async call returns at once. The notifier delivers its result to the user, here:")
	call := tools.Call{ID: "toolu_2", Session: session, Tool: agent.SpawnTool, Args: json.RawMessage(`{"task":"` + task + `","delivery":"user"}`)}
	if _, err := rpc.Submit(ctx, d.bus, bus.DefaultQueue, call); err != nil {
		return err
	}
	if _, err := rpc.AwaitCompletion(ctx, d.bus, call); err != nil {
		return err
	}
	d.awaitNotifications(ctx, 1)

	switch scripted := strings.HasPrefix(d.model, "script:"); {
	case scripted && !strings.Contains(found, "\n"):
		d.print("\n5. The scripted agent searches for \"license\", which no file contains; use a real model.")
	default:
		if err := d.agent(ctx); err != nil {
			return err
		}
	}
	if err := d.heartbeat(ctx, d.dir); err != nil {
		return err
	}

	read := chars(big.ForLLM + lines + found)
	d.print("\nThe model read %s of %s characters: an estimated %s tokens stayed out of the prompt.",
		thousands(read), thousands(a.Chars), thousands(max(a.Tokens-read*2/5, 0)))
	d.print("The temporary data directory is removed. Next: stevedore up (in a clone: make install before)")
	return nil
}

// read asks a worker to read the artifact, and prints and returns the answer.
func read[Out interface{ Text() string }](ctx context.Context, d *demo, op *rpc.Op[rpc.ReadRequest, Out], in rpc.ReadRequest) (string, error) {
	answer, err := op.Do(ctx, d.bus, session, in)
	if err != nil {
		return "", err
	}
	d.quote(answer.Text(), 4, 0)
	return answer.Text(), nil
}

// awaitNotifications waits until the notifier has printed n notifications, the number of
// all notifications so far.
func (d *demo) awaitNotifications(ctx context.Context, n uint64) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; {
		stream, err := d.bus.JetStream().Stream(ctx, d.bus.StreamName(bus.Outbox))
		if err == nil && stream.CachedInfo().State.LastSeq >= n && stream.CachedInfo().State.Msgs == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (d *demo) print(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// maxColumns is the length of a quoted line. Longer lines are cut.
const maxColumns = 92

// quote prints the first and the last lines of a text, without empty lines.
func (d *demo) quote(text string, first, last int) {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\t", "  ")) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		switch {
		case i < first || i >= len(lines)-last:
			d.print("   | %s", tools.Excerpt(line, maxColumns))
		case i == first:
			d.print("   | ...")
		}
	}
}

func chars(text string) int64 { return int64(utf8.RuneCountInString(text)) }

// thousands formats a number with a comma between groups of three digits.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
