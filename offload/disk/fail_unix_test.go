//go:build unix

package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestDiskLayout: the content is in the documented file, and there is no second copy.
func TestDiskLayout(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(1000, 60)
	storetest.Put(t, s, storetest.NewRecord("sess", "call_1"), data)
	storetest.Put(t, s, storetest.NewRecord("sess", "call_2"), data)
	got, err := os.ReadFile(filepath.Join(dir, "sess", "call_1.md"))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("call_1.md: %d bytes, %v", len(got), err)
	}
	checkSameFile(t, filepath.Join(dir, "sess", "call_1.md"), filepath.Join(dir, "sess", "call_2.md"))
	if info, err := os.Stat(filepath.Join(dir, "sess", "call_1.md")); err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Errorf("the content can be written to: %v, %v", info, err)
	}
	if err := s.Delete(t.Context(), "sess", "call_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sess", "call_1.md")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("call_1.md after delete: %v", err)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("sess", "call_2"), data), data)
}

// TestDiskWithoutLinks: if the file system has no hard links, the file is a copy.
func TestDiskWithoutLinks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it repeats TestStore")
	}
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		h := newHarness(t)
		open := h.Open
		h.Open = func(t *testing.T, cfg offload.StoreConfig) offload.Store {
			s := open(t, cfg).(*Store)
			s.now.links = false
			return s
		}
		return h
	})
}

// TestDiskCaseInsensitive: ids that differ only in case have different files.
func TestDiskCaseInsensitive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	s.now.caseInsensitive = true
	ids := []string{"abc", "Abc", "aBc", "ABC"}
	for _, session := range []string{"s", "S"} {
		for _, id := range ids {
			storetest.Put(t, s, storetest.NewRecord(session, id), []byte(session+id))
		}
	}
	seen := map[string]bool{}
	filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if key := strings.ToLower(name); err != nil || seen[key] {
			t.Errorf("%q exists twice on a case-insensitive disk, %v", name, err)
		} else {
			seen[key] = true
		}
		return nil
	})
	for _, session := range []string{"s", "S"} {
		for _, id := range ids {
			r, err := s.Get(t.Context(), session, id)
			if err != nil {
				t.Fatal(err)
			}
			storetest.CheckContent(t, s, r, []byte(session+id))
		}
		if n := countListed(t, s, session); n != len(ids) {
			t.Errorf("session %q lists %d", session, n)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "s", "abc.md")); err != nil {
		t.Errorf("an id in lower case has another file name: %v", err)
	}
}

// TestDiskForeignFile: the store neither overwrites nor sweeps a file that it did not
// write.
func TestDiskForeignFile(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	name := filepath.Join(dir, "s", "a.md")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), strings.NewReader("other"), nil); !errors.Is(err, offload.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(name); string(got) != "mine" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// TestDiskLostNames: a power loss during a Put may keep any of the new names. The next
// Put of the id repairs the artifact.
func TestDiskLostNames(t *testing.T) {
	t.Parallel()
	for lost := range 8 {
		dir := t.TempDir()
		s := openTest(t, dir, offload.StoreConfig{})
		before, data := storetest.Text(1000, 61), storetest.Text(1000, 62)
		old := storetest.Put(t, s, storetest.NewRecord("s", "a"), before)
		files := []string{blobFile(dir, old), filepath.Join(dir, "s", ".a.artifact.json"), filepath.Join(dir, "s", "a.md")}
		for i, name := range files {
			if lost&(1<<i) != 0 {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if recordLost := lost&2 != 0; !recordLost {
			data = before // the id exists
		} else if lost == 1|2 {
			continue // a content file alone is a foreign file
		}
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
		if got, err := os.ReadFile(files[2]); err != nil || !bytes.Equal(got, data) {
			t.Errorf("lost %03b: a.md has %d bytes, %v", lost, len(got), err)
		}
	}
}

// TestDiskHostileFiles: a link or a pipe in place of a file is an error. The store does
// not follow it or wait for it.
func TestDiskHostileFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, storetest.Text(1000, 61), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]func(name string) error{
		"symlink":   func(name string) error { return os.Symlink(secret, name) },
		"pipe":      func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		dir := t.TempDir()
		s := openTest(t, dir, offload.StoreConfig{})
		out := storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 61))
		content := contentFile(dir, out)
		if err := errors.Join(os.Remove(content), place(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := storetest.ReadAll(t.Context(), s, out); err == nil {
			t.Errorf("%s: read %d bytes of it", name, len(got))
		}
		record := filepath.Join(dir, "s", ".a.artifact.json")
		if err := errors.Join(os.Remove(record), place(record)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "s", "a"); err == nil {
			t.Errorf("%s: got a record from it", name)
		}
	}
}

// TestDiskForeignOthers: the store ignores and keeps directories, links and pipes.
func TestDiskForeignOthers(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 66))
	name := func(id string) string { return filepath.Join(dir, "s", id+".md") }
	if err := errors.Join(os.Symlink(t.TempDir(), name("link")), syscall.Mkfifo(name("pipe"), 0o600), os.Mkdir(name("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"link", "pipe", "dir"} {
		if _, err := s.Get(t.Context(), "s", id); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("get %s: %v, want ErrNotFound", id, err)
		}
		if _, err := s.Put(t.Context(), storetest.NewRecord("s", id), strings.NewReader("text"), nil); err == nil {
			t.Errorf("put in place of the %s", id)
		}
		if err := s.Delete(t.Context(), "s", id); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("delete %s: %v, want ErrNotFound", id, err)
		}
		if _, err := os.Lstat(name(id)); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskRemovedSession: a process creates the directory of a session again if it was
// removed.
func TestDiskRemovedSession(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(1000, 67)
	storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	for _, id := range []string{"a", "b"} { // stored bytes, and new ones
		if err := os.RemoveAll(filepath.Join(dir, "s")); err != nil {
			t.Fatal(err)
		}
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", id), data), data)
		data = storetest.Text(1000, 68)
	}
}

// TestDiskDamagedRecord: with an unreadable record, a sweep removes no content and
// reports the record. The next Put replaces it.
func TestDiskDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(1000, 62)
	storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	name := filepath.Join(dir, "s", ".a.artifact.json")
	if err := os.Truncate(name, 40); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("get: %v, want ErrCorrupt", err)
	}
	if report, err := s.Sweep(t.Context(), 0); err == nil || report.Blobs != 0 {
		t.Errorf("sweep: %+v, %v; want an error and nothing removed", report, err)
	}
	for _, id := range []string{"b", "c"} { // each is counted, beside those that can be read
		storetest.Put(t, s, storetest.NewRecord("s", id), data)
	}
	if err := os.Truncate(filepath.Join(dir, "s", ".b.artifact.json"), 40); err != nil {
		t.Fatal(err)
	}
	if l, err := offload.NewReader(s, offload.ReaderConfig{}).Query(t.Context(), "s", nil, 0, 0); err != nil || l.Count != 1 || l.Damaged != 2 {
		t.Errorf("the list is %+v, %v; want one artifact and two damaged records", l, err)
	}
	storetest.Put(t, s, storetest.NewRecord("s", "b"), data)
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
	if report, err := s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("sweep: %+v, %v; want nothing", report, err)
	}
}

// TestDiskGrownFile: a content to which another program appended is corrupt.
func TestDiskGrownFile(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), []byte("text"))
	name := filepath.Join(dir, "s", "a.md")
	if err := errors.Join(os.Chmod(name, 0o600), os.Truncate(name, 5)); err != nil {
		t.Fatal(err)
	}
	if got, err := storetest.ReadAll(t.Context(), s, out); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("read %q, %v; want ErrCorrupt", got, err)
	}
}

// TestDiskSweepDuringPut: a Put fails without a record if a sweep removes its blob. It
// succeeds if another Put stored the bytes again with another record.
func TestDiskSweepDuringPut(t *testing.T) {
	for _, back := range []bool{false, true} {
		s := openTest(t, t.TempDir(), offload.StoreConfig{})
		f, err := s.now.dir.CreateTemp(tempName(), contentMode)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Discard()
		in, err := s.now.writeContent(t.Context(), f.File, strings.NewReader("text"))
		if err != nil {
			t.Fatal(err)
		}
		e := record.Entry{Record: storetest.NewRecord("s", "a")}
		s.now.life.Complete(&e.Record, in.Index, in.Digest)
		staged, err := s.now.dir.writeTemp(0o600, encodeTo(e))
		if err != nil {
			t.Fatal(err)
		}
		defer staged.Discard()
		if err := s.now.addBlob(t.Context(), f, in); err != nil {
			t.Fatal(err)
		}
		if err := s.now.dir.Root.Remove(blobDir + "/" + in.Digest); err != nil { // like a sweep
			t.Fatal(err)
		}
		if back {
			storetest.Put(t, s, storetest.NewRecord("s", "b"), []byte("text"))
			if _, err := s.now.addRecord(t.Context(), e, staged); err != nil {
				t.Error(err)
			}
			if _, err := s.Get(t.Context(), "s", "a"); err != nil {
				t.Errorf("the bytes came back: %v", err)
			}
			continue
		}
		if _, err := s.now.addRecord(t.Context(), e, staged); err == nil {
			t.Error("the Put succeeded, but its bytes are missing")
		}
		if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("a record is left: %v", err)
		}
	}
}

// TestDiskFull puts in a process with a limit on the size of files, for every limit
// around the failing writes: the old artifact is intact, every record has its content,
// and a sweep removes the rest.
func TestDiskFull(t *testing.T) {
	const env = "STEVEDORE_TEST_DISK_FULL"
	if dir := os.Getenv(env); dir != "" {
		putOnFullDisk(t, dir)
		return
	}
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	old := storetest.Text(2*index.BlockSize, 63)
	first := storetest.Put(t, s, storetest.NewRecord("s", "old"), old)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	storetest.CheckContent(t, s, first, old)
	if n := countListed(t, s, ""); n != 1 {
		t.Errorf("%d records, want the old one", n)
	}
	for d, want := range map[string]int{tempDir: 0, blobDir: 1, "s": 2} {
		entries, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil || len(entries) > want {
			t.Errorf("%s holds %d files, %v; want at most %d", d, len(entries), err, want)
		}
	}
}

// TestDiskFullSweep: a sweep frees space on a full disk. The removed artifacts return
// ErrExpired.
func TestDiskFullSweep(t *testing.T) {
	const env = "STEVEDORE_TEST_DISK_FULL_SWEEP"
	dir := os.Getenv(env)
	if dir == "" {
		dir = t.TempDir()
		s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour})
		storetest.Put(t, s, storetest.NewRecord("s", "file"), storetest.Text(1000, 67))
		storetest.Put(t, s, storetest.NewRecord("s", "second"), storetest.Text(1000, 68))
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFullSweep$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var c storetest.Clock
	c.Advance(61 * time.Minute)
	s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	limit := func(size uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: 1 << 40}); err != nil {
			t.Fatal(err)
		}
	}
	limit(0)
	report, err := s.Sweep(t.Context(), 0)
	limit(1 << 40)
	if err != nil || report.Records != 2 || report.Blobs != 2 {
		t.Errorf("sweep: %+v, %v; want both", report, err)
	}
	for range 2 {
		if _, err := s.Get(t.Context(), "s", "file"); !errors.Is(err, offload.ErrExpired) {
			t.Errorf("get: %v, want ErrExpired", err)
		}
		if _, err := s.Sweep(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
}

func putOnFullDisk(t *testing.T, dir string) {
	s := openTest(t, dir, offload.StoreConfig{})
	for _, limit := range []uint64{0, 100, index.BlockSize, index.BlockSize + 1, 2*index.BlockSize - 1} {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: 1 << 40}); err != nil {
			t.Fatal(err)
		}
		_, err := s.Put(context.Background(), storetest.NewRecord("s", "new"), bytes.NewReader(storetest.Text(2*index.BlockSize, 64)), nil)
		if !errors.Is(err, syscall.EFBIG) || !errors.Is(err, offload.ErrQuota) || !strings.Contains(err.Error(), "disk has no space") {
			t.Errorf("limit %d: %v, want a full store", limit, err)
		}
		// The content fits and its record does not: the old record stays.
		_, err = s.Put(context.Background(), storetest.NewRecord("s", "again"), bytes.NewReader(storetest.Text(50, 65)), func(r *offload.Record, _ offload.Content) error {
			r.Summary = strings.Repeat("x", 3*index.BlockSize)
			return nil
		})
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("limit %d: %v, want EFBIG for the record", limit, err)
		}
		if _, err := s.Get(context.Background(), "s", "again"); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("limit %d: a record is left: %v", limit, err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 40, Max: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(context.Background(), 0); err != nil {
		t.Error(err)
	}
}

// TestDiskProcesses: several processes put the same and different contents under the
// same ids. For each id, one content wins.
func TestDiskProcesses(t *testing.T) {
	t.Parallel()
	const env = "STEVEDORE_TEST_DISK_DIR"
	if dir := os.Getenv(env); dir != "" {
		s := openTest(t, dir, offload.StoreConfig{})
		seed := uint64(os.Getpid())
		for i := range 20 {
			out, err := s.Put(context.Background(), storetest.NewRecord("s", fmt.Sprint("same", i)), bytes.NewReader(storetest.Text(100, uint64(i))), nil)
			if err != nil {
				t.Errorf("same %d: %v", i, err)
			}
			storetest.CheckContent(t, s, out, storetest.Text(100, uint64(i)))
			out, err = s.Put(context.Background(), storetest.NewRecord("s", fmt.Sprint("other", i)), bytes.NewReader(storetest.Text(100, seed+uint64(i))), nil)
			if err == nil {
				storetest.CheckContent(t, s, out, storetest.Text(100, seed+uint64(i)))
				fmt.Printf("won %d\n", i)
			} else if !errors.Is(err, offload.ErrExists) {
				t.Errorf("other %d: %v", i, err)
			}
		}
		return
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestDiskProcesses$", "-test.v")
			cmd.Env = append(os.Environ(), env+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			won += strings.Count(string(out), "won ")
		})
	}
	wg.Wait()
	if won != 20 {
		t.Errorf("20 ids have %d winners", won)
	}
}
