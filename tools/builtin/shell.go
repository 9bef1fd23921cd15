package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// ShellConfig configures the shell tool. The zero value works.
type ShellConfig struct {
	// Timeout is the timeout of a command without timeout_seconds. Default 2 minutes.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL when a command is killed.
	// Default 2 seconds.
	Grace time.Duration
	// MaxOutput is how many bytes of the output of a command are kept. Default 64 MiB.
	MaxOutput int64
	// Sandbox runs the commands. Default: a sandbox with default settings, which Tools
	// makes.
	Sandbox *sandbox.Sandbox
	// Refuse, if set, is the error of all commands: the reason for which there is no
	// sandbox.
	Refuse error
	// Artifacts opens the artifacts that commands name. nil means that they cannot.
	Artifacts OpenArtifact
}

// maxTimeout is the largest timeout_seconds.
const maxTimeout = time.Hour

type shellArgs struct {
	Command        string   `json:"command,omitempty" jsonschema:"a command line for sh -c; set this or argv"`
	Argv           []string `json:"argv,omitempty" jsonschema:"a program and its arguments, run without a shell; set this or command"`
	WorkingDir     string   `json:"working_dir,omitempty" jsonschema:"the directory to run in, relative to the workspace; default the workspace"`
	TimeoutSeconds float64  `json:"timeout_seconds,omitempty" jsonschema:"seconds after which the command is killed"`
	Stdin          any      `json:"stdin,omitempty" jsonschema:"text for the standard input, or {\"$artifact\":\"ID\"} for a stored result of any size"`
	Artifacts      []string `json:"artifacts,omitempty" jsonschema:"ids of stored results, which the command can read as the files $ARTIFACTS/ID"`
}

// shell runs commands.
type shell struct {
	*workspace
	cfg     ShellConfig
	sandbox *sandbox.Sandbox
}

func newShell(ws *workspace) (*tools.FuncTool, error) {
	cfg := ws.cfg.Shell
	cfg.Timeout = cmp.Or(cfg.Timeout, 2*time.Minute)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, 64<<20)
	sh := &shell{workspace: ws, cfg: cfg, sandbox: cfg.Sandbox}
	if sh.sandbox == nil && cfg.Refuse == nil {
		sb, err := sandbox.New(sandbox.Config{Workspace: ws.real})
		switch {
		case errors.Is(err, sandbox.ErrUnconfined):
			sh.cfg.Refuse = err
		case err != nil:
			return nil, err
		default:
			sh.sandbox, ws.closeSandbox = sb, sb.Close
		}
	}
	return tools.MustTool("shell",
		"Run a command in the workspace and return its output (stdout and stderr, in order) and exit code. When the command ends, all "+
			"processes that it started are killed.", sh.run), nil
}

func (sh *shell) run(ctx context.Context, call tools.Call, args shellArgs) *tools.Result {
	if ctx.Err() != nil {
		return tools.Failure(ended(ctx))
	}
	if sh.cfg.Refuse != nil {
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the worker runs no commands, because %v", sh.cfg.Refuse))
	}
	timeout, err := sh.timeout(args.TimeoutSeconds)
	if err != nil {
		return tools.Failure(err)
	}
	cmdCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	artifact, text, err := stdinArtifact(args.Stdin)
	if err != nil {
		return tools.Failure(err)
	}
	files, err := sh.stage(cmdCtx, call, args.Artifacts, artifact)
	if err != nil {
		return tools.Failure(err)
	}
	defer func() { _ = files.remove() }() // what is left, the end of the worker removes
	cmd, err := sh.command(cmdCtx, call.SessionToken(), args, files.environment())
	if err != nil {
		return tools.Failure(err)
	}
	switch {
	case files.stdin != nil:
		cmd.Stdin = files.stdin
	case text != "":
		cmd.Stdin = strings.NewReader(text)
	}

	limits := sh.workspace.cfg.Output
	if limits.Total <= 0 || limits.Total > sh.cfg.MaxOutput {
		limits.Total = sh.cfg.MaxOutput
	}
	out := tools.NewOutput(limits)
	stop := reportRunning(ctx, out)
	end, err := sh.execute(cmd, out)
	stop()
	if cmd.ProcessState == nil {
		_ = out.Close()
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "failed to start the command: %v", err))
	}
	res := &tools.Result{}
	code, killed := ExitCode(cmd.ProcessState), end.Killed
	switch {
	case killed && errors.Is(ctx.Err(), context.Canceled):
		res.Err = tools.Errorf(tools.CodeCancelled, "the command was cancelled and killed")
	case killed && ctx.Err() != nil:
		res.Err = tools.Errorf(tools.CodeTimeout, "the command timed out at the call's deadline and was killed")
	case killed:
		res.Err = tools.Errorf(tools.CodeTimeout, "the command timed out after %v and was killed", timeout)
	case code != 0:
		res.Err = tools.Errorf(tools.CodeToolFailed, "the command exited with code %d", code)
	}
	res.IsError = res.Err != nil
	return sh.report(res, out, files.lost, code, end, call.Action == tools.ActionAgent)
}

// reportRunning reports each second how long a command has run, until stop is called. Clients of
// MCP then do not give up the call.
func reportRunning(ctx context.Context, out *tools.Output) (stop func()) {
	running, cancel := context.WithCancel(ctx)
	began := time.Now()
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for tools.Sleep(running, time.Second) == nil {
			seconds := time.Since(began).Round(time.Second)
			tools.ReportProgress(ctx, tools.Progress{Message: fmt.Sprintf("running for %v, %d bytes of output", seconds, out.Written()), Done: seconds.Seconds()})
		}
	})
	return func() { cancel(); reporting.Wait() }
}

// report adds the end of the command to the output. The model receives all of it; the
// user receives the output, without its middle part if it is long. The user of an agent
// receives no message that says that there was no output. lost is what the artifacts of the command lack.
func (sh *shell) report(res *tools.Result, out *tools.Output, lost []string, code int, end sandbox.Ended, byAgent bool) *tools.Result {
	truncated, empty := out.Truncated(), out.Size() == 0
	if empty {
		out.Note("(no output)")
	}
	if !empty || !byAgent {
		res.ForUser = excerpt(out, 0)
	}
	if truncated {
		out.Note(fmt.Sprintf("[Output truncated: the first %d bytes were kept%s]", out.Size(), sh.advice(OutputLimit)))
	}
	for _, note := range lost {
		out.Note(note)
	}
	if end.Killed {
		note := res.Err.Error()
		res.ForUser = strings.TrimPrefix(res.ForUser+"\n"+note, "\n")
		out.Note("[" + strings.ToUpper(note[:1]) + note[1:] + "]")
	} else {
		for _, refusal := range sh.refusals(out, code) {
			out.Note(fmt.Sprintf("[Sandbox: %s%s]", refusal, sh.advice(refusal)))
		}
	}
	for _, name := range end.SetAside {
		out.Note(fmt.Sprintf("[Sandbox: the command made what programs execute, so it is now called %s%s]", name, sh.advice(sandbox.Protected)))
	}
	for _, warning := range end.Unsafe {
		out.Note("[Sandbox: " + warning + "]")
	}
	out.Note(fmt.Sprintf("[Exit code: %d]", code))
	res.ExitCode = &code
	return sh.setOutput(res, out)
}

// refusals returns what the sandbox probably refused to the command.
func (sh *shell) refusals(out *tools.Output, code int) []sandbox.Refusal {
	tail := make([]byte, min(out.Size(), 16<<10))
	n, _ := out.ReadAt(tail, out.Size()-int64(len(tail)))
	return sh.sandbox.Explain(string(tail[:n]), code)
}

func (sh *shell) timeout(seconds float64) (time.Duration, error) {
	if seconds == 0 {
		return sh.cfg.Timeout, nil
	}
	if !(seconds > 0 && seconds <= maxTimeout.Seconds()) {
		return 0, tools.Errorf(tools.CodeInvalidArguments, "timeout_seconds must be above 0 and at most %v", maxTimeout.Seconds())
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// command returns the command without starting it.
func (sh *shell) command(ctx context.Context, session string, args shellArgs, env []string) (*exec.Cmd, error) {
	argv := args.Argv
	switch {
	case (args.Command == "") == (len(argv) == 0):
		return nil, tools.Errorf(tools.CodeInvalidArguments, "set either command or argv")
	case args.Command != "":
		argv = []string{"sh", "-c", args.Command}
	}
	if slices.ContainsFunc(argv, func(s string) bool { return strings.ContainsRune(s, 0) }) {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the command contains a zero byte")
	}
	dir, err := sh.workingDir(args.WorkingDir)
	if err != nil {
		return nil, err
	}
	if argv[0] == "" || !strings.ContainsRune(argv[0], filepath.Separator) {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return nil, tools.Errorf(tools.CodeToolFailed, "failed to start the command: no program %q in PATH", argv[0])
		}
	}
	run := sandbox.Run{Dir: dir, Env: append(environment(dir), env...), Tmp: session, Contained: true, Approved: tools.Approved(ctx)}
	cmd, err := sh.sandbox.Command(ctx, run, argv...)
	if err != nil {
		return nil, tools.Errorf(tools.CodeToolFailed, "failed to start the command: %v", err)
	}
	return cmd, nil
}

func (sh *shell) workingDir(path string) (string, error) {
	rel, err := sh.rel(path)
	if err != nil {
		return "", err
	}
	info, err := sh.root.Stat(rel) // refuses links that lead out of the workspace
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	if err != nil {
		return "", sh.explain("enter directory", path, err)
	}
	return filepath.Join(sh.real, rel), nil
}

// execute runs cmd until all its processes have ended. Both output streams use one
// pipe, so that they stay in order. If cmd could not start, it has no ProcessState.
func (sh *shell) execute(cmd *exec.Cmd, out *tools.Output) (end sandbox.Ended, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return end, err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	copied := make(chan error, 1)
	end, err = sh.sandbox.Execute(cmd, sh.cfg.Grace, func() {
		_ = w.Close()
		go func() {
			// After an error of out, which Output.Err returns, the command
			// receives SIGPIPE instead of blocking on a full pipe.
			_, err := io.Copy(out, r)
			_ = r.Close()
			copied <- err
		}()
	})
	if cmd.Process == nil {
		_ = w.Close()
		return end, err
	}
	// Only a process that escaped can still hold the pipe open.
	_ = r.SetReadDeadline(time.Now().Add(sh.cfg.Grace))
	if errors.Is(<-copied, os.ErrDeadlineExceeded) {
		end.Unsafe = append(end.Unsafe, fmt.Sprintf("the output may lack its end, which did not come within %v after the command", sh.cfg.Grace))
	}
	return end, err
}

// maxForUser is the longest output for the user, in bytes.
const maxForUser = 16 << 10

// excerpt returns the output from byte first on for the user: all of it, or its head
// and its tail.
func excerpt(out *tools.Output, first int64) string {
	all := io.NewSectionReader(out, first, out.Size()-first)
	if all.Size() <= maxForUser {
		if text, err := io.ReadAll(all); err == nil {
			return forUser(strings.TrimSuffix(string(text), "\n"), out.Size()-first)
		}
	}
	half := make([]byte, maxForUser/2)
	n, _ := all.ReadAt(half, 0)
	head := string(half[:n])
	n, _ = all.ReadAt(half, all.Size()-int64(len(half)))
	tail := string(half[:n])
	left := all.Size() - int64(len(head)+len(tail))
	text := fmt.Sprintf("%s\n[%d bytes omitted]\n%s", head, left, strings.TrimSuffix(tail, "\n"))
	return forUser(text, out.Size()-first)
}

// forUser returns a text for the user, or one line about content that is not text. size is
// that of the content.
func forUser(text string, size int64) string {
	if head := []byte(text[:min(len(text), sniffLen)]); !utf8.ValidString(text) && !isTextWithoutNUL(head) {
		return fmt.Sprintf("[%d bytes of %s]", size, mimetype.Detect(head))
	}
	return tools.EscapeBytes(text)
}

// ExitCode returns the exit code as shells do: 128 plus the signal if a signal ended
// the process.
func ExitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
