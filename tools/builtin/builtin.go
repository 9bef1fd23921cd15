package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// Config configures the tools. Only Workspace is required.
type Config struct {
	// Workspace is the directory that the tools work in. It must exist.
	Workspace string
	// Unguarded are absolute paths that the write tools may write although programs
	// execute what is there, such as .git: see guard.
	Unguarded []string
	// Hide are directories that the tools do not show if they are in the
	// workspace, such as the data directory of the worker. They must exist.
	Hide []string
	// Advise, if set, says how the operator can allow what is refused, for texts to models.
	Advise func(sandbox.Refusal) string
	// Output limits the output of one call.
	Output tools.OutputLimits
	// Shell configures the shell tool.
	Shell ShellConfig
	// Web configures web_fetch.
	Web WebConfig
	// Pool is where the sessions take turns with what may take long: searches, and the conversion
	// of pages, which its processes do in bounded memory. By default, the tools have a Pool of
	// their own that does all of it in this process.
	Pool *limited.Pool
	// SearchTime is how much processor time a grep, a glob or a listing may take,
	// which then returns what it has found. Default 10 s.
	SearchTime time.Duration
}

// Tools opens the workspace and returns the tools, and a function that closes the
// workspace after the last call.
func Tools(cfg Config) ([]tools.Tool, func() error, error) {
	cfg.SearchTime = cmp.Or(cfg.SearchTime, limited.Grep.Most)
	if cfg.Pool == nil {
		cfg.Pool = limited.NewPool()
	}
	ws, err := openWorkspace(cfg)
	if err != nil {
		return nil, nil, err
	}
	shell, err := newShell(ws)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("built-in tools: %w", err), ws.close())
	}
	return []tools.Tool{
		shell, newReadFile(ws), newListDir(ws), newGrep(ws), newGlob(ws), newWriteFile(ws), newAppendFile(ws), newEditFile(ws), newWebFetch(ws),
	}, ws.close, nil
}

// OutputLimit means that a command printed more than is kept.
const OutputLimit sandbox.Refusal = "only so much of the output of a command is kept"

// advice returns the advice of the operator's program, after a semicolon, or "".
func (ws *workspace) advice(r sandbox.Refusal) string {
	if ws.cfg.Advise == nil || ws.cfg.Advise(r) == "" {
		return ""
	}
	return "; " + ws.cfg.Advise(r)
}
