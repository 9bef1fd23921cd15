package hosts

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A file that is not understood stays as it is, and the error says why without secrets.
func TestFilesThatAreNotUnderstood(t *testing.T) {
	for name, c := range map[string]struct{ host, data, want string }{
		"broken JSON":          {"cursor", `{"mcpServers": {"a": {"command": "x", "env": {"K": "secret"}}`, "unexpected EOF"},
		"broken string":        {"cursor", "{\"mcpServers\": {\"a\": {\"command\": \"secret\\q\"}}}", "invalid"},
		"broken TOML":          {"codex", "[mcp_servers.a]\ncommand = \"x\"\ntoken = secret\n", "line 3, column"},
		"broken YAML":          {"goose", "extensions:\n  a: [secret\n", "did not find"},
		"a list":               {"cursor", `[{"command": "x"}]`, "not an object with names"},
		"empty":                {"cursor", ``, "unexpected EOF"},
		"empty YAML":           {"goose", "# nothing\n", "one document"},
		"two documents":        {"goose", "extensions: {}\n---\nextensions: {}\n", "one document"},
		"servers are a list":   {"cursor", `{"mcpServers": [{"command": "secret"}]}`, `"mcpServers" is not an object`},
		"servers twice":        {"cursor", `{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {}}`, `"mcpServers" is there twice`},
		"a server twice":       {"cursor", `{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}`, `"a" is there twice`},
		"twice by escape":      {"cursor", `{"mcpServers": {"a": {"command": "x"}, "\u0061": {"command": "y"}}}`, `"a" is there twice`},
		"TOML twice":           {"codex", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a]\ncommand = \"y\"\n", "not valid TOML"},
		"YAML twice":           {"goose", "extensions:\n  a: {cmd: x}\n  a: {cmd: y}\n", "already defined"},
		"UTF-16":               {"cursor", "\xff\xfe{\x00}\x00", "not UTF-8"},
		"NUL":                  {"cursor", "{\"mcpServers\": {}}\x00", "not UTF-8"},
		"deep JSON":            {"cursor", strings.Repeat("[", 1<<20), "levels"},
		"deep TOML":            {"codex", "a = " + strings.Repeat("[", 1<<20), "levels"},
		"deep YAML":            {"goose", strings.Repeat("{a: ", 1<<18), "levels"},
		"YAML of 2 MB":         {"goose", "a: 1\n" + strings.Repeat("# x\n", 1<<19), "more than"},
		"JSON instead of TOML": {"codex", `{"mcp_servers": {"a": {"command": "x"}}}`, "not valid TOML"},
	} {
		t.Run(name, func(t *testing.T) {
			l := at(t, c.host, "config", []byte(c.data))
			_, err := l.Apply(t.Context(), Change{Prefix: prefix, Backups: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := read(t, l.Path); string(got) != c.data {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
}

// A server that cannot be wrapped is left alone, and the others are wrapped.
func TestServersThatAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct{ host, entry, why string }{
		"URL":             {"cursor", `{"url": "https://example.com/mcp"}`, "is at a URL"},
		"URL of Windsurf": {"windsurf", `{"serverUrl": "https://example.com/mcp"}`, "is at a URL"},
		"no object":       {"cursor", `"npx"`, "is not an object"},
		"nothing":         {"cursor", `{}`, "has no command"},
		"number":          {"cursor", `{"command": 5}`, "not a plain string"},
		"empty":           {"cursor", `{"command": ""}`, "empty command"},
		"args no list":    {"cursor", `{"command": "x", "args": "-y"}`, "not a list of plain strings"},
		"args null":       {"cursor", `{"command": "x", "args": null}`, "not a list of plain strings"},
		"arg number":      {"cursor", `{"command": "x", "args": ["-p", 80]}`, "not a list of plain strings"},
		"command twice":   {"cursor", `{"command": "x", "command": "y"}`, `has the key "command" twice`},
		"shell":           {"cursor", `{"command": "npx -y server"}`, "with spaces"},
		"other type":      {"vscode", `{"type": "sse", "command": "x"}`, `has the type "sse"`},
		"needs NATS":      {"cursor", `{"command": "x", "env": {"A": "1", "NATS_URL": "nats://x"}}`, "needs the variable NATS_URL"},
		"Stevedore":       {"cursor", `{"command": "/usr/bin/stevedore", "args": ["mcp", "--workspace", "."]}`, "is Stevedore itself"},
		"wrapped by hand": {"cursor", `{"command": "stevedore", "args": ["mcp", "wrap", "--session", "s", "--", "npx"]}`, "is wrapped already"},
		"wrapped by npx":  {"cursor", `{"command": "npx", "args": ["-y", "@x/stevedore", "mcp", "wrap", "--", "npx"]}`, "is wrapped already"},
		"extension":       {"zed", `{"source": "extension", "settings": {}}`, "has no command"},
		"opencode string": {"opencode", `{"type": "local", "command": []}`, "not a list of strings"},
		"opencode toggle": {"opencode", `{"enabled": false}`, "has no command"},
	} {
		t.Run(name, func(t *testing.T) {
			list, good := Find(c.host).keys[0], `{"command": "npx", "args": ["x"]}`
			if c.host == "opencode" {
				good = `{"command": ["npx", "x"]}`
			}
			l := at(t, c.host, "config.json", []byte(`{"`+list+`": {"odd": `+c.entry+`, "good": `+good+`}}`))
			outcomes := apply(t, l, Change{Prefix: prefix})
			if o := outcomes[0]; o.Name != "odd" || o.Changed || !strings.Contains(o.Why, c.why) {
				t.Errorf("got %+v, want %q", o, c.why)
			}
			if o := outcomes[1]; !o.Changed {
				t.Errorf("the other server: %+v", o)
			}
			if got := read(t, l.Path); !bytes.Contains(got, []byte(`"odd": `+c.entry+`,`)) {
				t.Errorf("it was changed: %s", got)
			}
		})
	}
}

func TestYAMLAndTOMLServersThatAreLeftAlone(t *testing.T) {
	l := at(t, "goose", "config.yaml", []byte(`extensions:
  alias:
    cmd: &c npx
    args: *c
  folded:
    cmd: >-
      npx
    args: [x]
  lines:
    cmd: npx
      -y
  number: {cmd: npx, args: [1]}
  merged:
    <<: *c
  builtin: {type: builtin, name: x}
  keyring: {type: stdio, cmd: x, env_keys: [NATS_CREDS]}
  tagged: {cmd: !!str x}
  good: {cmd: x}
`))
	for _, o := range apply(t, l, Change{Prefix: prefix}) {
		if o.Changed != (o.Name == "good") {
			t.Errorf("%s: changed %v %s", o.Name, o.Changed, o.Why)
		}
	}
	l = at(t, "codex", "config.toml", []byte("[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"NATS_URL\"]\n[mcp_servers.b]\ncommand = 5\n[mcp_servers.c]\nargs = [\"x\"]\n"))
	for _, o := range apply(t, l, Change{Prefix: prefix}) {
		if o.Changed || o.Why == "" {
			t.Errorf("%s: %+v", o.Name, o)
		}
	}
}

func TestSymbolicLinksAndModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes, and links need a right")
	}
	l := at(t, "cursor", "real.json", read(t, "testdata/windsurf.json"))
	backups := filepath.Join(t.TempDir(), "backups")
	target := l.Path
	l.Path += ".link"
	if err := os.Symlink(filepath.Base(target), l.Path); err != nil {
		t.Fatal(err)
	}
	apply(t, l, Change{Prefix: prefix, Backups: backups})
	if info, err := os.Lstat(l.Path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got mode %v, %v; want 0640", info.Mode(), err)
	}
	if !bytes.Contains(read(t, target), []byte("stevedore")) {
		t.Error("the target was not changed")
	}
	files, err := filepath.Glob(filepath.Join(backups, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d backups, %v", len(files), err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := os.Chmod(target, 0o400); err != nil {
		t.Fatal(err)
	}
	apply(t, l, Change{Backups: backups})
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o400 || !bytes.Equal(read(t, target), read(t, "testdata/windsurf.json")) {
		t.Errorf("a file for reading only: %v, %v", info.Mode(), err)
	}
	if files, _ := filepath.Glob(filepath.Join(backups, "*.json")); len(files) != 0 {
		t.Errorf("the backup, which may contain secrets, stays: %v", files)
	}

	l.Path = t.TempDir() // a directory
	if _, err := l.Apply(t.Context(), Change{Prefix: prefix, Backups: backups}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}

func TestFileOfAnotherUser(t *testing.T) {
	l := at(t, "cursor", "mcp.json", read(t, "testdata/cursor.json"))
	if err := os.Chown(l.Path, 12345, 12345); err != nil {
		t.Skip("only root can give files away: ", err)
	}
	_, err := l.Apply(t.Context(), Change{Prefix: prefix, Backups: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
}

func TestAnotherProgramWritesAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	for _, other := range []string{"theirs", ""} {
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := write(path, []byte("before"), []byte("ours")); !errors.Is(err, errMoved) {
			t.Errorf("got %v", err)
		}
		if got := read(t, path); string(got) != other {
			t.Errorf("their change is lost: %q", got)
		}
	}
}

func TestDamagedBackup(t *testing.T) {
	l := at(t, "cursor", "mcp.json", read(t, "testdata/cursor.json"))
	backups := records(filepath.Join(t.TempDir(), "backups"))
	apply(t, l, Change{Prefix: prefix, Backups: string(backups)})
	installed := read(t, l.Path)
	path, _, err := l.load()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{`{"version":1`: "is damaged", `{"version":2}`: "version 2"} {
		if err := os.WriteFile(backups.path(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := l.Apply(t.Context(), Change{Backups: string(backups)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if got := read(t, l.Path); !bytes.Equal(got, installed) {
			t.Errorf("the file was changed to %s", got)
		}
	}
}

func FuzzEdit(f *testing.F) {
	for name, host := range samples {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(slices.Index(All, Find(host))), string(data))
	}
	f.Fuzz(func(t *testing.T, host uint8, data string) {
		h := All[int(host)%len(All)]
		all := h.Locations(Machine{Getenv: os.Getenv}, User)
		if all == nil { // a host without servers
			return
		}
		l := all[0]
		p, err := l.plan([]byte(data), nil, Change{Prefix: prefix})
		if err != nil || len(p.add) == 0 {
			return
		}
		rec := &record{}
		for key, prefix := range p.add {
			rec.Servers = append(rec.Servers, recordServer{key, prefix})
		}
		back, err := l.plan(p.data, rec, Change{})
		if err != nil {
			t.Fatalf("%q became %q: %v", data, p.data, err)
		}
		want, _ := l.servers(bytes.TrimPrefix([]byte(data), mark))
		got, err := l.servers(bytes.TrimPrefix(back.data, mark))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q became %q: %v", data, back.data, err)
		}
	})
}
