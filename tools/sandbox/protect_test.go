package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func mkdir(t *testing.T, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A scan finds what is new since the one before, at any depth, and among many other entries.
func TestScanFindsWhatIsNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deep := mkdir(t, dir, "1/2/3/4/5/6")
	for i := range 6_000 {
		mkdir(t, dir, "0", fmt.Sprint("d", i))
	}
	for _, name := range []string{"head", "objects", "refs"} { // what git takes for a repository depends on the file system
		mkdir(t, dir, "lower", name)
	}
	var p protection
	if found := p.scan([]string{dir}).found; len(found) > 0 != WouldBeGitDir(filepath.Join(dir, "lower"), "") {
		t.Fatalf("found %q", found)
	}
	if err := os.RemoveAll(filepath.Join(dir, "lower")); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range []string{"1/.git", "0/d5999/.git", "1/2/3/4/5/6/AGENTS.md", "z/.vscode"} {
		want = append(want, mkdir(t, dir, path))
		if found := p.scan([]string{dir}).found; !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))) {
			t.Errorf("found %q, want %q", found, want)
		}
	}
	if err := os.RemoveAll(filepath.Join(deep, "AGENTS.md")); err != nil {
		t.Fatal(err)
	}
	if found := p.scan([]string{dir}).found; len(found) != 3 {
		t.Errorf("after one was removed, found %q", found)
	}
}

// A directory whose times a command has set back is read again.
func TestScanTrustsNoTimeThatACommandSets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := mkdir(t, dir, "sub")
	var p protection
	p.scan([]string{dir})
	for path, l := range p.dirs { // as if the scan was long ago
		l.read = l.read.Add(time.Hour)
		p.dirs[path] = l
	}
	info, err := os.Stat(sub)
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, sub, ".git")
	if err := os.Chtimes(sub, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if found := p.scan([]string{dir}).found; len(found) != 1 {
		t.Errorf("found %q", found)
	}
}

// More directories than a scan examines are named.
func TestScanSaysWhatItMissed(t *testing.T) {
	t.Parallel()
	var p protection
	p.dirs = map[string]listing{}
	root := t.TempDir()
	names := make([]string, maxDirs)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	info, err := os.Lstat(root)
	if err != nil {
		t.Fatal(err)
	}
	p.dirs[root] = listing{changed: changeTime(info), read: time.Now().Add(time.Hour), dirs: names} // as if they existed
	if s := p.scan([]string{root}); changeTime(info).IsZero() == (s.missed != "") {
		t.Errorf("missed %q", s.missed)
	}
}

// git executes nothing of a repository that only init, clone and ordinary settings have written.
func TestExecutesNothing(t *testing.T) {
	t.Parallel()
	const plain = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n" +
		"[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n# a comment\n[user]\n\tname = \"me\"\n"
	for config, want := range map[string]bool{
		plain:                                            true,
		"":                                               true,
		plain + "[alias]\n\tst = !evil\n":                false,
		"[core]\n\tfsmonitor = evil\n":                   false,
		"[core]\n\tFSMonitor=evil\n":                     false,
		"[core] fsmonitor = evil\n":                      false,
		"[core]\n\tfilemode = true \\\n":                 false,
		"[core]\r\n\tbare = true\r\n":                    true,
		"[core]\n\thooksPath = x\n":                      false,
		"[include]\n\tpath = ../evil\n":                  false,
		"[filter \"x\"]\n\tclean = evil\n":               false,
		"[remote \"origin\"]\n\tuploadpack = evil\n":     false,
		"[remote \"origin\"]\n\turl = ext::sh -c evil\n": false,
		"[core]\n\tworktree = /\n":                       false,
		"[user]\n\tname\n":                               false,
	} {
		dir := mkdir(t, t.TempDir(), ".git")
		mkdir(t, dir, "hooks")
		for path, text := range map[string]string{"config": config, "hooks/pre-commit.sample": "evil"} {
			if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := executesNothing(dir); got != want {
			t.Errorf("%q: %v, want %v", config, got, want)
		}
	}
	for _, path := range []string{"hooks/pre-commit", "commondir", "config.worktree", "modules/x/config"} {
		dir := mkdir(t, t.TempDir(), ".git")
		mkdir(t, filepath.Dir(filepath.Join(dir, path)))
		if err := os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if executesNothing(dir) {
			t.Errorf("a repository with %s stays", path)
		}
	}
	dir := mkdir(t, t.TempDir(), ".hg")
	if executesNothing(dir) {
		t.Error("a repository of Mercurial stays")
	}
}
