//go:build unix

package disk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// TestDiskLostBlob: a power loss may remove a blob, which is not durable when Put
// returns. The content stays readable, and a Put restores the blob.
func TestDiskLostBlob(t *testing.T) {
	t.Parallel()
	data := storetest.Text(3*index.BlockSize+7, 70)
	for name, back := range map[string]func(t *testing.T, s *Store){
		"sweep": func(t *testing.T, s *Store) {
			if report, err := s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
				t.Errorf("sweep: %+v, %v; want nothing removed", report, err)
			}
		},
		"put again": func(t *testing.T, s *Store) { storetest.Put(t, s, storetest.NewRecord("s", "a"), data) },
		"put elsewhere, then again": func(t *testing.T, s *Store) {
			storetest.Put(t, s, storetest.NewRecord("other", "b"), data)
			storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openTest(t, dir, offload.StoreConfig{})
			out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
			blob := blobFile(dir, out)
			if err := os.Remove(blob); err != nil {
				t.Fatal(err)
			}
			storetest.CheckContent(t, s, out, data)
			back(t, s)
			storetest.CheckContent(t, s, out, data)
			b := storetest.Put(t, s, storetest.NewRecord("other", "b"), data)
			storetest.CheckContent(t, s, b, data)
			storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
			checkSameFile(t, blob, filepath.Join(dir, "s", "a.md"), filepath.Join(dir, "other", "b.md"))
		})
	}
}

// TestDiskLostBlobExpires: a content without a blob is removed with its record.
func TestDiskLostBlobExpires(t *testing.T) {
	var c storetest.Clock
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 71))
	if err := os.Remove(blobFile(dir, out)); err != nil {
		t.Fatal(err)
	}
	c.Advance(61 * time.Minute)
	if report, err := s.Sweep(t.Context(), 0); err != nil || report.Records != 1 {
		t.Errorf("sweep: %+v, %v; want one record", report, err)
	}
	for _, name := range []string{blobFile(dir, out), filepath.Join(dir, "s", "a.md")} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q is left: %v", name, err)
		}
	}
}

// TestDiskLostBlobAndDamage: the store neither returns damaged bytes nor makes a blob
// of them, which other sessions would use. The next Put repairs them.
func TestDiskLostBlobAndDamage(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(1000, 72)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	name := filepath.Join(dir, "s", "a.md")
	if err := errors.Join(os.Remove(blobFile(dir, out)), os.Remove(name), os.WriteFile(name, storetest.Text(1000, 73), 0o400)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(blobFile(dir, out)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a sweep made a blob of other bytes: %v", err)
	}
	if got, err := storetest.ReadAll(t.Context(), s, out); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("read %d bytes, %v; want ErrCorrupt", len(got), err)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
	checkSameFile(t, name, blobFile(dir, out))
}

// TestDiskNeighbours: the store ignores and keeps other files in its directory.
func TestDiskNeighbours(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 74))
	if err := os.CopyFS(filepath.Join(dir, "backup"), os.DirFS(filepath.Join(dir, "s"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.txt", "s/.settings.json", "s/.a b.artifact.json", "lost+found/.x.artifact.json", "docs/readme.md"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before := filesIn(t, dir)
	var ids []string
	for r, err := range s.List(t.Context(), "") {
		if ids = append(ids, r.Session+"/"+r.ID); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(ids) != "[s/a]" {
		t.Errorf("list %v, want s/a", ids)
	}
	if report, err := s.Sweep(t.Context(), 0); err != nil || report != (offload.SweepReport{}) {
		t.Errorf("sweep: %+v, %v; want nothing", report, err)
	}
	if r, err := s.Get(t.Context(), "backup", "a"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("the copy gives %+v, %v; want ErrNotFound", r, err)
	}
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Error(err)
	}
	if after := filesIn(t, dir); len(after) != len(before)-2 {
		t.Errorf("before\n%q, after deleting one artifact\n%q", before, after)
	}
}

// TestDiskKilled kills a process that puts, deletes and puts again. Every Put that
// returned is stored, and after a sweep every file belongs to a record.
func TestDiskKilled(t *testing.T) {
	t.Parallel()
	const env = "STEVEDORE_TEST_DISK_KILLED"
	kept := func(i int) []byte { return storetest.Text(100+i%3*index.BlockSize, uint64(i%7)) }
	if dir := os.Getenv(env); dir != "" {
		s := openTest(t, dir, offload.StoreConfig{})
		for i := 0; ; i++ {
			// Equal contents are put again while the earlier ones are deleted.
			for _, id := range []string{fmt.Sprint("kept", os.Getpid(), "_", i), "gone"} {
				if _, err := s.Put(context.Background(), storetest.NewRecord("s", id), bytes.NewReader(kept(i)), nil); err != nil {
					t.Fatal(err)
				}
			}
			fmt.Println("put", os.Getpid(), i)
			if err := s.Delete(context.Background(), "s", "gone"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if testing.Short() {
		t.Skip("kills processes, across which the race detector finds nothing")
	}
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiskKilled$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		var pid, last int
		n := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "put %d %d", &pid, &last); err == nil {
				if n++; n == 5+3*round {
					cmd.Process.Kill() // the test reads the rest of its output
				}
			}
		}
		cmd.Wait()
		if n < 5+3*round {
			t.Fatalf("the process ended after %d puts", n)
		}
		for i := range last + 1 {
			r, err := s.Get(t.Context(), "s", fmt.Sprint("kept", pid, "_", i))
			if err != nil {
				t.Fatal(err)
			}
			storetest.CheckContent(t, s, r, kept(i))
		}
		if err := s.Delete(t.Context(), "s", "gone"); err != nil && !errors.Is(err, offload.ErrNotFound) {
			t.Error(err)
		}
		if _, err := s.Sweep(t.Context(), 0); err != nil {
			t.Error(err)
		}
		checkNoOrphan(t, s, dir)
	}
}

// checkNoOrphan fails if a file in the directory belongs to no record.
func checkNoOrphan(t *testing.T, s *Store, dir string) {
	t.Helper()
	var want []string
	for r, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, s.now.recordPath(r.Session, r.ID), s.now.contentPath(r.Session, r.ID), strings.TrimPrefix(blobFile("", r), "/"))
	}
	for _, name := range filesIn(t, dir) {
		if name != durable.FormatFile && !slices.Contains(want, name) {
			t.Errorf("%q belongs to no record", name)
		}
	}
}
