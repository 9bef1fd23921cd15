package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/stevedore-bus/stevedore/offload/grep"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

type grepArgs struct {
	Pattern    string `json:"pattern" jsonschema:"a regular expression (RE2 syntax), matched against each line; at most 4096 bytes and 20000 steps, x{100} has 100"`
	Path       string `json:"path,omitempty" jsonschema:"a file or directory, relative to the workspace; default the workspace"`
	Glob       string `json:"glob,omitempty" jsonschema:"search only files whose name or path below the directory matches, such as *.go or src/**/*.{ts,tsx}"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"ignore upper and lower case"`
	Context    int    `json:"context,omitempty" jsonschema:"how many lines to show before and after each match; at most 100"`
	MaxResults int    `json:"max_results,omitempty" jsonschema:"stop after this many matching lines; default 1000"`
}

const defaultMaxResults = 1000

func newGrep(ws *workspace) *tools.FuncTool {
	return tools.MustTool("grep",
		"Search the files of the workspace for a regular expression. Returns path:line: text for each matching line. Skips binary files, "+
			"symbolic links and .git.", ws.grep).WithEffect(tools.Idempotent)
}

func (ws *workspace) grep(ctx context.Context, call tools.Call, args grepArgs) *tools.Result {
	if args.Context < 0 || args.Context > grep.MaxContext || args.MaxResults < 0 {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "context must be 0 to %d, and max_results must not be negative", grep.MaxContext))
	}
	if args.Glob != "" {
		if err := checkGlob(args.Glob); err != nil {
			return tools.Failure(err)
		}
	}
	pattern, err := grep.Compile(args.Pattern, args.IgnoreCase)
	if err != nil {
		return tools.Failure(err)
	}
	out, err := ws.inTurn(ctx, call, func(ctx context.Context, out *tools.Output) error {
		lines := lineSearch{pattern: pattern, context: args.Context, max: cmp.Or(args.MaxResults, defaultMaxResults), out: out}
		return (&grepCall{ws: ws, args: args, lines: lines}).run(ctx, out)
	})
	if err != nil {
		return ws.failed(out, "search", args.Path, err)
	}
	return ws.setOutput(&tools.Result{Silent: true}, out)
}

// grepCall is one call of grep.
type grepCall struct {
	ws    *workspace
	args  grepArgs
	lines lineSearch

	files, matched, binary, skipped int
	foreign                         int // files in an encoding that is not known
}

func (g *grepCall) run(ctx context.Context, out *tools.Output) error {
	rel, err := g.ws.rel(g.args.Path)
	if err != nil {
		return err
	}
	info, err := g.ws.root.Stat(rel)
	if err != nil {
		return err
	}
	shown := filepath.ToSlash(rel)
	if !info.IsDir() {
		f, _, err := g.ws.open(g.args.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		err = g.search(ctx, f, shown)
		g.summarize(out)
		return err
	}
	dir, err := g.ws.root.OpenRoot(rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	w := &walker{skip: g.ws.hidden, visit: func(ctx context.Context, f found) error {
		if !f.entry.Type().IsRegular() || !matchGlob(g.args.Glob, f.path) {
			return nil
		}
		return g.file(ctx, f.dir, f.name, path.Join(shown, f.path))
	}}
	err = w.walk(ctx, dir)
	g.summarize(out)
	w.note(out)
	return err
}

// summarize appends the numbers of matches and of files to out.
func (g *grepCall) summarize(out *tools.Output) {
	if g.lines.found == 0 {
		out.Note(fmt.Sprintf("No matches for pattern %q in %d files", g.args.Pattern, g.files))
		if re2 := grep.Basic(g.args.Pattern); re2 != g.args.Pattern {
			out.Note(fmt.Sprintf("[the syntax is RE2, where \\| is the character |; did you mean %q?]", re2))
		}
	} else {
		out.Note(fmt.Sprintf("[%d matching lines in %d of %d files]", g.lines.found, g.matched, g.files))
	}
	if g.lines.full() {
		out.Note(fmt.Sprintf("[stopped at max_results = %d; there may be more]", g.lines.max))
	}
	if g.foreign > 0 && !isASCII(g.args.Pattern) {
		out.Note(fmt.Sprintf("[%d of the files are in an unknown encoding: letters of the pattern beyond ASCII do not match there; convert them, for example with "+
			"shell: iconv]", g.foreign))
	}
	if g.binary+g.skipped > 0 {
		out.Note(fmt.Sprintf("[skipped: %d binary files, %d unreadable files]", g.binary, g.skipped))
	}
}

// file searches one file of a directory. It counts a file that cannot be read, and
// the search continues.
func (g *grepCall) file(ctx context.Context, dir *os.Root, name, shown string) error {
	f, _, err := g.ws.openIn(dir, name)
	if err != nil {
		g.skipped++
		return nil
	}
	defer f.Close()
	err = g.search(ctx, f, shown)
	if _, ok := errors.AsType[*fs.PathError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) { // the file is unreadable or shrank
		g.skipped++
		return nil
	}
	return err
}

func (g *grepCall) search(ctx context.Context, f *os.File, shown string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	encoding, head, isText, err := sniff(f, info.Size())
	if err != nil {
		return err
	}
	if !isText {
		g.binary++
		return nil
	}
	g.files++
	if encoding == "" && !isUTF8(head) {
		g.foreign++
	}
	text, size := io.ReaderAt(f), info.Size()
	if encoding != "" {
		decoded := tools.NewOutput(tools.OutputLimits{Total: 4 * size})
		defer decoded.Close()
		if err := (&lineRange{first: 1, dst: decoded}).copy(ctx, charset.NewReader(f, encoding)); err != nil {
			return err
		}
		text, size = decoded, decoded.Size()
	}
	before := g.lines.found
	err = g.lines.search(ctx, text, size, showName(shown))
	if g.lines.found > before {
		g.matched++
	}
	if err == nil && g.lines.full() {
		return errStop
	}
	return err
}

// matchGlob matches a pattern without a slash against the name, any other
// against the path, so that ./*.go is only of the directory itself.
func matchGlob(glob, file string) bool {
	if glob == "" {
		return true
	}
	if ok, _ := doublestar.Match(path.Clean(glob), file); ok {
		return true
	}
	ok, _ := doublestar.Match(glob, path.Base(file))
	return ok
}
