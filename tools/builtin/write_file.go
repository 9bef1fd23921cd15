package builtin

import (
	"context"

	"github.com/stevedore-bus/stevedore/tools"
)

type writeFileArgs struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace; directories are made as needed"`
	Content string `json:"content" jsonschema:"the whole new content"`
}

func newWriteFile(ws *workspace) (*tools.FuncTool, error) {
	tool, err := tools.NewTool("write_file",
		"Write a file of the workspace: a new one, or the whole content of an existing one anew. edit_file changes a part.", ws.writeFile)
	if err != nil {
		return nil, err
	}
	return tool.WithEffect(tools.Idempotent), nil
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
