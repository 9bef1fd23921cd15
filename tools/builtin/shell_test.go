//go:build unix

package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

func TestShell(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	b.file("sub/x", "")
	for _, tt := range []struct {
		args              args
		wantLLM, wantUser string
		wantCode          string
	}{
		{args{"command": "echo hello"}, "hello\n[Exit code: 0]", "hello", ""},
		{args{"command": "printf hello"}, "hello\n[Exit code: 0]", "hello", ""},
		{args{"command": "true"}, "(no output)\n[Exit code: 0]", "(no output)", ""},
		{args{"command": "echo out; echo err >&2; echo out2"}, "out\nerr\nout2\n[Exit code: 0]", "out\nerr\nout2", ""},
		{args{"command": "echo bad >&2; exit 3"}, "bad\n[Exit code: 3]", "bad", tools.CodeToolFailed},
		{args{"command": "cat", "stdin": "in\nput"}, "in\nput\n[Exit code: 0]", "in\nput", ""},
		{args{"command": "cat"}, "(no output)\n[Exit code: 0]", "(no output)", ""},
		{args{"command": "ls", "working_dir": "sub"}, "x\n[Exit code: 0]", "x", ""},
		{args{"argv": []string{"printf", "%s|", "a b", "$HOME", "*", "\\n"}}, "a b|$HOME|*|\\n|\n[Exit code: 0]", "a b|$HOME|*|\\n|", ""},
		{args{"argv": []string{"echo", "-n", "\\t"}}, "\\t\n[Exit code: 0]", "\\t", ""},
	} {
		res := b.run(t.Context(), "shell", tt.args)
		if res.ForLLM != tt.wantLLM || res.ForUser != tt.wantUser {
			t.Errorf("shell %v: ForLLM = %q, ForUser = %q; want %q, %q", tt.args, res.ForLLM, res.ForUser, tt.wantLLM, tt.wantUser)
		}
		code := ""
		if res.IsError {
			code = tools.CodeOf(res.Err)
		}
		if code != tt.wantCode || res.Silent {
			t.Errorf("shell %v: code %q, silent %v; want %q, false", tt.args, code, res.Silent, tt.wantCode)
		}
	}
}

// The bytes of output that is not UTF-8 are kept, and the exit code is not one of them. The
// user gets no replacement characters.
// progressLog collects reports.
type progressLog struct {
	mu  sync.Mutex
	all []tools.Progress
}

func (l *progressLog) Report(p tools.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p)
}

func (*progressLog) Detach() {}

// A command that runs for more than a second reports so, and nothing after its end.
func TestShellReportsProgress(t *testing.T) {
	t.Parallel()
	b, got := newFixture(t, builtin.Config{}), new(progressLog)
	ctx := tools.WithReporter(t.Context(), got)
	b.run(ctx, "shell", args{"command": "true"})
	if len(got.all) != 0 {
		t.Errorf("a short command reports %+v", got.all)
	}
	b.run(ctx, "shell", args{"command": "echo hello; sleep 1.5"})
	if len(got.all) == 0 || got.all[0].Done < 1 || !strings.Contains(got.all[0].Message, "6 bytes of output") {
		t.Errorf("got %+v", got.all)
	}
}

func TestShellKeepsBytes(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	for command, want := range map[string][2]string{
		`printf '\377ok'`:                        {"\xffok", `\xffok`},
		`printf '\211PNG\r\n\032\n\000\000\377'`: {"\x89PNG\r\n\x1a\n\x00\x00\xff", "[11 bytes of image/png]"},
		`printf 'a\200\n'; exit 3`:               {"a\x80\n", `a\x80`},
	} {
		res := b.run(t.Context(), "shell", args{"command": command})
		all := outputText(t, res)
		if got := all[:res.Output.Written()]; got != want[0] || res.ForUser != want[1] {
			t.Errorf("%s: kept %q, the user gets %q; want %q, %q", command, got, res.ForUser, want[0], want[1])
		}
		if note := strings.TrimSpace(all[res.Output.Written():]); !strings.HasPrefix(note, "[Exit code: ") || res.ForLLM != "" {
			t.Errorf("%s: note %q, text %q", command, note, res.ForLLM)
		}
	}
}

// outputText returns the whole output of a result, which must have one.
func outputText(t *testing.T, res *tools.Result) string {
	t.Helper()
	if res.Output == nil {
		t.Fatalf("%+v has no output", res)
	}
	text, _, err := res.Output.Text(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The user of an agent gets no message about a command without output.
func TestShellWithoutOutputByAgent(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	for command, want := range map[string]string{"true": "", "false": "", "echo x": "x"} {
		data, err := json.Marshal(args{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		res := b.reg.Run(t.Context(), tools.Call{ID: "1", Tool: "shell", Args: data, Action: tools.ActionAgent}, nil)
		if res.ForUser != want || res.ForLLM == "" && res.Output == nil || res.Silent {
			t.Errorf("%s: for the user %q, want %q; for the model %q", command, res.ForUser, want, res.ForLLM)
		}
		res.Close()
	}
}

// The exit code after a signal is that of shells, with and without a PID namespace.
func TestShellExitCodes(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cfg builtin.Config) {
		b := newFixture(t, cfg)
		for command, want := range map[string]string{
			"kill -9 $$": "[Exit code: 137]", "kill -TERM $$": "[Exit code: 143]", "exit 255": "[Exit code: 255]",
			"no-such-program-here": "no-such-program-here: ", "./no-such-program-here": "not found\n[Exit code: 127]",
		} {
			b.fails("shell", args{"command": command}, want)
		}
	})
}

func TestShellBadArguments(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	b.file("f", "")
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{}, "either command or argv"},
		{args{"command": "ls", "argv": []string{"ls"}}, "either command or argv"},
		{args{"argv": []string{}}, "either command or argv"},
		{args{"argv": []string{""}}, "no program"},
		{args{"argv": []string{"no-such-program-here"}}, `no program "no-such-program-here"`},
		{args{"argv": []string{"./f"}}, "ermission denied"},
		{args{"command": "a\x00b"}, "zero byte"},
		{args{"command": "ls", "working_dir": "absent"}, "not found"},
		{args{"command": "ls", "working_dir": "f"}, "not a directory"},
		{args{"command": "ls", "working_dir": "/"}, "outside the workspace"},
		{args{"command": "ls", "timeout_seconds": -1}, "timeout_seconds"},
		{args{"command": "ls", "timeout_seconds": 1e9}, "timeout_seconds"},
		{args{"command": 5}, "command"},
	} {
		b.fails("shell", tt.args, tt.want)
	}
}

func TestShellEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "canary-1")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-2")
	t.Setenv("LC_ALL", "C")
	b := newFixture(t, builtin.Config{})
	got := b.ok("shell", args{"command": "env"})
	if strings.Contains(got, "canary") {
		t.Errorf("a secret reached the command:\n%s", got)
	}
	for _, want := range []string{"LC_ALL=C\n", "PATH=", "PWD=" + b.dir + "\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the environment:\n%s", want, got)
		}
	}
}

// testTimeout ends a wait that has failed. A machine that is slow or busy does not reach it.
const testTimeout = 3 * time.Minute

// both runs a test with a PID namespace, if the kernel allows one, and without.
func both(t *testing.T, f func(t *testing.T, cfg builtin.Config)) {
	shell := builtin.ShellConfig{Grace: 300 * time.Millisecond}
	t.Run("namespace", func(t *testing.T) { f(t, builtin.Config{Workspace: t.TempDir(), Shell: shell}) })
	t.Run("group", func(t *testing.T) {
		cfg := builtin.Config{Workspace: t.TempDir(), Shell: shell}
		cfg.Shell.Sandbox = withoutNamespaces(t, cfg.Workspace)
		f(t, cfg)
	})
}

func withoutNamespaces(t *testing.T, workspace string) *sandbox.Sandbox {
	t.Helper()
	sb, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: workspace, NoNamespaces: true})
	must(t, err)
	t.Cleanup(func() { _ = sb.Close() })
	return sb
}

// mark is a sleep time, in seconds, that only one test uses, to find its processes.
func mark(t *testing.T) string {
	return fmt.Sprintf("%d.%d", 5000+time.Now().UnixNano()%1000, time.Now().UnixNano())
}

// survivors waits until no process has mark in its command line. After a timeout it
// kills such processes and returns them.
func survivors(t *testing.T, mark string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are found in /proc")
	}
	deadline := time.Now().Add(testTimeout)
	for {
		var found []string
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			cmdline, _ := os.ReadFile(file)
			if bytes.Contains(cmdline, []byte(mark)) {
				found = append(found, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
				if time.Now().After(deadline) {
					pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestShellTimesOut(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cfg builtin.Config) {
		b := newFixture(t, cfg)
		for _, command := range []string{
			"echo begun; sleep MARK",
			"echo begun; trap '' TERM; sleep MARK; sleep MARK",
			"echo begun; sleep MARK & sleep MARK & wait",
			"echo begun; (sleep MARK; sleep MARK) | cat",
			"echo begun; trap 'exit 0' TERM; sleep MARK & wait", // success is not what it looks like
		} {
			m := mark(t)
			limit := 200 * time.Millisecond
			run := func() *tools.Result {
				return b.run(t.Context(), "shell", args{"command": strings.ReplaceAll(command, "MARK", m), "timeout_seconds": limit.Seconds()})
			}
			res := run()
			for !strings.Contains(res.ForLLM, "begun\n") && limit < 20*time.Second { // a slow machine
				limit *= 4
				res = run()
			}
			if got := tools.CodeOf(res.Err); !res.IsError || got != tools.CodeTimeout {
				t.Errorf("%s: code %q, want timeout; %s", command, got, res.ForLLM)
			}
			for _, want := range []string{"begun\n", fmt.Sprint("timed out after ", limit), "[Exit code: "} {
				if !strings.Contains(res.ForLLM, want) {
					t.Errorf("%s: got %q, want %q in it", command, res.ForLLM, want)
				}
			}
			if left := survivors(t, m); left != nil {
				t.Errorf("%s: survived: %q", command, left)
			}
		}
	})
}

func TestShellCancelled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cfg builtin.Config) {
		b := newFixture(t, cfg)
		m := mark(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var canceller sync.WaitGroup
		defer canceller.Wait()
		canceller.Go(func() { // cancel once it runs
			deadline := time.Now().Add(testTimeout)
			for time.Now().Before(deadline) {
				if _, err := os.Stat(filepath.Join(b.dir, "running")); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cancel()
		})
		res := b.run(ctx, "shell", args{"command": "echo partial; touch running; sleep " + m})
		if got := tools.CodeOf(res.Err); got != tools.CodeCancelled || !strings.Contains(res.ForLLM, "partial\n") {
			t.Errorf("code %q, text %q; want cancelled with the partial output", got, res.ForLLM)
		}
		if left := survivors(t, m); left != nil {
			t.Errorf("survived: %q", left)
		}
	})
}

// A call whose deadline has passed does not start the command.
func TestShellAfterTheDeadline(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := b.run(ctx, "shell", args{"command": "touch ran"})
	if got := tools.CodeOf(res.Err); got != tools.CodeCancelled {
		t.Errorf("code %q, want cancelled", got)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// A background process keeps the pipe open. It must not delay the result or survive it.
func TestShellKillsBackgroundProcesses(t *testing.T) {
	both(t, func(t *testing.T, cfg builtin.Config) {
		cfg.Shell.Grace = time.Hour // nothing may wait for it
		b := newFixture(t, cfg)
		m := mark(t)
		if got := b.ok("shell", args{"command": "sleep " + m + " & sleep " + m + " & echo done"}); got != "done\n[Exit code: 0]" {
			t.Errorf("got %q", got)
		}
		if left := survivors(t, m); left != nil {
			t.Errorf("survived: %q", left)
		}
	})
}

// needNamespace skips the test if the kernel allows no PID namespace.
func needNamespace(t *testing.T, b *fixture) {
	t.Helper()
	if b.ok("shell", args{"command": "echo $PPID"}) == "1\n[Exit code: 0]" {
		return
	}
	for _, flags := range []string{"-pf", "-Upf"} {
		if exec.Command("unshare", flags, "true").Run() == nil {
			t.Fatal("the kernel gives a PID namespace, and the shell tool did not use it")
		}
	}
	t.Skip("the kernel gives no PID namespace here")
}

// Without a PID namespace, a reaper kills what left the group.
func TestShellKillsWhatLeftTheGroup(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cfg builtin.Config) {
		cfg.Shell.Grace = 200 * time.Millisecond
		b := newFixture(t, cfg)
		if cfg.Shell.Sandbox == nil {
			needNamespace(t, b)
		}
		m := mark(t)
		leave := "setsid sleep " + m + " & setsid setsid sleep " + m + " & (setsid sh -c 'trap \"\" TERM HUP; sleep " + m + " & wait' &) ; echo done"
		if got := b.ok("shell", args{"command": leave}); got != "done\n[Exit code: 0]" {
			t.Errorf("got %q", got)
		}
		if left := survivors(t, m); left != nil {
			t.Errorf("survived the command: %q", left)
		}
		if res := b.run(t.Context(), "shell", args{"command": leave + "; sleep " + m, "timeout_seconds": 0.5}); tools.CodeOf(res.Err) != tools.CodeTimeout {
			t.Errorf("result %+v", res)
		}
		if left := survivors(t, m); left != nil {
			t.Errorf("survived the timeout: %q", left)
		}
	})
}

// A command can kill its reaper. What is still in its group ends nevertheless.
func TestShellKillsTheGroupOfAKilledReaper(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("commands have no reaper here")
	}
	dir := t.TempDir()
	b := newFixture(t, builtin.Config{Workspace: dir, Shell: builtin.ShellConfig{Sandbox: withoutNamespaces(t, dir), Grace: 200 * time.Millisecond}})
	m := mark(t)
	b.run(t.Context(), "shell", args{"command": "sleep " + m + " & kill -9 $PPID; sleep " + m, "timeout_seconds": 20})
	if left := survivors(t, m); left != nil {
		t.Errorf("survived: %q", left)
	}
	// What left the group survives, and may print more.
	m = mark(t)
	res := b.run(t.Context(), "shell", args{"command": "setsid sh -c 'touch left; until [ -e stop ]; do sleep 0.1; done #" + m + "' & until [ -e left ]; do sleep 0.01; done; " +
		"echo begun; kill -9 $PPID; sleep 5"})
	b.file("stop", "")
	survivors(t, m)
	if !strings.Contains(res.ForLLM, "begun\n") || !strings.Contains(res.ForLLM, "may lack its end") {
		t.Errorf("the output of a process that goes on: %q", res.ForLLM)
	}
}

// childrenOf returns the children of a process, as far as the kernel lists them.
func childrenOf(parent int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// runWorker is a child process that runs two shell calls, like a worker.
func runWorker() int {
	cfg := builtin.Config{Workspace: os.Getenv("STEVEDORE_TEST_DIR")}
	var err error
	if os.Getenv("STEVEDORE_TEST_GROUP") != "" {
		cfg.Shell.Sandbox, err = sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: cfg.Workspace, NoNamespaces: true})
	}
	var all []tools.Tool
	if err == nil {
		all, _, err = builtin.Tools(cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Definition().Name == "shell" })
	for _, variable := range []string{"STEVEDORE_TEST_FIRST", "STEVEDORE_TEST_ARGS"} {
		all[i].Execute(context.Background(), tools.Call{Args: []byte(os.Getenv(variable))})
	}
	return 0
}

// After a kill -9 of the worker, no process survives.
func TestShellDiesWithTheWorker(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, cfg builtin.Config) {
		b := newFixture(t, cfg)
		m := mark(t)
		command, group := "sleep "+m+" & setsid sleep "+m+" & (sleep "+m+" | cat) & touch running; sleep "+m, "1"
		if cfg.Shell.Sandbox == nil {
			needNamespace(t, b)
			group = ""
		}
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), "STEVEDORE_TEST_ROLE=worker", "STEVEDORE_TEST_DIR="+b.dir,
			"STEVEDORE_TEST_GROUP="+group, `STEVEDORE_TEST_FIRST={"command":"true"}`, `STEVEDORE_TEST_ARGS={"command":"`+command+`"}`)
		must(t, worker.Start())
		deadline := time.Now().Add(testTimeout)
		for {
			if _, err := os.Stat(filepath.Join(b.dir, "running")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Error("the command did not start")
				break
			}
			time.Sleep(time.Millisecond)
		}
		children := childrenOf(worker.Process.Pid)
		must(t, worker.Process.Kill())
		_ = worker.Wait()
		if left := survivors(t, m); left != nil {
			t.Errorf("survived: %q", left)
		}
		for _, pid := range children {
			for deadline := time.Now().Add(testTimeout); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("process %d survived", pid)
				}
			}
		}
	})
}

// 300 MB of output are kept completely, with little memory.
func TestShellBigOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 300 MB")
	}
	b := newFixture(t, builtin.Config{Output: tools.OutputLimits{Dir: t.TempDir()}, Shell: builtin.ShellConfig{MaxOutput: 1 << 30}})
	const size = 300 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := b.run(t.Context(), "shell", args{"command": fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size)})
	runtime.ReadMemStats(&after)
	if res.IsError || res.Output == nil {
		t.Fatalf("got %.200q, want an Output", res.ForLLM)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("allocated %d MiB, want at most 16", grown>>20)
	}
	note := "\n[Exit code: 0]"
	if got, want := res.Output.Size(), int64(size+len(note)); got != want {
		t.Errorf("size = %d, want %d", got, want)
	}
	tail := make([]byte, 21)
	if _, err := res.Output.ReadAt(tail, res.Output.Size()-21); err != nil || string(tail) != "xxxxxx"+note {
		t.Errorf("tail = %q, %v", tail, err)
	}
	if len(res.ForUser) > 20<<10 || !strings.Contains(res.ForUser, "bytes omitted") {
		t.Errorf("ForUser has %d bytes", len(res.ForUser))
	}
	rest, err := io.Copy(io.Discard, res.Output.Reader())
	if err != nil || rest != res.Output.Size() {
		t.Errorf("read back %d bytes, %v", rest, err)
	}
}

func TestShellTruncatesHonestly(t *testing.T) {
	b := newFixture(t, builtin.Config{
		Output: tools.OutputLimits{Total: 10},
		Advise: func(sandbox.Refusal) string { return "see the manual" },
	})
	got := b.ok("shell", args{"command": "echo 0123456789abcdef"})
	if want := "0123456789\n[Output truncated: the first 10 bytes were kept; see the manual]\n[Exit code: 0]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// If the spill file cannot be created, the command ends and the result is an error.
func TestShellWithoutSpillDirectory(t *testing.T) {
	b := newFixture(t, builtin.Config{Output: tools.OutputLimits{Memory: 10, Dir: filepath.Join(t.TempDir(), "absent")}})
	m := mark(t)
	b.fails("shell", args{"command": "yes " + m}, "failed to keep the output")
	if left := survivors(t, m); left != nil {
		t.Errorf("survived: %q", left)
	}
}

func TestShellsRunBesideEachOther(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	texts := make(chan string)
	for i := range 8 {
		go func() { texts <- b.run(t.Context(), "shell", args{"command": fmt.Sprintf("echo %d", i)}).ForLLM }()
	}
	var got []string
	for range 8 {
		got = append(got, (<-texts)[:1])
	}
	slices.Sort(got)
	if s := strings.Join(got, ""); s != "01234567" {
		t.Errorf("got %s", s)
	}
}
