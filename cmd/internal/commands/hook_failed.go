package commands

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// watchFailures lets the shell of each later command of a session of Claude Code call
// shortenFailed when the command has failed. Claude Code runs the lines of this file before each
// command, after it has checked the permission of the command alone. A command that sets its own
// trap, or replaces its shell, is shown as without the hook; so is one that a signal ended. A
// descriptor keeps the file of the host, because a command can open one of its own as standard output.
func (o *hookOptions) watchFailures() {
	self, err := os.Executable()
	file := os.Getenv("CLAUDE_ENV_FILE")
	if err != nil || file == "" || o.host != "claude-code" || runtime.GOOS != "linux" { // /dev/stdout is open for writing only elsewhere
		return
	}
	line := fmt.Sprintf(`if [ -f /dev/fd/1 ] && [ "$BASH_VERSION$ZSH_VERSION" ]; then exec {STEVEDORE_OUT}>&1; trap 'c=$?; if [ $c -gt 0 ] && [ $c -lt 129 ]; then %s hook claude-code --failed "${BASH_EXECUTION_STRING:-$ZSH_EXECUTION_STRING}"%s 2>/dev/null >&$STEVEDORE_OUT; fi' EXIT; fi`+"\n",
		withinQuotes(cli.ShellWord(self)), withinQuotes(placeOf(o.Session, o.Connection.Data)))
	_ = durable.AppendFile(file, []byte(line), 0o600) // without it, outputs are shown as they are
}

// withinQuotes returns a text for a place within single quotes of a shell.
func withinQuotes(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// shortenFailed replaces a long output in the file that standard output leads to. The output is
// stored before, and the summary is written before the rest of it is cut off, so that nothing is
// lost if this process is killed.
func (o *hookOptions) shortenFailed(ctx context.Context) {
	out, err := os.OpenFile("/dev/stdout", os.O_RDWR, 0) // standard output itself is open for writing only
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }() // it was written as a whole, or not at all
	info, err := out.Stat()
	if err != nil || !info.Mode().IsRegular() || readsBack(o.Failed) {
		return
	}
	var shown bytes.Buffer
	held := newHeldOutput(&shown, o.threshold)
	defer held.Close()
	if _, err := io.Copy(held, io.LimitReader(out, info.Size())); err != nil || o.show(ctx, []string{o.Failed}, held) != nil || held.passing {
		return
	}
	if now, err := out.Stat(); err != nil || now.Size() != info.Size() {
		return // a process in the background writes on
	}
	if _, err := out.WriteAt(shown.Bytes(), 0); err == nil && out.Truncate(int64(shown.Len())) == nil {
		_, _ = os.Stdout.Seek(int64(shown.Len()), io.SeekStart) // otherwise later output follows a hole
	}
}
