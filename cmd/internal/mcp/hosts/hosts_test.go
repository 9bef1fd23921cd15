package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the golden files")

var prefix = []string{"stevedore", "mcp", "wrap", "--"}

// samples are real forms of configuration files. The scope of each is that of the user,
// which knows all keys.
var samples = map[string]string{
	"claude-code.json": "claude-code", "claude-code-project.json": "claude-code", "claude-desktop.json": "claude-desktop",
	"codex.toml": "codex", "codex-dotted.toml": "codex", "codex-inline.toml": "codex", "cursor.json": "cursor", "vscode.json": "vscode", "windsurf.json": "windsurf",
	"gemini-cli.json": "gemini-cli", "copilot-cli.json": "copilot-cli", "qwen-code.json": "qwen-code", "opencode.jsonc": "opencode", "opencode2.json": "opencode", "zed.json": "zed",
	"goose.yaml": "goose", "goose-tail.yaml": "goose",
}

// variants are forms in which editors and version control store the same text.
var variants = map[string]func(string) string{
	"as it is":         func(s string) string { return s },
	"CRLF":             func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"byte order mark":  func(s string) string { return "\ufeff" + s },
	"no final newline": func(s string) string { return strings.TrimRight(s, "\n") },
	"tabs": func(s string) string {
		if strings.Contains(s, "GOOSE") || strings.Contains(s, "extensions:") {
			return s // YAML has no tabs
		}
		return strings.ReplaceAll(s, "  ", "\t")
	},
}

// at returns the location of a file of the host in a directory of the test.
func at(t *testing.T, host, name string, data []byte) Location {
	t.Helper()
	home := t.TempDir()
	l := Find(host).Locations(Machine{OS: "linux", Home: home, Getenv: func(string) string { return "" }}, User)[0]
	l.Path = filepath.Join(home, name)
	if err := os.WriteFile(l.Path, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return l
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func apply(t *testing.T, l Location, c Change) []Outcome {
	t.Helper()
	if c.Backups == "" {
		c.Backups = filepath.Join(filepath.Dir(l.Path), "backups")
	}
	outcomes, err := l.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes
}

// decode reads a file as its host does.
func decode(t *testing.T, name string, data []byte) (v map[string]any) {
	t.Helper()
	data = bytes.Clone(bytes.TrimPrefix(data, mark)) // hujson changes it
	var err error
	switch filepath.Ext(name) {
	case ".toml":
		err = toml.Unmarshal(data, &v)
	case ".yaml":
		err = yaml.Unmarshal(data, &v)
	default:
		if data, err = hujson.Standardize(data); err == nil {
			err = json.Unmarshal(data, &v)
		}
	}
	if err != nil {
		t.Fatalf("%s is broken: %v\n%s", name, err, data)
	}
	return v
}

// wrapped changes a decoded document as install should: all entries with a command get
// the prefix, and nothing else.
func wrapped(v any, inside bool) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for key, value := range m {
		list := key == "mcpServers" || key == "mcp_servers" || key == "servers" || key == "context_servers" || key == "extensions" || key == "mcp"
		if key == "env" || key == "environment" || key == "lsp" {
			out[key] = value
			continue
		}
		out[key] = wrapped(value, inside || list)
	}
	if m["command"] == "stevedore" {
		return m // it is wrapped by hand
	}
	for _, key := range []string{"command", "cmd", "path"} {
		switch command := m[key].(type) {
		case string:
			if !inside {
				continue
			}
			args := []any{"mcp", "wrap", "--", command}
			old, _ := m["args"].([]any)
			out[key], out["args"] = "stevedore", append(args, old...)
		case []any:
			out[key] = append([]any{"stevedore", "mcp", "wrap", "--"}, command...)
		}
	}
	return out
}

func TestInstallAndUninstallOfRealFiles(t *testing.T) {
	for name, host := range samples {
		text := string(read(t, filepath.Join("testdata", name)))
		for variant, change := range variants {
			t.Run(name+"/"+variant, func(t *testing.T) {
				original := []byte(change(text))
				l := at(t, host, name, original)
				before := decode(t, name, original)

				apply(t, l, Change{Prefix: prefix})
				once := read(t, l.Path)
				if got, want := decode(t, name, once), wrapped(before, false); !reflect.DeepEqual(got, want) {
					t.Fatalf("installed:\n%s\ngot  %v\nwant %v", once, got, want)
				}
				if variant == "as it is" {
					compareGolden(t, name, once)
				}
				if lines, crlf := bytes.Count(once, []byte("\n")), bytes.Count(once, []byte("\r\n")); crlf > 0 && crlf < lines || lines > 0 && variant == "CRLF" && crlf == 0 {
					t.Errorf("the line ends are mixed:\n%q", once)
				}

				for _, o := range apply(t, l, Change{Prefix: prefix}) {
					if o.Changed {
						t.Errorf("%s is wrapped again", o.Name)
					}
				}
				if twice := read(t, l.Path); !bytes.Equal(twice, once) {
					t.Errorf("installed twice:\n%s", twice)
				}

				apply(t, l, Change{})
				if got := read(t, l.Path); !bytes.Equal(got, original) {
					t.Errorf("uninstalled:\n%s", got)
				}
			})
		}
	}
}

func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	golden := filepath.Join("testdata", "wrapped", name)
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, golden); !bytes.Equal(got, want) {
		t.Errorf("got:\n%s", got)
	}
}

// If somebody changed the file since, only the commands are taken back.
func TestUninstallKeepsLaterChanges(t *testing.T) {
	for name, host := range samples {
		t.Run(name, func(t *testing.T) {
			original := read(t, filepath.Join("testdata", name))
			l := at(t, host, name, original)
			apply(t, l, Change{Prefix: prefix})
			comment := map[string]string{".toml": "\n# later\n", ".yaml": "\n# later\n"}[filepath.Ext(name)]
			if comment == "" {
				comment = "\n// later\n"
			}
			changed := append(read(t, l.Path), comment...)
			if err := os.WriteFile(l.Path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, o := range apply(t, l, Change{}) {
				if o.Restored {
					t.Errorf("%s: a changed file counts as restored", o.Name)
				}
			}
			got := read(t, l.Path)
			if !bytes.HasSuffix(got, []byte(comment)) {
				t.Fatalf("the change is lost:\n%s", got)
			}
			if got, want := decode(t, name, got), decode(t, name, original); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestNoFile(t *testing.T) {
	l := at(t, "cursor", "mcp.json", nil)
	l.Path += ".gone"
	if _, err := l.Apply(t.Context(), Change{Prefix: prefix, Backups: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}
