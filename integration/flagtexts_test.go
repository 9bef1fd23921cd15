package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// No library names a flag or a command of the program in a text: it returns a code or a typed
// error, and cmd gives the advice.
func TestLibrariesNameNoFlags(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	flags := map[string]bool{}
	for _, command := range []string{"up", "serve", "provision", "call", "agent", "mcp", "console"} {
		for name := range flagsOf(t, workerProgram, command) {
			flags[name] = true
		}
	}
	flag, command := regexp.MustCompile(`(?:^|[^-\w])--([a-z][a-z-]+)`), regexp.MustCompile(`\bstevedore (`+strings.Join(commands(t), "|")+`)\b`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "cmd" || name == "integration" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			named := command.FindString(text)
			for _, m := range flag.FindAllStringSubmatch(text, -1) {
				if flags[m[1]] {
					named = m[0]
				}
			}
			if named != "" {
				t.Errorf("%s: a text names %q", files.Position(literal.Pos()), named)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
