package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 255)) // as long as a name may be
	for _, content := range []string{"one", "", "three"} {
		must(t, WriteFile(path, []byte(content), 0o640))
		checkFile(t, path, content, 0o640)
	}
	checkNames(t, dir, filepath.Base(path))
}

func TestWriteFileKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	path := filepath.Join(t.TempDir(), "run.sh")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Chmod(path, 0o777)) // more than the umask lets through
	must(t, WriteFile(path, []byte("x"), 0o644))
	checkFile(t, path, "x", 0o777)
}

func TestWriteFileStaysInside(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	must(t, os.MkdirAll(filepath.Join(inside, "a", "b"), 0o755))
	outside := filepath.Join(dir, "outside")
	must(t, os.WriteFile(outside, []byte("safe"), 0o600))
	must(t, os.Symlink(filepath.Join("..", "outside"), filepath.Join(inside, "link")))
	must(t, os.Symlink("..", filepath.Join(inside, "up")))
	must(t, os.Symlink(filepath.Join("a", "b"), filepath.Join(inside, "short")))
	d := openDir(t, inside)
	must(t, d.WriteFile("short/new", []byte("x"), 0o600, nil))
	checkFile(t, filepath.Join(inside, "a", "b", "new"), "x", 0o600)
	for _, name := range []string{"../outside", "link", "up/outside", "up/new", outside, "", ".", "..", "missing/x"} {
		if err := d.WriteFile(name, []byte("broken"), 0o600, nil); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	checkFile(t, outside, "safe", 0o600)
	checkNames(t, inside, "a", "link", "short", "up")
	checkNames(t, dir, "in", "outside")
}

func TestWriteFileRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for _, path := range []string{filepath.Join(dir, "d"), dir + "/.", os.DevNull, filepath.Join(dir, "none", "f")} {
		if err := WriteFile(path, nil, 0o600); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error that names it", path, err)
		}
	}
	checkNames(t, dir, "d")
}

// Each operation fails once, without having been done. The file then has the old
// content, or the new one after the rename, and no temporary file is left.
func TestWriteFileFails(t *testing.T) {
	failure := errors.New("input/output error")
	for n := 1; ; n++ {
		dir := t.TempDir()
		d := openDir(t, dir)
		must(t, d.WriteFile("f", []byte("old"), 0o600, nil))
		var kinds []string
		d.Hook = func(op Operation, do func() error) error {
			if kinds = append(kinds, op.Kind); len(kinds) == n {
				return failure
			}
			return do()
		}
		err := d.WriteFile("f", []byte("new"), 0o600, nil)
		if len(kinds) < n {
			if got := strings.Join(kinds, ", "); err != nil || got != "lstat, create, chmod, write, sync file, close, rename, sync dir" {
				t.Errorf("operations: %s, %v", got, err)
			}
			return
		}
		last := kinds[n-1] == "sync dir"
		if !errors.Is(err, failure) || strings.Contains(err.Error(), "power loss") != last {
			t.Errorf("%s failed: got %v", kinds[n-1], err)
		}
		checkFile(t, filepath.Join(dir, "f"), map[bool]string{false: "old", true: "new"}[last], 0o600)
		checkNames(t, dir, "f")
	}
}

func TestWriteFileCheckFails(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	must(t, d.WriteFile("f", []byte("old"), 0o600, nil))
	refusal := errors.New("changed")
	if err := d.WriteFile("f", []byte("new"), 0o600, func() error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("got %v, want the error of check", err)
	}
	checkFile(t, filepath.Join(dir, "f"), "old", 0o600)
	checkNames(t, dir, "f")
}

func TestRemoveTemps(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{tempName("f"), tempName("g"), ".hidden", "x" + tempSuffix} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, tempName("f")), 0o700))
	must(t, openDir(t, dir).RemoveTemps("f"))
	if left, err := os.ReadDir(dir); len(left) != 4 || err != nil {
		t.Errorf("left %v, %v, want all but the temporary file of f", left, err)
	}
}

func TestMkdirAll(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	var synced []string
	d.Hook = func(op Operation, do func() error) error {
		synced = append(synced, op.Kind+" "+op.Name)
		return do()
	}
	for range 2 {
		must(t, d.MkdirAll("a/b/c", 0o700))
	}
	if got := strings.Join(synced, ", "); got != "sync dir ., sync dir a, sync dir a/b" {
		t.Errorf("synced %s", got)
	}
	root, err := OpenRoot(filepath.Join(dir, "a", "x", "y"), 0o700)
	must(t, err)
	must(t, root.Close())
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if _, err := OpenRoot(filepath.Join(dir, "file", "x"), 0o700); err == nil {
		t.Error("made a directory in a file")
	}
}

func openDir(t *testing.T, path string) Dir {
	t.Helper()
	root, err := os.OpenRoot(path)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return Dir{Root: root}
}

func checkFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if string(got) != content || err != nil {
		t.Errorf("%s: got %q, %v, want %q", filepath.Base(path), got, err, content)
	}
	if info, err := os.Stat(path); err == nil && info.Mode() != mode && runtime.GOOS != "windows" {
		t.Errorf("%s: mode %v, want %v", filepath.Base(path), info.Mode(), mode)
	}
}

// checkNames compares the names in a directory with a sorted list.
func checkNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
