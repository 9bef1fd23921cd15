package integration

import (
	"os"
	"testing"

	"golang.org/x/tools/go/packages"
)

// All packages type-check for the systems that CI does not run on, and for Windows, which lacks
// most of what tests use of Unix, their tests, too. That takes a tenth of the time of "make
// cross", which compiles, links and vets for a release.
func TestTypesOnOtherSystems(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks the standard library")
	}
	for system, tests := range map[string]bool{"windows": true, "darwin": false} {
		initial, err := packages.Load(&packages.Config{
			Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes,
			Env:     append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
			Context: t.Context(),
			Tests:   tests,
		}, module+"/...")
		if err != nil || len(initial) < 50 {
			t.Fatalf("%s: %d packages, %v", system, len(initial), err)
		}
		packages.Visit(initial, nil, func(p *packages.Package) {
			for _, err := range p.Errors {
				t.Errorf("%s: %v", system, err)
			}
		})
	}
}
