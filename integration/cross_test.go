package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// All packages and their tests type-check for Windows, which lacks most of what Linux has. A file that is compiled on
// macOS and not on Linux is compiled on Windows or on all kinds of Unix too. The test takes a tenth of the time of
// "make cross", which compiles, links and vets for both systems, and all functions of other modules.
func TestTypesOnOtherSystems(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks the standard library")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	initial, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes,
		Env:     append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0"),
		Context: t.Context(),
		Tests:   true,
		ParseFile: func(files *token.FileSet, name string, src []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
			if file != nil && file.Name.Name != "main" && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				leaveOutBodies(file)
			}
			return file, err
		},
	}, module+"/...")
	if err != nil || len(initial) < 50 {
		t.Fatalf("%d packages, %v", len(initial), err)
	}
	packages.Visit(initial, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			if err.Kind != packages.TypeError || strings.HasPrefix(p.PkgPath, module) { // without bodies, imports are not used
				t.Error(err)
			}
		}
	})
}

// leaveOutBodies removes the bodies of the functions that may be declared without one, and the elements of slices and maps.
func leaveOutBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Type.TypeParams == nil && f.Name.Name != "init" && f.Name.Name != "main" {
			f.Body = nil
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok {
				list, isList := literal.Type.(*ast.ArrayType)
				if _, isMap := literal.Type.(*ast.MapType); isMap || isList && list.Len == nil {
					literal.Elts = nil
				}
			}
			return true
		})
	}
}
