package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// straceDirEnv makes TestPutReachesTheDisk store into a directory, under strace.
const straceDirEnv = "STEVEDORE_TEST_STRACE_DIR"

// Put really syncs the content and the directory of the session: strace observes the
// system calls of a process.
func TestPutReachesTheDisk(t *testing.T) {
	if dir := os.Getenv(straceDirEnv); dir != "" {
		s := openTest(t, dir, offload.StoreConfig{})
		for i := range 2 {
			storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("id", i)), fmt.Append(nil, "text", i))
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if out, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace does not work here: %v, %s", err, out)
	}
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	child := exec.Command(strace, "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", trace, os.Args[0], "-test.run=^TestPutReachesTheDisk$")
	child.Env = append(os.Environ(), straceDirEnv+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v, %s", err, out)
	}
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	session, files, dirs := filepath.Join(dir, "s"), map[string]bool{}, 0
	for line := range strings.Lines(string(data)) {
		// PID fsync(FD</path>) = 0
		_, path, _ := strings.Cut(line, "<")
		path, _, ok := strings.Cut(path, ">")
		switch {
		case ok && path == session:
			dirs++
		case ok && strings.HasPrefix(path, filepath.Join(dir, tempDir)+"/"):
			files[path] = true
		}
	}
	if len(files) != 4 || dirs < 2 { // of each, the content and the record
		t.Errorf("two Puts synced the files %v and the session's directory %d times:\n%s", files, dirs, data)
	}
}
