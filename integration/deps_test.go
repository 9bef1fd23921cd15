package integration

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stevedore-bus/stevedore"

// allowedImports lists, for each package of ours, the packages of ours that it may
// import. A package that is not in this list may import none of them. The list is
// also the drawing of the architecture: an arrow points down only.
var allowedImports = map[string][]string{
	// Wiring: only cmd reads flags, environment and files.
	"cmd/internal/commands": {"*"},
	"cmd/stevedore":         {"cmd/internal/commands"},
	"cmd/worker":            {"cmd/internal/commands"},
	"cmd/heartbeat":         {"bus", "bus/admin", "bus/cron", "cmd/internal/heartbeat", "cmd/internal/cli"},
	"cmd/internal/cli":      {"bus", "bus/admin", "bus/embedded", "bus/jsapi", "cmd/internal/heartbeat", "state/durable", "tools", "tools/retry", "tools/lazyregexp"},
	"cmd/internal/process":  {"*"},
	"cmd/internal/otlp":     {"tools/retry", "tools/tracing"},
	"cmd/internal/clitest":  {},
	"cmd/internal/client":   {"bus", "bus/agents", "bus/rpc", "bus/session", "bus/status", "bus/task", "cmd/internal/cli", "offload", "tools", "tools/agent", "tools/trouble"},
	"cmd/internal/demo":     {"*"},
	"cmd/internal/savings":  {"cmd/internal/mcp/hosts", "tools"},

	// bus/worker combines calls, tools, offloading and state.
	"bus/agents":                {"bus", "bus/consume", "bus/approvals", "bus/cron", "bus/notify", "bus/notify/channel", "bus/rpc", "bus/session", "bus/task", "offload", "state", "state/kv", "tools", "tools/agent", "tools/builtin", "tools/trouble"},
	"bus/approvals":             {"bus", "bus/consume", "bus/task", "tools", "tools/retry"},
	"bus/worker":                {"tools/tracing", "bus", "bus/consume", "bus/admin", "bus/approvals", "bus/cron", "bus/dead", "bus/retention", "bus/task", "tools/metrics", "tools", "offload", "state", "tools/retry", "tools/trouble"},
	"bus/rpc":                   {"tools/tracing", "bus", "bus/consume", "bus/approvals", "bus/dead", "bus/cron", "bus/task", "tools", "offload"},
	"bus/notify":                {"bus", "bus/consume", "bus/cron", "bus/dead", "bus/notify/channel", "state", "tools", "tools/metrics", "tools/tracing", "tools/trouble"},
	"bus/notify/channel":        {"bus", "bus/consume", "bus/notify/markup", "state/durable", "tools", "tools/retry", "tools/trouble", "tools/lazyregexp"},
	"bus/notify/markup":         {"tools/lazyregexp"},
	"cmd/internal/heartbeat":    {"bus", "bus/consume", "bus/cron", "bus/dead", "bus/task", "tools", "state/durable", "tools/trouble"},
	"cmd/internal/memory":       {"bus", "tools"},
	"bus/cron":                  {"bus", "bus/consume", "bus/retention", "bus/task", "tools", "tools/trouble", "tools/lazyregexp"},
	"bus/remote":                {"tools/tracing", "bus", "tools", "tools/retry", "tools/trouble"},
	"bus/schema":                {"bus/dead", "bus/cron", "bus/notify/channel", "bus/remote", "bus/rpc", "bus/task", "offload", "tools"},
	"bus/session":               {"bus", "bus/jsapi"},
	"bus/task":                  {"bus", "bus/consume", "bus/jsapi", "tools", "tools/retry", "tools/tracing"},
	"bus/retention":             {"bus", "bus/jsapi", "bus/task", "tools/trouble"},
	"cmd/internal/serverconfig": {"bus", "bus/rpc", "state/durable", "tools"},
	"bus/embedded":              {"bus", "state/durable"},
	"bus/bustest":               {"bus", "bus/admin", "bus/embedded"},
	"bus/consume":               {"bus", "bus/internal/pull", "bus/jsapi", "tools/fair", "tools/retry", "tools/trouble"},
	"bus":                       {"bus/internal/nkey", "bus/internal/publisher", "bus/jsapi", "tools/jsonform", "tools/retry"},
	"bus/jsapi":                 {"tools/retry"},
	"bus/dead":                  {"bus", "bus/consume", "tools"},
	"bus/admin":                 {"bus", "bus/jsapi", "bus/retention", "tools", "tools/retry"},
	"bus/internal/publisher":    {"bus/jsapi"},
	"bus/internal/pull":         {"bus/jsapi"},
	"bus/internal/nkey":         {},
	"cmd/internal/httpauth":     {},
	"cmd/internal/console":      {"bus", "bus/agents", "bus/dead", "bus/cron", "cmd/internal/httpauth", "bus/notify/channel", "bus/notify/markup", "bus/rpc", "bus/status", "bus/task", "offload", "tools", "tools/agent", "tools/tracing"},
	"bus/status":                {"bus", "bus/cron", "bus/dead", "bus/rpc", "bus/task", "bus/worker", "tools", "tools/trouble"},

	// For tests only.
	"integration/modes":     {},
	"integration/slow":      {},
	"bus/worker/workertest": {"bus", "bus/bustest", "bus/worker", "tools", "tools/tracing"},

	"offload":                    {"tools/charset", "tools/jsonform", "tools/limited", "tools/metrics", "tools", "offload/describe", "offload/grep", "offload/index", "offload/internal/blocks", "offload/internal/cursor", "offload/internal/jsonread", "offload/internal/markup", "offload/internal/textscan", "offload/jq", "offload/tables", "tools/lazyregexp", "tools/trouble"},
	"offload/grep":               {"tools", "tools/limited", "offload/index", "offload/internal/cursor", "offload/internal/textscan", "tools/lazyregexp"},
	"offload/describe":           {"tools", "offload/internal/jsonread", "tools/lazyregexp"},
	"offload/jq":                 {"tools", "tools/limited", "offload/describe", "offload/internal/cursor", "offload/internal/jsonread", "offload/internal/markup", "tools/lazyregexp"},
	"offload/tables":             {"tools", "tools/limited", "offload/describe", "offload/internal/cursor", "offload/internal/jsonread", "offload/internal/markup", "offload/jq", "state/durable", "tools/lazyregexp"},
	"offload/tables/sqlite":      {"offload/tables"},
	"offload/internal/cursor":    {"tools"},
	"offload/internal/jsonread":  {},
	"offload/internal/markup":    {"tools", "offload/describe", "offload/internal/jsonread"},
	"offload/chat":               {"tools", "state/durable", "offload/internal/jsonread"},
	"offload/disk":               {"offload", "offload/index", "offload/record", "tools", "state/durable"},
	"offload/object":             {"offload", "offload/index", "offload/internal/blocks", "offload/record", "tools", "bus/jsapi"},
	"offload/mem":                {"offload", "offload/index", "offload/record"},
	"offload/storetest":          {"offload", "offload/index", "tools"},
	"offload/record":             {"offload", "offload/index", "offload/internal/blocks", "tools"},
	"offload/internal/blocks":    {"offload/index"},
	"offload/internal/benchtest": {},
	"offload/index":              {"offload/internal/textscan", "tools/charset"},
	"offload/internal/textscan":  {"tools/charset", "tools/lazyregexp"},

	// What a process counts. It imports nothing of ours.
	"tools/metrics": {},
	"tools/tracing": {},

	"tools":                        {"tools/jsonform"},
	"tools/jsonform":               {}, // imports nothing of ours, so that everything can write JSON in one way
	"tools/lazyregexp":             {}, // as tools/jsonform
	"tools/charset":                {},
	"tools/trouble":                {},
	"tools/retry":                  {},
	"tools/fair":                   {},
	"tools/internal/job":           {},
	"tools/limited":                {"tools", "tools/fair", "tools/jsonform", "tools/lazyregexp"},
	"tools/toolstest":              {"tools"},
	"tools/builtin":                {"tools", "tools/charset", "tools/limited", "tools/sandbox", "offload/grep", "state/durable"},
	"cmd/internal/shorten":         {"offload", "tools", "tools/lazyregexp"},
	"tools/sandbox":                {"state/durable", "tools/sandbox/internal/enter", "tools/lazyregexp"},
	"tools/sandbox/internal/enter": {},
	"tools/agent":                  {"tools/jsonform", "tools/retry", "tools/tracing", "tools", "offload", "tools/lazyregexp"},
	"tools/agent/provider":         {"tools/jsonform", "tools/retry", "tools/tracing", "tools/metrics", "tools", "tools/agent", "offload", "tools/trouble", "tools/lazyregexp"},

	// Other MCP servers and MCP clients.
	"cmd/internal/mcp":           {"offload", "bus", "bus/agents", "bus/approvals", "cmd/internal/httpauth", "bus/rpc", "bus/task", "tools", "cmd/internal/mcp/artifacts", "cmd/internal/mcp/wire", "tools/tracing"},
	"cmd/internal/mcp/servers":   {"offload", "tools", "cmd/internal/mcp/command", "cmd/internal/mcp/wire", "cmd/internal/mcp/wrap", "tools/sandbox", "tools/retry", "tools/trouble"},
	"cmd/internal/mcp/wire":      {"tools/jsonform", "tools/lazyregexp"},
	"cmd/internal/mcp/command":   {"tools", "tools/sandbox"},
	"cmd/internal/mcp/hosts":     {"state/durable", "tools/jsonform", "tools/lazyregexp"},
	"cmd/internal/mcp/artifacts": {"cmd/internal/mcp/wire", "offload", "tools", "tools/lazyregexp"},
	"cmd/internal/mcp/wrap":      {"offload", "tools", "tools/retry", "cmd/internal/mcp/artifacts", "cmd/internal/mcp/command", "cmd/internal/mcp/hosts", "cmd/internal/mcp/wire"},

	"state":         {"state/durable"},
	"state/kv":      {"bus/jsapi", "state"},
	"state/durable": {},

	"integration":                         {"*"},
	"integration/deploy/release/packages": {},
	"integration/deploy/site":             {},
	"integration/eval":                    {},
	"integration/simulate":                {},
	"integration/hosts":                   {},
}

// natsFolders are the folders that may import NATS. Everything else is free of it.
var natsFolders = []string{"bus", "offload/object", "state/kv", "cmd", "integration"}

type goPackage struct {
	Name       string
	ImportPath string
	Imports    []string
	Deps       []string // imports of imports too
}

func TestAllowedImports(t *testing.T) {
	for _, p := range listPackages(t, "...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, known := allowedImports[name]
		if !known {
			t.Errorf("package %s is new: add it to allowedImports with the packages that it may import", name)
		}
		for _, imported := range p.Imports {
			ours, ok := strings.CutPrefix(imported, module+"/")
			if ok && !slices.Contains(allowed, ours) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s; it may import %v", name, ours, allowed)
			}
		}
		for _, unused := range allowed {
			if unused != "*" && !slices.Contains(p.Imports, module+"/"+unused) {
				t.Errorf("%s does not import %s: remove that entry of allowedImports", name, unused)
			}
		}
	}
}

func TestNATSIsConfined(t *testing.T) {
	for _, p := range listPackages(t, "...") {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if slices.ContainsFunc(natsFolders, func(folder string) bool {
			return name == folder || strings.HasPrefix(name, folder+"/")
		}) {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, "github.com/nats-io/") {
				t.Errorf("%s imports %s", name, imported)
			}
		}
	}
}

// TestProgramsWithoutNATS checks that a program that uses these packages does not
// compile NATS.
func TestProgramsWithoutNATS(t *testing.T) {
	t.Parallel()
	packages := listPackages(t, "offload", "offload/chat", "offload/disk", "offload/mem", "offload/record", "state", "state/durable",
		"tools", "tools/agent", "tools/agent/provider", "tools/builtin", "cmd/internal/mcp/wrap")
	if len(packages) != 12 {
		t.Errorf("%d packages", len(packages))
	}
	for _, p := range packages {
		for _, dependency := range p.Deps {
			if strings.HasPrefix(dependency, "github.com/nats-io/") {
				t.Errorf("%s depends on %s", p.ImportPath, dependency)
			}
		}
	}
}

// TestProgramsWithoutSQL checks that a program that imports offload compiles SQLite only if it runs
// SQL itself.
func TestProgramsWithoutSQL(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t, "offload", "offload/mem", "offload/disk", "offload/object", "offload/chat", "tools/agent", "bus/worker", "bus/rpc") {
		for _, dependency := range p.Deps {
			if strings.HasPrefix(dependency, "modernc.org/") {
				t.Errorf("%s depends on %s", p.ImportPath, dependency)
			}
		}
	}
}

func listPackages(t *testing.T, names ...string) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-json=Name,ImportPath,Imports,Deps")
	for _, name := range names {
		list.Args = append(list.Args, module+"/"+name)
	}
	out, err := list.Output()
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
