package state

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("n", 255)) // as long as a name may be
	for _, content := range []string{"one", "", "three"} {
		if err := WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		checkFile(t, path, content, 0o640)
	}
	checkNoTemps(t, dir)
}

func TestWriteFileKeepsMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	path := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil { // more than the umask lets through
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkFile(t, path, "x", 0o777)
}

func TestWriteFileFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a", "target"), nil, 0o600))
	must(t, os.Symlink(filepath.Join("a", "b"), filepath.Join(dir, "short")))
	must(t, os.Symlink(filepath.Join("..", "target"), filepath.Join(dir, "a", "b", "link")))
	must(t, os.Symlink(filepath.Join("short", "link"), filepath.Join(dir, "chain")))
	target := filepath.Join(dir, "a", "target")

	must(t, WriteFile(filepath.Join(dir, "chain"), []byte("one"), 0o644))
	checkFile(t, target, "one", 0o600)

	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	must(t, WriteRootFile(root, "chain", []byte("two"), 0o644))
	checkFile(t, target, "two", 0o600)
	must(t, WriteRootFile(root, "short/new", []byte("three"), 0o600))
	checkFile(t, filepath.Join(dir, "a", "b", "new"), "three", 0o600)
	if info, _ := os.Lstat(filepath.Join(dir, "chain")); info.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link was replaced, want its target")
	}
	for _, d := range []string{"", "a", "a/b"} {
		checkNoTemps(t, filepath.Join(dir, d))
	}
}

func TestWriteRootFileStaysInside(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	must(t, os.Mkdir(inside, 0o755))
	outside := filepath.Join(dir, "outside")
	must(t, os.WriteFile(outside, []byte("safe"), 0o600))
	must(t, os.Symlink(filepath.Join("..", "outside"), filepath.Join(inside, "rel")))
	must(t, os.Symlink(outside, filepath.Join(inside, "abs")))
	must(t, os.Symlink("..", filepath.Join(inside, "up")))
	must(t, os.Symlink("loop", filepath.Join(inside, "loop")))
	root, err := os.OpenRoot(inside)
	must(t, err)
	defer root.Close()
	for _, name := range []string{"../outside", "rel", "abs", "up/outside", "loop", "up/new", outside, "", ".", "..", "missing/x"} {
		if err := WriteRootFile(root, name, []byte("broken"), 0o600); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	checkFile(t, outside, "safe", 0o600)
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Error("a file was made outside")
	}
	checkNoTemps(t, inside)
	checkNoTemps(t, dir)
}

func TestStreamRootFile(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	must(t, StreamRootFile(root, "f", 0o600, func(w io.Writer) error {
		for range 3 {
			if _, err := io.WriteString(w, "ab"); err != nil {
				return err
			}
		}
		return nil
	}))
	checkFile(t, filepath.Join(dir, "f"), "ababab", 0o600)

	broken := errors.New("source broke")
	err = StreamRootFile(root, "f", 0o600, func(w io.Writer) error {
		io.WriteString(w, "half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the source's error", err)
	}
	func() {
		defer func() { recover() }()
		StreamRootFile(root, "f", 0o600, func(io.Writer) error { panic("source") })
	}()
	checkFile(t, filepath.Join(dir, "f"), "ababab", 0o600)
	checkNoTemps(t, dir)
}

func TestWriteFileRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	for _, path := range []string{filepath.Join(dir, "d"), dir + "/.", os.DevNull, filepath.Join(dir, "none", "f"), ""} {
		err := WriteFile(path, nil, 0o600)
		if err == nil || path != "" && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want an error that names it", path, err)
		}
	}
	checkNoTemps(t, dir)
}

func TestRemoveTemps(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{
		tempName("old"): 2 * time.Hour, tempName("young"): 0, ".hidden": 2 * time.Hour, "x" + tempSuffix: 2 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
	}
	must(t, os.Mkdir(filepath.Join(dir, tempName("dir")), 0o700))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	if n, err := removeTemps(root, ".", time.Hour); n != 1 || err != nil {
		t.Errorf("got %d, %v, want 1 removed", n, err)
	}
	left, err := os.ReadDir(dir)
	if len(left) != 4 || err != nil {
		t.Errorf("left %v, %v, want all but the old one", left, err)
	}
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

func checkNoTemps(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if IsTemp(e.Name()) {
			t.Errorf("left %s", e.Name())
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
