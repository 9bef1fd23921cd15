//go:build unix

package builtin_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// artifactsOf returns a function that opens artifacts of the default session.
func artifactsOf(texts map[string]string) builtin.OpenArtifact {
	return func(_ context.Context, session, id string) (content io.ReadCloser, lost []string, err error) {
		text, ok := texts[id]
		if !ok || session != tools.DefaultSession {
			return nil, nil, tools.Errorf(tools.CodeNotFound, "there is no artifact %q", id)
		}
		if id == "cut" {
			lost = []string{"the rest is lost"}
		}
		return io.NopCloser(strings.NewReader(text)), lost, nil
	}
}

// TestShellArtifacts: a command reads artifacts as files and as its standard input, whatever an
// earlier command left in the temporary directory, and they are gone afterwards.
func TestShellArtifacts(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789\n", 600_000)
	state, outside := t.TempDir(), t.TempDir()
	b := &fixture{}
	cfg := builtin.Config{Workspace: t.TempDir()}
	sb, err := sandbox.New(sandbox.Config{Mode: sandbox.BestEffort, Workspace: cfg.Workspace, State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Close() })
	cfg.Shell = builtin.ShellConfig{Sandbox: sb, Artifacts: artifactsOf(map[string]string{"a": "b\na\n", "large": large, "../x": "odd\n", tools.Token("../x"): "odd\n", "cut": "c\n"})}
	b = newFixture(t, cfg)
	for _, row := range []struct {
		args args
		want string
	}{
		{args{"command": "sort $ARTIFACTS/a", "artifacts": []string{"a"}}, "a\nb\n[Exit code: 0]"},
		{args{"command": "wc -l; ls -A $ARTIFACTS | wc -l", "stdin": args{"$artifact": "large"}, "artifacts": []string{"a", "a"}}, "600000\n2\n[Exit code: 0]"},
		{args{"command": "true", "stdin": args{"$artifact": "large"}}, "(no output)\n[Exit code: 0]"},
		{args{"command": "cat $ARTIFACTS/" + tools.Token("../x"), "artifacts": []string{"../x"}}, "odd\n[Exit code: 0]"},
		{args{"command": "cat $ARTIFACTS/" + tools.Token("../x"), "artifacts": []string{tools.Token("../x")}}, "odd\n[Exit code: 0]"},
		{args{"command": "cat $ARTIFACTS/cut", "artifacts": []string{"cut"}}, "c\n[cut: the rest is lost]\n[Exit code: 0]"},
		{args{"command": "cat", "stdin": args{"$artifact": "cut"}}, "c\n[cut: the rest is lost]\n[Exit code: 0]"},
		{args{"command": "echo ${ARTIFACTS-none}"}, "none\n[Exit code: 0]"},
		{args{"command": "ln -s " + outside + " $TMPDIR/artifacts; ln -s " + outside + " $TMPDIR/artifacts-x; echo ok"}, "ok\n[Exit code: 0]"},
		{args{"command": "cat $ARTIFACTS/a", "artifacts": []string{"a"}}, "b\na\n[Exit code: 0]"},
	} {
		if res := b.run(t.Context(), "shell", row.args); strings.ReplaceAll(res.ForLLM, " ", "") != strings.ReplaceAll(row.want, " ", "") {
			t.Errorf("shell %v: %q; want %q", row.args, res.ForLLM, row.want)
		}
	}
	for _, row := range []struct {
		args args
		code string
	}{
		{args{"command": "true", "artifacts": []string{"a", "none"}}, tools.CodeNotFound},
		{args{"command": "true", "stdin": args{"$artifact": "none"}}, tools.CodeNotFound},
		{args{"command": "true", "stdin": args{"$artifact": "a", "lines": "1-2"}}, tools.CodeInvalidArguments},
		{args{"command": "true", "stdin": 5}, tools.CodeInvalidArguments},
		{args{"command": args{"$artifact": "a"}}, tools.CodeInvalidArguments},
		{args{"command": "true", "artifacts": make([]string, 17)}, tools.CodeInvalidArguments},
	} {
		if res := b.fails("shell", row.args); tools.CodeOf(res.Err) != row.code {
			t.Errorf("shell %v: %v; want %s", row.args, res.Err, row.code)
		}
	}
	_ = filepath.WalkDir(state, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "artifacts-") {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
	b.ok("shell", args{"command": "echo kept > $TMPDIR/file"})
	b.session = tools.DefaultSession // as without a session
	if got := b.ok("shell", args{"command": "cat $TMPDIR/file"}); !strings.HasPrefix(got, "kept") {
		t.Errorf("the file of the default session: %q", got)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
	b = newFixture(t, builtin.Config{})
	if res := b.fails("shell", args{"command": "true", "artifacts": []string{"a"}}); !strings.Contains(res.ForLLM, "passes no artifacts") {
		t.Errorf("without artifacts: %s", res.ForLLM)
	}
}
