package builtin

import (
	"context"

	"github.com/stevedore-bus/stevedore/tools"
)

type writeFileArgs struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace; missing directories are created"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func newWriteFile(ws *workspace) (*tools.FuncTool, error) {
	return idempotent(tools.NewTool("write_file",
		"Create a file in the workspace or replace its whole content. To change a part of a file, use edit_file.", ws.writeFile))
}

func (ws *workspace) writeFile(ctx context.Context, _ tools.Call, args writeFileArgs) *tools.Result {
	rel, err := ws.rel(args.Path)
	if err != nil {
		return tools.Failure(err)
	}
	if ctx.Err() != nil {
		return tools.Failure(ended(ctx))
	}
	ws.edit.Lock()
	defer ws.edit.Unlock()
	old, err := ws.target(rel)
	if err == nil {
		err = ws.replace(rel, []byte(args.Content), old)
	}
	if err != nil {
		return tools.Failure(ws.explain("write file", args.Path, err))
	}
	return tools.SilentResult("File updated: " + showName(args.Path))
}
