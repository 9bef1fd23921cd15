// Package limited runs a part of the program, such as a jq query, in a process of its own, whose
// memory and time are bounded. Hostile input can then end that process, but not the worker.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package limited

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// ErrMemory means that the process needed more memory than it may have.
var ErrMemory = errors.New("the process needed too much memory")

// Serve bounds the memory of this process to that of a kind, so it is for a main that does nothing
// else. If the system can do that, the process ends when it has twice as much, for the garbage
// collector, 128 MiB for the program, and the stacks of its threads.
func Serve(k Kind) error {
	heap := k.Memory
	debug.SetMemoryLimit(heap + heap/2)
	if err := limitMemory(uint64(2*heap + 128<<20 + stacks)); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	return nil
}

// Run runs a command line whose main calls Serve. It kills the process when ctx ends, and then
// returns the cause.
func Run(ctx context.Context, command []string, stdin io.Reader, stdout io.Writer) error {
	stderr := new(capped)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.Env = []string{} // it needs no secrets
	cmd.WaitDelay = time.Second
	apart(cmd)
	err := cmd.Start()
	if err == nil {
		running(ctx, cmd.Process.Pid)
		err = cmd.Wait()
		running(ctx, 0)
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case exited && !exit.Exited() && exit.UserTime()+exit.SystemTime() >= limitOf(ctx):
		return Reached{CPU: limitOf(ctx)}
	case exited && noThread.Match(stderr.Bytes()):
		return tools.Errorf(tools.CodeToolFailed, "its process got no further thread: the system runs as many processes as it may, or has no memory left; "+
			"try again later, or ask for less")
	case exited && runtimeDied.Match(stderr.Bytes()):
		return ErrMemory
	case exited && !exit.Exited():
		return tools.Errorf(tools.CodeToolFailed, "its process was killed from outside (%s), perhaps because the machine has no memory left; "+
			"try again, or ask for less", exit)
	case err != nil:
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// runtimeDied matches the output of a Go runtime that gets no more memory. It mostly
// says so, but its garbage collector may also find a nil pointer.
var runtimeDied = lazyregexp.New(`(?m)^(fatal error|SIGSEGV): `)

// noThread matches the output of a Go runtime that may start no thread: the first line without cgo,
// the second one with it.
var noThread = lazyregexp.New(`(?m)^(runtime: failed to create new OS thread .*errno=11|runtime/cgo: pthread_create failed: )`)

// capped keeps the first 4 KiB that are written to it.
type capped struct{ bytes.Buffer }

func (b *capped) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(4<<10-b.Len(), 0))])
	return len(p), nil
}
