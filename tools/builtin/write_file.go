package builtin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

type writeFileArgs struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace; missing directories are created"`
	Content string `json:"content" jsonschema:"the whole new content, or {\"$artifact\":\"ID\"} for that of an artifact, with \"base64\":true if it is not text"`
	Base64  bool   `json:"base64,omitempty" jsonschema:"the content is base64; needed for an artifact that is not text"`
}

func newWriteFile(ws *workspace) *tools.FuncTool {
	return tools.MustTool("write_file",
		"Create a file in the workspace or replace its whole content. To change a part of a file, use edit_file.", ws.writeFile).
		WithEffect(tools.Idempotent).WithArtifacts()
}

func (ws *workspace) writeFile(ctx context.Context, _ tools.Call, args writeFileArgs) *tools.Result {
	content := []byte(args.Content)
	if args.Base64 {
		var err error
		if content, err = base64.StdEncoding.DecodeString(args.Content); err != nil {
			return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "content is not base64: %v", err))
		}
	}
	return ws.change(ctx, "write file", args.Path, func(rel string) (string, error) {
		old, err := ws.target(rel)
		if err == nil {
			err = ws.replace(ctx, rel, content, old)
		}
		if errors.Is(err, errChanged) && ws.holds(rel, content) { // another worker runs the same call
			err = nil
		}
		return "File updated: " + showName(args.Path), err
	})
}

// holds reports whether a file has the content, durably.
func (ws *workspace) holds(rel string, content []byte) bool {
	if info, err := ws.target(rel); err != nil || info == nil || info.Size() != int64(len(content)) {
		return false
	}
	stored, err := ws.root.ReadFile(rel)
	return err == nil && bytes.Equal(stored, content) && durable.Dir{Root: ws.root}.Sync(filepath.Dir(rel)) == nil
}
