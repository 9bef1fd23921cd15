package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/process"
	"github.com/stevedore-bus/stevedore/cmd/internal/savings"
	"github.com/stevedore-bus/stevedore/cmd/internal/shorten"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

const runHelp = `Run a command for an agent. If its output is long, it is stored, and the agent sees the
first lines, the lines that look like errors, the last lines, and how to read the rest with
"stevedore read". A short output, the exit code and signals are unchanged. On a terminal, the
output is that of the command.

  stevedore run -- go test ./...
  stevedore run -c 'make 2>&1 | tee log'

Outputs are stored in --data; no other process is needed. If they cannot be stored, the whole
output is printed. The command has the rights of the caller: for a sandbox, see "stevedore up".`

// storedOutputs are the options of the commands that store and read outputs of commands.
type storedOutputs struct {
	Connection cli.Connection
	Store      process.DiskStoreOptions
	Session    string `flag:"session" default:"shell" unit:"SESSION" help:"SESSION of the stored outputs"`
}

// outputSession is the default session of stored outputs, as in its tag. The data directory belongs
// to one person.
const outputSession = "shell"

// checkName refuses the token of a session: files have no name that it could be found by.
func checkName(session string) error {
	if tools.IsHash(session) {
		return cli.Exit(cli.ExitUsage, "--session %s: this is the token of a session; give its name", session)
	}
	return nil
}

func (o *storedOutputs) addFlags(cmd *cobra.Command) {
	o.Connection.AddDataFlag(cmd.Flags(), "the stored outputs")
	cli.AddOptions(cmd.Flags(), o)
	cli.AddSettingsOf(cmd.Flags(), &o.Store, o.Store, cli.TopicOffloading)
}

type runOptions struct {
	storedOutputs
	host      string
	line      string
	threshold int64         // bytes of output above which it is stored
	liveAfter time.Duration // after which an output that is not yet long appears as it comes; 0: never
}

// outputThreshold is the length of an output above which it is stored, in bytes.
const outputThreshold = 10_000

func newRunCommand() *cobra.Command {
	o := runOptions{threshold: outputThreshold}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGS...]",
		Short: "Run a command, and keep a long output out of the prompt",
		Long:  runHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (o.line != "") == (len(args) > 0):
				return cli.Exit(cli.ExitUsage, "want either -c LINE or a command after --")
			case o.line != "":
				args = []string{"sh", "-c", o.line}
			}
			if o.host == codex {
				o.liveAfter = codexWaits
			}
			return o.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&o.line, "command", "c", "", "`LINE` for sh")
	cmd.Flags().StringVar(&o.host, "host", "none", "`NAME` of the coding host in \"stevedore usage --by host\"")
	return cmd
}

// run runs a command. Each of its two outputs is shortened alone, unless both go to the same
// file.
func (o *runOptions) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := checkName(o.Session); err != nil {
		return err
	}
	child := exec.Command(args[0], args[1:]...) // ctx ends at a signal, which the child gets
	child.Stdin, child.Stdout, child.Stderr = stdin, cli.Raw(stdout), cli.Raw(stderr)
	var outputs []*heldOutput
	if !cli.IsTerminal(stdout) {
		held := newHeldOutput(stdout, o.threshold)
		defer held.Close()
		outputs = append(outputs, held)
		child.Stdout = held
		if sameOutput(stdout, stderr) {
			child.Stderr = held
		}
	}
	if !cli.IsTerminal(stderr) && !sameOutput(stdout, stderr) {
		held := newHeldOutput(stderr, o.threshold)
		defer held.Close()
		outputs = append(outputs, held)
		child.Stderr = held
	}
	child.WaitDelay = time.Second // a process in the background may keep the output open
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return cli.Exit(exitNotFound, "run: %w", err)
	}
	var live <-chan time.Time
	if o.liveAfter > 0 {
		live = time.After(o.liveAfter)
	}
	in, _ := stdin.(*os.File)
	terminal := cli.IsTerminal(in) || cli.IsTerminal(stdout) || cli.IsTerminal(stderr)
	ended := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			select {
			case s := <-signals:
				if !terminal || !slices.Contains(keyboard, s) {
					_ = child.Process.Signal(s) // it may have ended
				}
			case <-live:
				for _, held := range outputs {
					if !held.isLong() {
						_ = held.flush() // the next write fails, too
					}
				}
			case <-ended:
				return
			}
		}
	})
	err := child.Wait()
	close(ended)
	passing.Wait()
	lost := o.showAll(context.WithoutCancel(ctx), args, outputs, stderr)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		dieLike(exit.ProcessState)
		return &cli.Error{Code: builtin.ExitCode(exit.ProcessState), Err: lost}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return lost
	}
	return errors.Join(lost, err)
}

// exitNotFound is the exit code of shells for a command that cannot be started.
const exitNotFound = 127

// sameOutput reports whether two outputs are the same file or pipe.
func sameOutput(a, b io.Writer) bool {
	one, ok := a.(*os.File)
	two, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return a == b
	}
	info, err := one.Stat()
	info2, err2 := two.Stat()
	return err == nil && err2 == nil && os.SameFile(info, info2)
}

// errNotStored says why an output was printed in full.
var errNotStored = errors.New("the output is not stored")

// showAll shows each output, and says on stderr which one is not stored: the exit code is the
// command's all the same. It returns an error if an output could not be printed.
func (o *runOptions) showAll(ctx context.Context, args []string, outputs []*heldOutput, stderr io.Writer) (lost error) {
	for _, held := range outputs {
		err := o.show(ctx, args, held)
		if errors.Is(err, errNotStored) {
			_, err = fmt.Fprintf(stderr, "stevedore: %v\n", err)
		}
		lost = errors.Join(lost, err)
	}
	return lost
}

// show prints a short output as it is, and the summary of a long one. If the output cannot be
// stored, show prints all of it and returns errNotStored.
func (o *runOptions) show(ctx context.Context, args []string, held *heldOutput) error {
	count := savings.Line{Host: o.host, Tool: savings.Shell, Whole: held.chars, Shown: held.chars}
	defer func() {
		if count.Whole > 0 {
			_ = savings.Add(o.Connection.Data, count) // the output is worth more
		}
	}()
	if !held.isLong() {
		return held.flush()
	}
	summary, err := shorten.Summarize(held.out.Reader())
	if err != nil {
		return held.flushBecause(err)
	}
	id, err := o.store(ctx, args, held)
	if err != nil {
		return held.flushBecause(err)
	}
	text := summary.Text(fmt.Sprintf("%d lines, %d bytes are stored; read them with: %s read %s%s --lines 10-40, or --grep REGEXP, --jq QUERY, --offset N",
		summary.Lines, held.out.Size(), programName(), id, placeOf(o.Session, o.Connection.Data)))
	count.Shown = int64(utf8.RuneCountInString(text))
	_, err = io.WriteString(held.to, text)
	return err
}

// placeOf returns the flags that lead to the stored outputs of a session, unless they are the defaults.
func placeOf(session, data string) (flags string) {
	if session != outputSession {
		flags = " --session " + cli.ShellWord(session)
	}
	if data != cli.DefaultDataDir() {
		flags += " --data " + cli.ShellWord(data)
	}
	return flags
}

// programName is how a shell calls this program.
func programName() string {
	self, err := os.Executable()
	if found, lookErr := exec.LookPath("stevedore"); err != nil || lookErr == nil && sameFile(found, self) {
		return "stevedore"
	}
	return cli.ShellWord(self)
}

// store makes an artifact of an output, and returns its id.
func (o *runOptions) store(ctx context.Context, args []string, held *heldOutput) (id string, err error) {
	store, closeStore, err := o.Store.OpenDisk(&o.Connection)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	call := tools.Call{ID: artifacts.NewID("run"), Session: o.Session, Tool: savings.Shell, AgentID: o.host, Action: strings.Join(args, " ")}
	rec, err := offload.NewOffloader(store, offload.Config{Log: zerolog.Nop()}).Attach(ctx, call, held.out.Reader())
	return rec.ID, err
}

// heldOutput keeps an output until the command has ended. If it cannot, it passes it on.
type heldOutput struct {
	to        io.Writer
	threshold int64

	mu      sync.Mutex
	out     *tools.Output
	passing bool  // to gets the output
	chars   int64 // of the whole output
}

func newHeldOutput(to io.Writer, threshold int64) *heldOutput {
	return &heldOutput{to: to, threshold: threshold, out: tools.NewOutput(tools.OutputLimits{})}
}

// Write implements io.Writer.
func (h *heldOutput) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range p {
		if utf8.RuneStart(b) {
			h.chars++
		}
	}
	kept := 0
	if !h.passing {
		before := h.out.Size()
		_, err := h.out.Write(p)
		if kept = int(h.out.Size() - before); err == nil && kept == len(p) {
			return kept, nil
		}
		h.passing = true // the disk is full, or the output has more than 4 GiB
		if _, err := io.Copy(h.to, h.out.Reader()); err != nil {
			return 0, err
		}
	}
	n, err := h.to.Write(p[kept:])
	return kept + n, err
}

// isLong reports whether the output is to be stored.
func (h *heldOutput) isLong() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.passing && h.out.Size() > h.threshold
}

// flush passes on what is held.
func (h *heldOutput) flush() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.passing {
		return nil
	}
	h.passing = true
	_, err := io.Copy(h.to, h.out.Reader())
	return err
}

// flushBecause passes on an output that cannot be stored, and returns errNotStored.
func (h *heldOutput) flushBecause(reason error) error {
	if err := h.flush(); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errNotStored, reason)
}

func (h *heldOutput) Close() { _ = h.out.Close() } // it was only read
