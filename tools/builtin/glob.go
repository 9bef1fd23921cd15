package builtin

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stevedore-bus/stevedore/offload/grep"
	"github.com/stevedore-bus/stevedore/tools"
)

type globArgs struct {
	Pattern string `json:"pattern" jsonschema:"a pattern for paths, such as **/*.go or docs/*.{md,txt}; ** matches any number of directories, and a slash at the end matches directories only"`
	Path    string `json:"path,omitempty" jsonschema:"the directory that the pattern is relative to, itself relative to the workspace; default the workspace"`
}

func newGlob(ws *workspace) *tools.FuncTool {
	return tools.MustTool("glob",
		"List the files and directories of the workspace whose path matches a pattern, sorted, one per line. Directories end in a slash. "+
			"The search does not follow symbolic links and skips .git.", ws.glob).WithEffect(tools.Idempotent)
}

func (ws *workspace) glob(ctx context.Context, call tools.Call, args globArgs) *tools.Result {
	if err := checkGlob(args.Pattern); err != nil {
		return tools.Failure(err)
	}
	pattern := args.Pattern
	if filepath.IsAbs(pattern) {
		rel, err := ws.rel(pattern)
		if err != nil {
			return tools.Failure(err)
		}
		pattern, args.Path = filepath.ToSlash(rel), ""
	}
	onlyDirs := strings.HasSuffix(pattern, "/")
	// Start in the directory of the pattern's fixed part.
	base, rest := doublestar.SplitPattern(path.Clean(pattern))
	start := path.Join(filepath.ToSlash(args.Path), base)
	dir, done, err := ws.openDir(start)
	if err != nil {
		return tools.Failure(err)
	}
	defer done()
	rel, err := ws.rel(start)
	if err != nil {
		return tools.Failure(err)
	}

	out, err := ws.inTurn(ctx, call, func(ctx context.Context, out *tools.Output) error {
		matches := 0
		w := &walker{skip: ws.hidden, flat: !strings.Contains(rest, "/") && !strings.Contains(rest, "**"), visit: func(_ context.Context, f found) error {
			if ok, _ := doublestar.Match(rest, f.path); !ok || onlyDirs && !f.entry.IsDir() {
				return nil
			}
			matches++
			_, err := fmt.Fprintln(out, showName(path.Join(filepath.ToSlash(rel), f.path))+slash(f.entry))
			return err
		}}
		err := w.walk(ctx, dir)
		if matches == 0 {
			out.Note(fmt.Sprintf("No files match %q", args.Pattern))
		}
		w.note(out)
		return err
	})
	if err != nil {
		return ws.failed(out, "search", start, err)
	}
	return ws.setOutput(&tools.Result{Silent: true}, out)
}

// maxAlternatives is how many patterns without braces a pattern may stand for. To match a name may
// take as many attempts, and package doublestar cannot be interrupted.
const maxAlternatives = 1000

// checkGlob refuses a pattern that is wrong or takes too long.
func checkGlob(pattern string) error {
	if pattern == "" || len(pattern) > grep.MaxPattern || !doublestar.ValidatePattern(pattern) {
		return tools.Errorf(tools.CodeInvalidArguments, "glob %.100q is not a valid pattern", pattern)
	}
	all := 1
	var open []int // alternatives of the braces that are not closed
	for i := 0; i < len(pattern); i++ {
		switch last := len(open) - 1; {
		case pattern[i] == '\\':
			i++
		case pattern[i] == '{':
			open = append(open, 1)
		case last >= 0 && pattern[i] == ',':
			open[last]++
		case last >= 0 && pattern[i] == '}':
			all, open = min(all*open[last], maxAlternatives+1), open[:last]
		}
	}
	if all > maxAlternatives {
		return tools.Errorf(tools.CodeInvalidArguments, "the braces of the glob %.100q stand for more than %d patterns; use fewer", pattern, maxAlternatives)
	}
	return nil
}

func slash(entry fs.DirEntry) string {
	if entry.IsDir() {
		return "/"
	}
	return ""
}
