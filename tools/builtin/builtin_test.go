//go:build unix

package builtin_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/toolstest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == limited.HTML.Name {
		if err := builtin.ServeMarkdown(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		syscall.Exit(0) // os.Exit sleeps for a second under the race detector
	}
	if role := os.Getenv("STEVEDORE_TEST_ROLE"); role != "" {
		syscall.Exit(roles[role]())
	}
	os.Exit(slow.RunWaiting(m))
}

// roles are the child processes that tests start from the test binary.
var roles = map[string]func() int{"worker": runWorker, "writer": runWriter}

// args are the arguments of a call.
type args map[string]any

// fixture is a workspace and its tools, which it calls through a registry like a worker.
type fixture struct {
	t   testing.TB
	dir string
	reg *tools.Registry
	// memory is the size of the largest output that is kept in memory.
	memory  int64
	session string
}

func newFixture(t testing.TB, cfg builtin.Config) *fixture {
	t.Helper()
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	all, closeAll, err := builtin.Tools(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	})
	reg := tools.NewRegistry(zerolog.Nop())
	if err := reg.Register(all...); err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, dir: cfg.Workspace, reg: reg, memory: cmp.Or(cfg.Output.Memory, 1<<20)}
}

// file writes a file of the workspace.
func (b *fixture) file(name, content string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// run returns the result of a call. As for a model, the text of an output in memory is inline,
// with its notes.
func (b *fixture) run(ctx context.Context, tool string, a args) *tools.Result {
	b.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	res := b.reg.Run(ctx, tools.Call{ID: "1", Session: b.session, Tool: tool, Args: raw}, nil)
	b.t.Cleanup(func() { res.Close() })
	if out := res.Output; out != nil && out.Written() < out.Size() {
		if text, ok, err := out.Text(b.memory); err != nil {
			b.t.Fatal(err)
		} else if ok && utf8.ValidString(text) {
			res.ForLLM, res.Output = text, nil
		}
	}
	return res
}

// ok runs a call that must succeed and returns its text.
func (b *fixture) ok(tool string, a args) string {
	b.t.Helper()
	res := b.run(context.Background(), tool, a)
	if res.IsError {
		b.t.Fatalf("%s %v: %s", tool, a, res.ForLLM)
	}
	if res.Output != nil {
		b.t.Fatalf("%s %v: the output is not inline", tool, a)
	}
	return res.ForLLM
}

// fails runs a call that must fail and whose text must contain all of want.
func (b *fixture) fails(tool string, a args, want ...string) *tools.Result {
	b.t.Helper()
	res := b.run(context.Background(), tool, a)
	if !res.IsError {
		b.t.Fatalf("%s %v: got %q, want an error", tool, a, res.ForLLM)
	}
	if res.Err == nil {
		b.t.Errorf("%s %v: the error result has no cause", tool, a)
	}
	for _, w := range want {
		if !strings.Contains(res.ForLLM, w) {
			b.t.Errorf("%s %v: got %q, want %q in it", tool, a, res.ForLLM, w)
		}
	}
	return res
}

// TestDefinitions checks each tool that Tools returns.
func TestDefinitions(t *testing.T) {
	all, closeAll, err := builtin.Tools(builtin.Config{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeAll() })
	effects := make(map[string]tools.Effect)
	for _, tool := range all {
		toolstest.Check(t, tool)
		def := tool.Definition()
		if effects[def.Name] = def.Effect; def.Effect == "" || len(def.Parameters.Properties) == 0 {
			t.Errorf("%s has no effect or no arguments", def.Name)
		}
	}
	if effects["shell"] != tools.Once || effects["edit_file"] != tools.Once || effects["read_file"] != tools.Idempotent {
		t.Errorf("effects: %v", effects)
	}
}

func TestToolsNeedAWorkspace(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "absent")} {
		if _, _, err := builtin.Tools(builtin.Config{Workspace: dir}); err == nil {
			t.Errorf("Tools with workspace %q: no error", dir)
		}
	}
}
