package builtin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

type appendFileArgs struct {
	Path    string `json:"path" jsonschema:"the file, relative to the workspace; it is created if it is missing"`
	Content string `json:"content" jsonschema:"the text to add at the end, exactly; end it with a line break if it is a line. {\"$artifact\":\"ID\"} adds that of an artifact"`
}

func newAppendFile(ws *workspace) *tools.FuncTool {
	return tools.MustTool("append_file",
		"Add text to the end of a file in the workspace, such as a log or a list, without reading it.", ws.appendFile).
		WithEffect(tools.Once).WithArtifacts() // a repeated call adds the text twice
}

func (ws *workspace) appendFile(ctx context.Context, _ tools.Call, args appendFileArgs) *tools.Result {
	return ws.change(ctx, "append to file", args.Path, func(rel string) (string, error) {
		old, err := ws.target(rel)
		switch {
		case err != nil:
		case old == nil:
			err = ws.replace(ctx, rel, []byte(args.Content), nil)
		default:
			err = ws.appendTo(ctx, rel, args.Content, old)
		}
		return "Text added to: " + showName(args.Path), err
	})
}

// appendTo appends to the file old, in its encoding. The text is durable when it returns. If only a part
// can be written, for example on a full disk, it removes that part.
func (ws *workspace) appendTo(ctx context.Context, rel string, text string, old fs.FileInfo) (err error) {
	parent, name, err := ws.openParent(ctx, rel)
	if err != nil {
		return err
	}
	defer parent.Close()
	file, err := parent.OpenFile(name, os.O_RDWR|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err == nil {
		err = ws.checkFile(info)
	}
	if err == nil && !os.SameFile(info, old) {
		err = errChanged
	}
	encoding := ""
	if err == nil {
		encoding, err = charset.Of(file, info.Size(), !isASCII(text)) // for ASCII, only UTF-16 matters
	}
	if err == nil {
		text, err = charset.Encode(text, encoding)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(encoding, "utf-16") {
		text = text[min(len(text), 2):] // the file has its mark
	}
	if _, err := file.WriteString(text); err != nil {
		return errors.Join(err, file.Truncate(info.Size()))
	}
	return file.Sync()
}
