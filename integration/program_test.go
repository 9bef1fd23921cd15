package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// workerProgram is the path of the real program, which the tests build once.
var workerProgram string

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stevedore-integration-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if workerProgram, err = buildProgram(dir, "stevedore", "worker"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return slow.RunWaiting(m)
}

// buildProgram builds the program of a folder of cmd into dir. "go run" keeps the program in the
// build cache, which "go build" does not, so that only a change of the code links it again.
func buildProgram(dir, name, folder string) (string, error) {
	path := filepath.Join(dir, name)
	build := exec.Command("go", "run", "-exec", "cp", module+"/cmd/"+folder, path)
	if dist := os.Getenv("STEVEDORE_DIST"); dist != "" { // a built release; see make try
		build = exec.Command("bash", "-c", `tar -xzf "$0"/stevedore_*_$1.tar.gz -C "$2" --strip-components=1 --wildcards "*/$3"`, dist, runtime.GOOS+"_"+runtime.GOARCH, dir, name)
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return path, nil
}

// testTimeout is how long a test waits for anything.
const testTimeout = bustest.Timeout

// process is a running worker program.
type process struct {
	cmd    *exec.Cmd
	first  string // the first line that it printed
	stdout io.Closer
	stderr *lockedBuffer
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// start starts the program and waits for its first line, which says that it is
// ready. The test stops it at the end and fails if it does not stop.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("worker %q: %v\n%s", args, err, p.stderr)
		}
	})
	return p
}

// launch starts the program for a test that ends the process itself.
func launch(args ...string) (*process, error) {
	return launchCommand(exec.Command(workerProgram, args...))
}

func launchCommand(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, stderr: &lockedBuffer{}, exited: make(chan struct{})}
	p.cmd.Env = append(cleanEnvironment(), cmd.Env...)
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		text, _ := r.ReadString('\n') // at the end of the output, the line is incomplete
		line <- text
		_, _ = io.Copy(io.Discard, r)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	select {
	case p.first = <-line:
	case <-time.After(testTimeout):
	}
	if p.first == "" {
		p.kill()
		return nil, fmt.Errorf("%q did not become ready: %w\n%s", cmd.Args, p.err, p.stderr)
	}
	return p, nil
}

// stop interrupts the process and waits until it has ended.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); errors.Is(err, os.ErrProcessDone) {
		<-p.exited
		return p.err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(testTimeout):
		p.kill()
		return errors.New("it does not stop on SIGTERM")
	}
}

// kill sends SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // the process may have ended already
	<-p.exited
}

// canary is an environment variable that no tool may see.
const canary = "STEVEDORE_CANARY=canary-value"

// cleanEnvironment returns the environment without settings of Stevedore and NATS.
func cleanEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir(), canary}
}

// up starts "stevedore up" on a free port with its own workspace.
type up struct {
	*process
	url, data, workspace string
}

func startUp(t *testing.T, args ...string) up {
	t.Helper()
	u := up{data: filepath.Join(t.TempDir(), "data"), workspace: t.TempDir()}
	if err := os.WriteFile(filepath.Join(u.workspace, "note.txt"), []byte("A note.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.process = start(t, append(u.args(), args...)...)
	u.url = urlOf(t, u.process)
	return u
}

func (u up) args() []string {
	return []string{"up", "--json", "--listen", "127.0.0.1:0", "--data", u.data, "--workspace", u.workspace}
}

func urlOf(t *testing.T, p *process) string {
	t.Helper()
	var line struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal([]byte(p.first), &line); err != nil || line.URL == "" {
		t.Fatalf("the first line is %q, want an object with the key url", p.first)
	}
	return line.URL
}

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// worker runs a command and returns its outcome.
func worker(t *testing.T, args ...string) outcome {
	t.Helper()
	return runProgram(t, workerProgram, args...)
}

func runProgram(t *testing.T, program string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(cleanEnvironment(), "GOGC=800") // a tenth of the start of a command is garbage collection
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%s %q: %v", program, args, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// lockedBuffer collects the output of a process while a test may read it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// await waits for a condition while the process runs.
func await(t *testing.T, p *process, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !done(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.exited:
			t.Fatalf("waited for %s, and it ended: %v\n%s", what, p.err, p.stderr)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s\n%s", what, p.stderr)
		}
	}
}
