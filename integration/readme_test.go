package integration

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The agents of the README compile, and work with the helpers.
func TestReadmeAgents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	up := startUp(t, "--console", "off")
	for _, tt := range []struct {
		name, file string
		language   func(*testing.T) language
		block      string
		url        string
	}{
		{"typescript", "agent.mts", nodeJS, "ts", "ANTHROPIC_BASE_URL="},
		{"python", "agent.py", python, "python", "OPENAI_BASE_URL="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.language(t)
			code := regexp.MustCompile("(?s)```" + tt.block + "\n(.*?)```").FindSubmatch(text)
			if code == nil {
				t.Fatalf("README.md has no example in %s", tt.block)
			}
			dir := t.TempDir()
			helpers, err := filepath.Glob(filepath.Join(l.dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range helpers { // what a user copies or installs
				absolute, err := filepath.Abs(file)
				if err != nil {
					t.Fatal(err)
				}
				switch name := filepath.Base(file); name {
				case "node_modules":
					installClient(t, absolute, filepath.Join(dir, name))
				case "tsconfig.json", "stevedore_bus.py", "tinynats.py":
					data, err := os.ReadFile(absolute)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := os.WriteFile(filepath.Join(dir, tt.file), code[1], 0o600); err != nil {
				t.Fatal(err)
			}
			l.dir = dir
			run := tt.file
			if tt.block == "ts" {
				tsc := exec.CommandContext(t.Context(), l.command[0], filepath.Join("node_modules", "typescript", "bin", "tsc"), "-p", ".", "--noEmit", "false")
				tsc.Dir = dir
				if out, err := tsc.CombinedOutput(); err != nil {
					t.Fatalf("the example does not compile: %v\n%s", err, out)
				}
				run = "agent.mjs"
			}
			model := &fakeModel{t: t, anthropic: tt.block == "ts"}
			server := httptest.NewServer(model)
			t.Cleanup(server.Close)
			out := l.program(t, []string{run}, parseURL(t, up.url), nil, tt.url+server.URL, "ANTHROPIC_API_KEY=x", "OPENAI_API_KEY=x")
			if !strings.Contains(out, "Found it.") || model.turns != 4 {
				t.Errorf("%d turns, output %q", model.turns, out)
			}
		})
	}
}

// installClient lays out node_modules as npm does: with the packages of another one, and the
// packed helper.
func installClient(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(to, "@stevedore-bus", "client")
	if err := os.MkdirAll(client, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range npmFiles(t, onlyFile(t, builtPackages(t), "npm", "stevedore-bus-client-*.tgz")) {
		if err := os.WriteFile(filepath.Join(client, filepath.Base(name)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
