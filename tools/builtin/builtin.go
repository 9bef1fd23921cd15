package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Config configures the tools. Only Workspace is required.
type Config struct {
	// Workspace is the directory that the tools work in. It must exist.
	Workspace string
	// Unguarded are absolute paths that the write tools may write although programs
	// execute what is there, such as .git/config: see guard.
	Unguarded []string
	// Output limits the output of one call.
	Output tools.OutputLimits
	// Shell configures the shell tool.
	Shell ShellConfig
	// Web configures web_fetch.
	Web WebConfig
	// SearchTimeout is the longest time of a grep, a glob or a recursive listing,
	// which then returns what it has found. Default 1 minute.
	SearchTimeout time.Duration
	// MaxEdit is the size, in bytes, of the largest file that edit_file reads into
	// memory. Default 16 MiB.
	MaxEdit int64
}

// Tools opens the workspace and returns the tools, and a function that closes the
// workspace after the last call.
func Tools(cfg Config) ([]tools.Tool, func() error, error) {
	cfg.SearchTimeout = cmp.Or(cfg.SearchTimeout, time.Minute)
	cfg.MaxEdit = cmp.Or(cfg.MaxEdit, 16<<20)
	ws, err := openWorkspace(cfg)
	if err != nil {
		return nil, nil, err
	}
	makers := []func(*workspace) (*tools.FuncTool, error){
		newShell, newReadFile, newListDir, newGrep, newGlob, newWriteFile, newAppendFile, newEditFile, newWebFetch,
	}
	var all []tools.Tool
	for _, make := range makers {
		tool, err := make(ws)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("built-in tools: %w", err), ws.close())
		}
		all = append(all, tool)
	}
	return all, ws.close, nil
}

// idempotent sets the effect of the tool that tools.NewTool returned.
func idempotent(tool *tools.FuncTool, err error) (*tools.FuncTool, error) {
	if err != nil {
		return nil, err
	}
	return tool.WithEffect(tools.Idempotent), nil
}
