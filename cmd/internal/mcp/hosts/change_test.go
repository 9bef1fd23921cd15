package hosts

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

func names(outcomes []Outcome) (changed []string) {
	for _, o := range outcomes {
		if o.Changed {
			changed = append(changed, o.Project+"/"+o.Name)
		}
	}
	return changed
}

func TestServersByName(t *testing.T) {
	original := read(t, "testdata/claude-code.json")
	l := at(t, "claude-code", ".claude.json", original)
	if got, want := names(apply(t, l, Change{Prefix: prefix, Names: []string{"files"}})), []string{"/files", "/home/ada/src/shop/files"}; !slices.Equal(got, want) {
		t.Errorf("wrapped %v, want %v", got, want)
	}
	one := read(t, l.Path)
	if got, want := names(apply(t, l, Change{Prefix: prefix, Names: []string{"bare", "nobody"}})), []string{"/bare"}; !slices.Equal(got, want) {
		t.Errorf("wrapped %v, want %v", got, want)
	}
	if got, want := names(apply(t, l, Change{Names: []string{"bare"}})), []string{"/bare"}; !slices.Equal(got, want) {
		t.Errorf("unwrapped %v, want %v", got, want)
	}
	if got := read(t, l.Path); !bytes.Equal(got, one) {
		t.Errorf("after one was unwrapped:\n%s", got)
	}
	apply(t, l, Change{})
	if got := read(t, l.Path); !bytes.Equal(got, original) {
		t.Errorf("after all were unwrapped:\n%s", got)
	}
}

func TestDryRun(t *testing.T) {
	original := read(t, "testdata/codex.toml")
	l := at(t, "codex", "config.toml", original)
	backups := filepath.Join(t.TempDir(), "backups")
	if got := names(apply(t, l, Change{Prefix: prefix, DryRun: true, Backups: backups})); len(got) != 4 {
		t.Errorf("would wrap %v, want 4 servers", got)
	}
	if got := read(t, l.Path); !bytes.Equal(got, original) {
		t.Errorf("a dry run wrote:\n%s", got)
	}
	if _, err := os.Stat(backups); !os.IsNotExist(err) {
		t.Errorf("a dry run made the directory for backups: %v", err)
	}
}

// A program that was moved is replaced in what install wrote, and uninstall still restores
// the file.
func TestMovedProgram(t *testing.T) {
	original := read(t, "testdata/goose.yaml")
	l := at(t, "goose", "config.yaml", original)
	apply(t, l, Change{Prefix: prefix})
	apply(t, l, Change{Prefix: []string{"/new/stevedore", "mcp", "wrap", "--data", "/d", "--"}})
	if got := read(t, l.Path); bytes.Contains(got, []byte(`"stevedore"`)) || !bytes.Contains(got, []byte(`"/new/stevedore"`)) {
		t.Errorf("got:\n%s", got)
	}
	apply(t, l, Change{})
	if got := read(t, l.Path); !bytes.Equal(got, original) {
		t.Errorf("got:\n%s", got)
	}
}

// What others add between two installs stays, and is not part of the original.
func TestInstallAfterALaterChange(t *testing.T) {
	l := at(t, "cursor", "mcp.json", []byte(`{"mcpServers": {"a": {"command": "x"}}}`))
	apply(t, l, Change{Prefix: prefix})
	changed := bytes.Replace(read(t, l.Path), []byte(`{"mcpServers": {`), []byte(`{"mcpServers": {"b": {"command": "y"}, `), 1)
	if err := os.WriteFile(l.Path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := names(apply(t, l, Change{Prefix: prefix})), []string{"/b"}; !slices.Equal(got, want) {
		t.Errorf("wrapped %v, want %v", got, want)
	}
	apply(t, l, Change{})
	if got, want := string(read(t, l.Path)), `{"mcpServers": {"b": {"command": "y"}, "a": {"command": "x"}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// If the process dies after it stored the record, and before it wrote the file, the next
// command works, whatever it is.
func TestCrashBeforeTheFileIsWritten(t *testing.T) {
	original := read(t, "testdata/vscode.json")
	moved := []string{"/new/stevedore", "mcp", "wrap", "--"}
	for name, c := range map[string]struct {
		before *Change
		dies   Change
	}{
		"first install": {nil, Change{Prefix: prefix}},
		"moved program": {&Change{Prefix: prefix}, Change{Prefix: moved}},
		"one of them":   {&Change{Prefix: prefix}, Change{Names: []string{"memory"}}},
		"uninstall":     {&Change{Prefix: prefix}, Change{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := at(t, "vscode", "mcp.json", original)
			if c.before != nil {
				apply(t, l, *c.before)
			}
			c.dies.Backups = filepath.Join(filepath.Dir(l.Path), "backups")
			if err := os.MkdirAll(c.dies.Backups, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := l.prepare(c.dies); err != nil {
				t.Fatal(err)
			}
			apply(t, l, Change{Prefix: prefix})
			apply(t, l, Change{})
			if got := read(t, l.Path); !bytes.Equal(got, original) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// What a process left behind that died while it wrote may contain secrets.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	l := at(t, "cursor", "mcp.json", read(t, "testdata/cursor.json"))
	backups := records(filepath.Join(filepath.Dir(l.Path), "backups"))
	apply(t, l, Change{Prefix: prefix})
	path, _, err := l.load()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, backups.path(path)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".X.stevedore-tmp")
		if err := os.WriteFile(left, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		apply(t, l, Change{})
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s: %v", left, err)
		}
	}
}

func TestRecordOfAProcessThatDied(t *testing.T) {
	l := at(t, "cursor", "mcp.json", read(t, "testdata/cursor.json"))
	backups := records(filepath.Join(filepath.Dir(l.Path), "backups"))
	apply(t, l, Change{Prefix: prefix})
	path, _, err := l.load()
	if err != nil {
		t.Fatal(err)
	}
	rec := read(t, backups.path(path))
	apply(t, l, Change{})
	if err := os.MkdirAll(string(backups), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backups.path(path), rec, 0o600); err != nil { // as if it had died before the removal
		t.Fatal(err)
	}
	apply(t, l, Change{})
	if _, err := os.Stat(backups.path(path)); !os.IsNotExist(err) {
		t.Errorf("the record, which may contain secrets, stays: %v", err)
	}
}

func TestUnwrapByHand(t *testing.T) {
	l := at(t, "cursor", "mcp.json", []byte(`{"mcpServers": {"a": {"command": "stevedore", "args": ["mcp", "wrap", "--session", "s", "--", "npx", "x"]}}}`))
	if got := apply(t, l, Change{})[0]; got.Changed || got.Why != "was wrapped by hand, or with another --data; give that --data, or name it to unwrap it" {
		t.Errorf("got %+v", got)
	}
	apply(t, l, Change{Names: []string{"a"}})
	if got, want := string(read(t, l.Path)), `{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Processes that change configurations at the same time take turns, although each of them removes
// what only its lock needed.
func TestLockOfRecords(t *testing.T) {
	backups := records(filepath.Join(t.TempDir(), "backups"))
	var holders atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				unlock, err := backups.lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if n := holders.Add(1); n > 1 {
					t.Errorf("%d hold the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				unlock()
			}
		})
	}
	group.Wait()
	if _, err := os.Stat(string(backups)); runtime.GOOS != "windows" && !os.IsNotExist(err) {
		t.Errorf("the directory without a record stays: %v", err)
	}
}
