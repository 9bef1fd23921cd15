package integration

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stevedore-bus/stevedore"

// arrows says which packages of ours a package may import. design.md draws the
// same picture; a package that is missing here may import nothing of ours.
var arrows = map[string][]string{
	"cmd/worker":       {"*"},
	"cmd/heartbeat":    {"bus", "bus/heartbeat", "cmd/internal/cli", "state"},
	"cmd/internal/cli": {"bus", "bus/heartbeat", "state"},
	"bus/worker":       {"bus", "tools", "offload", "state"},
	"bus/rpc":          {"bus", "bus/cron", "tools", "offload"},
	"bus/notify":       {"bus", "tools", "state"},
	"bus/heartbeat":    {"bus", "tools", "state"},
	"bus/cron":         {"bus", "tools"},
	"bus/remote":       {"bus", "tools"},
	"bus/bustest":      {"bus"},
	"offload":          {"tools", "state"},
	"offload/chat":     {"tools", "state"},
	"tools":            {},
	"tools/builtin":    {"tools", "state"},
	"tools/agent":      {"tools", "offload"},
	"bus":              {},
	"state":            {},
	"integration":      {"*"},
}

// speaksNATS lists the only files outside of bus/... that may import NATS.
var speaksNATS = []string{"offload/object", "state/kv", "cmd/worker/"}

type goPackage struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
	Dir        string
}

func TestImportArrows(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := arrows[name]
		if !known {
			t.Errorf("package %s is new: say in this test what it may import", name)
		}
		for _, imported := range p.Imports {
			ours, ok := strings.CutPrefix(imported, module+"/")
			if ok && !slices.Contains(allowed, ours) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s; it may import %v", name, ours, allowed)
			}
		}
	}
}

// NATS stays where it is spoken: everything else is free of the bus.
func TestNATSIsConfined(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if name == "bus" || strings.HasPrefix(name, "bus/") {
			continue
		}
		for _, file := range p.GoFiles {
			where := path.Join(name, file)
			if slices.ContainsFunc(speaksNATS, func(prefix string) bool { return strings.HasPrefix(where, prefix) }) {
				continue
			}
			for _, imported := range importsOf(t, p.Dir, file) {
				if strings.HasPrefix(imported, "github.com/nats-io/") {
					t.Errorf("%s imports %s", where, imported)
				}
			}
		}
	}
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
