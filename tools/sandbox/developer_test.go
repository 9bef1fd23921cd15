//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
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
	slow.Test(t)
	if testing.Short() {
		t.Skip("builds Go programs")
	}
	var cfg sandbox.Config
	// With the flags and the cache of this test, the standard library need not be built again.
	if out, err := exec.Command("go", "env", "GOCACHE", "GOFLAGS").Output(); err == nil {
		cache, flags, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		cfg.Write, cfg.Env = []string{cache, ".git", "copy/.git"}, []string{"GOCACHE=" + cache, "GOFLAGS=" + flags}
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

// What programs execute cannot be changed by writing, renaming, linking or replacing, nor the
// directories above it.
func TestProtectsWhatProgramsExecute(t *testing.T) {
	t.Parallel()
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
	for _, dir := range []string{"", "a/b"} {
		path := filepath.Join(f.workspace, dir)
		f.write(filepath.Join(path, "README"), "x\n")
		git(path, "init", "-q")
		git(path, "config", "core.hooksPath", "tools/hooks")
	}
	for _, path := range []string{".vscode/tasks.json", "a/b/.husky/pre-commit", ".mcp.json", "a/.idea/workspace.xml", "opencode.json"} {
		f.write(filepath.Join(f.workspace, path), "fine\n")
	}
	for _, dir := range []string{".git", "a/b/.git"} {
		for _, command := range []string{
			"echo evil > G/hooks/pre-commit", "echo evil >> G/config", "rm -rf G/hooks", "mv G/hooks G/h2 && mkdir G/hooks",
			"rm -f G/config && echo evil > G/config", "mv G G2 && mkdir -p G/hooks", "ln G/config c && echo evil > c",
			"ln -sf /tmp/x G/config", "git -C G/.. config core.fsmonitor evil", "chmod 777 G/config", "touch x && mv x G/config",
			"mkdir t && mv G/hooks t/", "echo /tmp/evil > G/commondir", "git -C G/.. add README", "git -C G/.. commit --allow-empty -m evil",
			"echo evil > G/info/attributes", "echo evil > G/../tools/hooks/pre-commit", "mv G/../tools G/../t2 && mkdir -p G/../tools/hooks",
			"exec 3>G/config; echo evil >&3", "dd if=/dev/zero of=G/HEAD bs=1 count=1 conv=notrunc", "truncate -s0 G/HEAD", "touch G/index.lock", "mkdir G/worktrees", "mkdir -p G/modules/m",
			"chmod u+s G/config", "cp README G/x", "install -m 755 README G/hooks/x", "ln -s G g && echo evil > g/config", "rmdir G/refs", "echo evil | tee G/description",
			"git -C G/.. update-index --add README", "git -C G/.. worktree add -f w", "git --git-dir G gc", "git --git-dir G symbolic-ref HEAD refs/heads/evil",
			"git -C G/.. stash", "git -C G/.. config --worktree core.pager evil", "git -C G/.. remote add evil evil", "git -C G/.. submodule add ./x y", "git -C G/.. checkout -b evil",
			"unshare -Urm sh -c 'umount G && echo evil > G/config'", "unshare -Ur mount -t tmpfs t G", "mount --bind /tmp G", "perl -e 'rename(\"G\", \"G.old\") or exit 1'",
			"tar cf - README | tar xf - -C G", "sed -i s/x/evil/ G/config", "mknod G/p p", "rm -rf G", "find G -name HEAD -exec sh -c 'echo evil > {}' ';' ; grep -q evil G/HEAD",
		} {
			if out, code := f.sh(strings.ReplaceAll(command, "G", dir)); code == 0 {
				t.Errorf("%s in %s: %s", command, dir, out)
			}
		}
	}
	for _, command := range []string{
		"echo evil > .vscode/tasks.json", "echo evil > .vscode/mcp.json", "mv .vscode v && mkdir .vscode", "echo evil > a/b/.husky/pre-commit",
		"rm .mcp.json", "echo evil > .mcp.json", "echo evil > opencode.json", "rm -rf a/.idea && mkdir a/.idea", "mv a a2", "mv a/b a/b2", "mv a/b .",
	} {
		if out, code := f.sh(command); code == 0 {
			t.Errorf("%s: %s", command, out)
		}
	}
	err := filepath.WalkDir(f.workspace, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "evil") {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if out, code := f.sh("git status --short && git log; git -C a/b diff && echo x > a/b/f && mkdir -p a/c && mv a/b/f a/c/ && cat a/c/f"); code != 0 {
		t.Errorf("work beside the repository: %s", out)
	}
}

// A repository that a command made is protected from the next command on, and the operator can
// open one.
func TestNewAndOpenRepositories(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	f := open(t, sandbox.Config{})
	f.needMounts()
	if out, code := f.sh("git init -q && echo x > f && git add f && git commit -qm x"); code != 0 {
		t.Fatal(out)
	}
	if out, code := f.sh("git commit --allow-empty -qm y"); code == 0 || !slices.Contains(f.Explain(out, code), sandbox.Protected) {
		t.Errorf("exit code %d, %v: %s", code, f.Explain(out, code), out)
	}
	for _, allowed := range []string{".git", ".git/config"} {
		f := open(t, sandbox.Config{Write: []string{allowed}})
		if out, code := f.sh("git init -q"); code != 0 {
			t.Fatal(out)
		}
		if out, code := f.sh("printf '[user]\\n\\tname = me\\n' >> .git/config && git config user.name"); out != "me\n" || code != 0 {
			t.Errorf("with %s: exit code %d: %s", allowed, code, out)
		}
		if out, code := f.sh("git commit --allow-empty -qm x"); (code == 0) != (allowed == ".git") {
			t.Errorf("with %s: exit code %d: %s", allowed, code, out)
		}
	}
}

// What a command makes at the top of the workspace, although programs execute it, gets another name.
func TestSetsAside(t *testing.T) {
	variantsOf(t, sandbox.Config{Write: []string{".envrc"}}, func(t *testing.T, f *fixture) {
		run := sandbox.Run{Env: os.Environ(), Contained: true}
		cmd, err := f.Command(t.Context(), run, "sh", "-c", "mkdir .vscode && echo evil > .vscode/mcp.json; ln -s f .mcp.json; echo fine > .envrc; mkdir src .github .qwen; echo obey > CLAUDE.md")
		if err != nil {
			t.Fatal(err)
		}
		end, err := f.Execute(cmd, time.Second, func() {})
		aside := strings.Join(end.SetAside, " ")
		for _, name := range []string{".vscode", ".mcp.json", ".qwen", "CLAUDE.md"} {
			if err != nil || len(end.SetAside) != 4 || !strings.Contains(aside, name+".refused-") {
				t.Errorf("%s: got %+v, %v", name, end, err)
			}
		}
		for name, want := range map[string]bool{".vscode": false, ".mcp.json": false, ".qwen": false, "CLAUDE.md": false, ".envrc": true, "src": true, ".github": true} {
			if _, err := os.Lstat(filepath.Join(f.workspace, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A command that a person approved may write repositories, and not the instructions of agents.
func TestApprovedCommandWritesRepositories(t *testing.T) {
	t.Parallel()
	f := open(t, sandbox.Config{})
	f.needMounts()
	f.write(filepath.Join(f.workspace, ".git/config"), "")
	f.write(filepath.Join(f.workspace, "sub/AGENTS.md"), "")
	for path, want := range map[string]bool{".git/config": true, "sub/AGENTS.md": false} {
		cmd, err := f.Command(t.Context(), sandbox.Run{Env: os.Environ(), Contained: true, Approved: true}, "sh", "-c", "echo x > "+path)
		if err == nil {
			err = cmd.Run()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
