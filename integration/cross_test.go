package integration

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// All packages type-check for Windows, which lacks most of what Linux has; what is not Linux on macOS is
// compiled there, too, or for all kinds of Unix. That takes a tenth of the time of "make cross", which
// compiles, links and vets for both, tests included.
func TestTypesOnOtherSystems(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks the standard library")
	}
	initial, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes,
		Env:     append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0"),
		Context: t.Context(),
	}, module+"/...")
	if err != nil || len(initial) < 50 {
		t.Fatalf("%d packages, %v", len(initial), err)
	}
	packages.Visit(initial, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			t.Error(err)
		}
	})
}
