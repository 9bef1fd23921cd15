//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// developerCommands are ordinary work, in order. Each must work in the sandbox, if its
// program is in a system directory.
var developerCommands = []struct{ program, command string }{
	{"git", "git init -q . && git add -A && git commit -qm first && git log --oneline"},
	{"git", "git checkout -qb topic && echo more >> README && git commit -qam second && git checkout -q master && git merge -q topic"},
	{"git", "git worktree add -q tree topic && git -C tree status --short && git worktree remove tree"},
	{"git", "git clone -q . copy && cd copy && git config user.name x && git stash list && git diff HEAD~1 --stat"},
	{"git", "git gc -q && git fsck && git tag v1 && git rebase -q topic"},
	{"go", "cd go && go build -o hello . && ./hello"},
	{"go", "cd go && go vet ./... && go test ./..."},
	{"gcc", "gcc -O1 -o hello hello.c && ./hello"},
	{"make", "make -s -j4 all && ./hello"},
	{"python3", "python3 -c 'import json, ssl, sqlite3, subprocess, tempfile; print(tempfile.mkdtemp())'"},
	{"python3", "python3 -m py_compile x.py && python3 -m unittest -q x"},
	{"python3", "python3 -c 'from multiprocessing import Pool; print(Pool(2).map(abs, [-1, -2]))'"},
	{"python3", "python3 -m http.server -b 127.0.0.1 8765 >/dev/null 2>&1 & for i in 1 2 3 4 5 6 7 8 9; do curl -sf http://127.0.0.1:8765/README >/dev/null && exit 0; sleep 0.5; done; exit 1"},
	{"node", "node -e 'console.log(require(\"os\").cpus().length, require(\"fs\").readdirSync(\".\").length)'"},
	{"npm", "cd js && npm install --offline --no-audit --no-fund && npm test"},
	{"npm", "cd js && npm ci --offline --no-audit --no-fund"},
	{"python3", "python3 -m venv --without-pip venv && venv/bin/python -c 'print(1)'"},
	{"rg", "rg -n main hello.c"},
	{"ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f key && test -s key.pub"},
	{"sqlite3", "sqlite3 x.db 'create table a(b); insert into a values(1); select * from a'"},
	{"mvn", "mvn -v"},
	{"tar", "tar czf a.tgz README go && mkdir -p un && tar xzf a.tgz -C un && rm -rf un"},
	{"find", "find . -name '*.c' | xargs grep -n main && sed -i s/hello/hallo/ hello.c && sort -u README | wc -l"},
	{"diff", "cp README r2 && echo x >> r2 && ! diff -u README r2 && diff -u README r2 > p; patch -s README < p"},
	{"perl", "perl -ne 'print if /main/' hello.c"},
	{"bash", "bash -c 'cat <(echo a) <(echo b); read -r x <<< word; echo $x; mktemp; ls /tmp; (sleep 0.01 & wait); echo done > /dev/stderr'"},
	{"awk", "ps aux | awk 'NR > 1 {print $11}' && df . && du -sh . && date && nproc && id && whoami && hostname"},
	{"openssl", "openssl rand -hex 8 && openssl version -d && test -r /etc/ssl/openssl.cnf"},
	{"timeout", "timeout 5 sh -c 'kill -TERM $$' ; test $? -ne 0 && nice true && nohup true && env -i /bin/true"},
	{"xz", "xz -k README && unxz -c README.xz | cmp - README && gzip -k README && zcat README.gz | wc -l"},
}

func TestDeveloperCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Go programs")
	}
	var cfg sandbox.Config
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil { // saves building the standard library
		cache := strings.TrimSpace(string(out))
		cfg.Write, cfg.Env = []string{cache}, []string{"GOCACHE=" + cache, "GOFLAGS=-trimpath"}
	}
	variantsOf(t, cfg, func(t *testing.T, f *fixture) {
		for name, text := range map[string]string{
			"README": "one\ntwo\n", "x.py": "import unittest\nclass T(unittest.TestCase):\n  def test(self): pass\n",
			"hello.c": "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n", "Makefile": "all: hello\nhello: hello.c\n\t$(CC) -o $@ hello.c\n",
			"go/go.mod": "module hello\n\ngo 1.21\n", "go/main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n",
			"go/main_test.go":      "package main\n\nimport (\n\t\"net/http/httptest\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) { httptest.NewServer(nil).Close(); t.TempDir() }\n",
			"js/package-lock.json": `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"x","version":"1.0.0"}}}`,
			"js/package.json":      `{"name":"x","version":"1.0.0","scripts":{"test":"node -e 'process.exit(0)'"}}`,
		} {
			f.write(filepath.Join(f.workspace, name), text)
		}
		t.Setenv("PATH", systemPath())
		mounts := f.Protection().Protected
		ran := 0
		for _, c := range developerCommands {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Logf("no %s here", c.program)
				continue
			}
			if !mounts && (strings.Contains(c.command, "127.0.0.1") || strings.Contains(c.command, "Pool") || c.command[:5] == "cd go" && strings.Contains(c.command, "test")) {
				continue // no sockets and no /dev/shm without namespaces
			}
			if out, code := f.sh(c.command); code != 0 {
				t.Errorf("%s: exit code %d: %s", c.command, code, out)
			}
			ran++
		}
		t.Logf("%d commands ran", ran)
	})
}

// systemPath returns the directories of PATH that commands can see.
func systemPath() string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if strings.HasPrefix(dir, "/usr/") || strings.HasPrefix(dir, "/bin") {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// The hooks and the configuration of a repository cannot be changed by writing, renaming,
// linking or replacing, and the work with the repository goes on.
func TestProtectsRepositories(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	f := open(t, sandbox.Config{})
	f.needMounts()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	nested := filepath.Join(f.workspace, "a", "b")
	if err := os.MkdirAll(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	git(f.workspace, "init", "-q")
	git(nested, "init", "-q")
	if err := os.RemoveAll(filepath.Join(nested, ".git", "hooks")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".git", "a/b/.git"} {
		for _, command := range []string{
			"echo evil > G/hooks/pre-commit", "echo evil >> G/config", "rm -rf G/hooks", "mv G/hooks G/h2 && mkdir G/hooks",
			"rm -f G/config && echo evil > G/config", "mv G G2 && mkdir -p G/hooks", "ln G/config c && echo evil > c",
			"ln -sf /tmp/x G/config", "git -C G/.. config core.fsmonitor evil", "chmod 777 G/config", "touch x && mv x G/config",
			"mkdir t && mv G/hooks t/",
		} {
			if out, code := f.sh(strings.ReplaceAll(command, "G", dir)); code == 0 {
				t.Errorf("%s in %s: %s", command, dir, out)
			}
		}
		config, err := os.ReadFile(filepath.Join(f.workspace, dir, "config"))
		if err != nil || strings.Contains(string(config), "evil") {
			t.Errorf("%s/config: %s, %v", dir, config, err)
		}
		hooks, err := os.ReadDir(filepath.Join(f.workspace, dir, "hooks"))
		for _, hook := range hooks {
			if !strings.HasSuffix(hook.Name(), ".sample") {
				t.Errorf("%s has the hook %s", dir, hook.Name())
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	if out, code := f.sh("echo x > f && git add f && git commit -qm x && cd a/b && echo y > g && git add g && git commit -qm y"); code != 0 {
		t.Errorf("git commit: %s", out)
	}
	empty := open(t, sandbox.Config{})
	if out, code := empty.sh("git init -q"); code != 0 {
		t.Fatal(out)
	}
	if out, code := empty.sh("echo evil > .git/hooks/pre-commit"); code == 0 {
		t.Errorf("a hook of a new repository: %s", out)
	}
	if out, code := empty.sh("git config user.name me && echo x > f && git add f && git commit -qm x"); code != 0 {
		t.Errorf("work in a new repository: %s", out)
	}
	if out, code := f.sh("git init -q own && cd own && git config user.name me && git remote add o x"); code != 0 {
		t.Errorf("a repository of its own: %s", out)
	}
}
