package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/tools"
)

type listDirArgs struct {
	Path      string `json:"path,omitempty" jsonschema:"the directory, relative to the workspace; default the workspace"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also list all directories below, except .git"`
}

func newListDir(ws *workspace) *tools.FuncTool {
	return tools.MustTool("list_dir",
		"List a directory of the workspace, sorted by name. Directories end in a slash; files have their size in bytes, and symbolic "+
			"links their target.", ws.listDir).WithEffect(tools.Idempotent)
}

func (ws *workspace) listDir(ctx context.Context, call tools.Call, args listDirArgs) *tools.Result {
	dir, done, err := ws.openDir(args.Path)
	if err != nil {
		return tools.Failure(err)
	}
	defer done()

	out, err := ws.inTurn(ctx, call, func(ctx context.Context, out *tools.Output) error {
		w := &walker{skip: ws.hidden, flat: !args.Recursive, visit: func(_ context.Context, f found) error {
			_, err := fmt.Fprintln(out, describe(f))
			return err
		}}
		err := w.walk(ctx, dir)
		if out.Size() == 0 && err == nil {
			out.Note("(the directory is empty)")
		}
		w.note(out)
		return err
	})
	if err != nil {
		return ws.failed(out, "read directory", args.Path, err)
	}
	return ws.setOutput(&tools.Result{Silent: true}, out)
}

// openDir opens a directory of the workspace until done is called.
func (ws *workspace) openDir(path string) (dir *os.Root, done func(), err error) {
	rel, err := ws.rel(path)
	if err != nil {
		return nil, nil, err
	}
	if rel == "." {
		return ws.root, func() {}, nil
	}
	info, err := ws.root.Stat(rel) // opening a named pipe would wait for its writer
	if err == nil && !info.IsDir() {
		err = tools.Errorf(tools.CodeToolFailed, "failed to read directory %q: it is not a directory; to read a file, use read_file", path)
	}
	if err == nil {
		dir, err = ws.root.OpenRoot(rel)
	}
	if err != nil {
		return nil, nil, ws.explain("read directory", path, err)
	}
	return dir, func() { _ = dir.Close() }, nil
}

// describe returns the line of an entry.
func describe(f found) string {
	name := showName(f.path)
	mode := f.entry.Type()
	switch {
	case mode.IsDir():
		return "DIR:  " + name + "/"
	case mode&fs.ModeSymlink != 0:
		target, err := f.dir.Readlink(f.name)
		if err != nil {
			return "LINK: " + name
		}
		return "LINK: " + name + " -> " + showName(target)
	case !mode.IsRegular():
		return "FILE: " + name + " (" + kind(mode) + ")"
	}
	info, err := f.entry.Info()
	if err != nil {
		return "FILE: " + name
	}
	return fmt.Sprintf("FILE: %s (%d bytes)", name, info.Size())
}
