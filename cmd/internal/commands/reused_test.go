package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
)

// invocation is a command with what a process of its own would have.
type invocation struct {
	Args, Env []string
	Dir       string
	Stdin     []byte
	Terminal  string // shows both outputs, if not empty
}

// ended is how a command ended. Both holds both outputs in their order.
type ended struct {
	Stdout, Stderr, Both []byte
	Code                 int
}

// reusedEnv marks a process that runs one command after the other: the start of a process takes much
// longer than most commands.
const reusedEnv = "STEVEDORE_TEST_REUSED"

// runCommands is that process.
func runCommands() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c invocation
		if in.Decode(&c) != nil {
			return // the test has ended
		}
		if err := out.Encode(c.run()); err != nil {
			panic(err)
		}
	}
}

func (c invocation) run() (e ended) {
	os.Clearenv()
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if err := os.Chdir(c.Dir); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stdin := bytes.NewReader(c.Stdin)
	if c.Terminal != "" {
		terminal, err := os.OpenFile(c.Terminal, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			panic(err)
		}
		defer terminal.Close()
		e.Code = cli.RunOn(ctx, run, c.Args, stdin, terminal, terminal)
		return e
	}
	var o outputs
	code := run(ctx, c.Args, stdin, copyTo{&o, &o.stdout}, copyTo{&o, &o.stderr})
	o.mu.Lock()
	defer o.mu.Unlock()
	return ended{bytes.Clone(o.stdout.Bytes()), bytes.Clone(o.stderr.Bytes()), bytes.Clone(o.both.Bytes()), code}
}

type outputs struct {
	mu                   sync.Mutex
	stdout, stderr, both bytes.Buffer
}

type copyTo struct {
	all *outputs
	one *bytes.Buffer
}

func (c copyTo) Write(p []byte) (int, error) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.all.both.Write(p)
	return c.one.Write(p)
}

// reused is a process that runs commands.
type reused struct {
	process *exec.Cmd
	stdin   io.Closer
	in      *json.Encoder
	out     *json.Decoder
}

var idle = make(chan *reused, 100)

// reuse runs a command in a process that has run others, or in a new one if all are busy.
func reuse(c invocation) (e ended, err error) {
	var r *reused
	select {
	case r = <-idle:
	default:
		if r, err = startReused(); err != nil {
			return e, err
		}
	}
	if err = r.in.Encode(c); err == nil {
		err = r.out.Decode(&e)
	}
	if err == nil {
		idle <- r
	}
	return e, err
}

func startReused() (*reused, error) {
	cmd := exec.Command("stevedore")
	cmd.Env, cmd.Stderr = append(os.Environ(), reusedEnv+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &reused{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
}

// endReused ends the processes.
func endReused() {
	for {
		select {
		case r := <-idle:
			r.stdin.Close()
			_ = r.process.Wait()
		default:
			return
		}
	}
}

// stevedore runs a command for a test.
func stevedore(t *testing.T, c invocation) ended {
	t.Helper()
	e, err := reuse(c)
	if err != nil {
		t.Fatalf("%q: %v", c.Args, err)
	}
	return e
}

// scripted is the state of a script that its commands share.
type scripted struct {
	env   []string // the names of its variables
	stdin []byte   // of the next command
}

type scriptedKey struct{}

// runScripted runs a command of a script and returns its exit status and what it printed.
func runScripted(ts *testscript.TestScript, args []string) (code int, stdout []byte) {
	s := ts.Value(scriptedKey{}).(*scripted)
	c := invocation{Args: args, Dir: ts.MkAbs("."), Stdin: s.stdin}
	s.stdin = nil
	for _, name := range s.env {
		if value := ts.Getenv(name); value != "" {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	e, err := reuse(c)
	ts.Check(err)
	_, _ = ts.Stdout().Write(e.Stdout)
	_, _ = ts.Stderr().Write(e.Stderr)
	return e.Code, e.Stdout
}
