package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Config says where the tools work and how much they may take. Only Workspace
// is required.
type Config struct {
	// Workspace is the directory that the tools see; it must exist.
	Workspace string
	// Output bounds what one call may print.
	Output tools.OutputLimits
	// Shell configures the shell tool.
	Shell ShellConfig
	// Web configures web_fetch.
	Web WebConfig
	// SearchTimeout ends a grep, a glob or a recursive listing; what was found
	// until then is kept. Default 1 minute.
	SearchTimeout time.Duration
	// MaxEdit is the size, in bytes, of the largest file that edit_file takes;
	// it is held in memory. Default 16 MiB.
	MaxEdit int64
	// AllowHardLinks lets the tools read and replace files that have more than
	// one name. A second name may lie outside the workspace, where no path
	// check can see it; set it only for workspaces that are full of them, such
	// as those of pnpm.
	AllowHardLinks bool
}

// Tools opens the workspace and returns the tools, and a function that closes
// the workspace once no call runs any more.
func Tools(cfg Config) ([]tools.Tool, func() error, error) {
	cfg.SearchTimeout = cmp.Or(cfg.SearchTimeout, time.Minute)
	cfg.MaxEdit = cmp.Or(cfg.MaxEdit, 16<<20)
	ws, err := openWorkspace(cfg)
	if err != nil {
		return nil, nil, err
	}
	makers := []func(*workspace) (*tools.FuncTool, error){
		newShell, newReadFile, newListDir, newGrep, newGlob, newWriteFile, newEditFile, newWebFetch,
	}
	var all []tools.Tool
	for _, make := range makers {
		tool, err := make(ws)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("built-in tools: %w", err), ws.root.Close())
		}
		all = append(all, tool)
	}
	return all, ws.root.Close, nil
}
