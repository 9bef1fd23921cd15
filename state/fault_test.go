package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// TestFaultAtEachOperation makes operation N of a save fail, for all N: before it is
// done, after it is done, or together with all later ones. All callers of that save
// receive the error, and the facts are the old ones, or the new ones after the rename.
func TestFaultAtEachOperation(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"not done", "done", "all from here"} {
		for n := 1; ; n++ {
			fault := &fault{at: n, mode: mode}
			if !testFault(t, fault, fmt.Sprintf("operation %d %s", n, mode)) {
				if n < 8 {
					t.Errorf("a save has %d operations, want at least 8", n-1)
				}
				break
			}
		}
	}
}

// testFault reports whether the save has operation fault.at.
func testFault(t *testing.T, fault *fault, name string) bool {
	path := filepath.Join(t.TempDir(), "state.json")
	f := openFile(t, path)
	before := map[string]string{"a": "old", "b": "old", "c": "old"}
	must(t, f.Set(t.Context(), before))

	f.hook = fault.do
	errs := together(t, f, []map[string]string{{"a": "new"}, {"b": "new"}, {"c": "new"}})
	f.hook = nil
	if fault.at > 0 && !fault.met {
		return false
	}

	for i, err := range errs {
		if !errors.Is(err, errFault) {
			t.Errorf("%s: saver %d got %v, want the fault", name, i, err)
		}
	}
	want := "old"
	if fault.renamed {
		want = "new"
	}
	for _, s := range []Store{f, openFile(t, path)} {
		for key := range before {
			if got := get(t, s, key).Value; got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	if fault.mode == "not done" {
		checkNoTemps(t, filepath.Dir(path))
	}
	openFile(t, path) // removes what a failing disk would not let us remove
	checkNoTemps(t, filepath.Dir(path))

	set(t, f, "d", "later")
	if got := get(t, openFile(t, path), "d").Value; got != "later" {
		t.Errorf("%s: the next save left %q", name, got)
	}
	return true
}

// together runs saves in one batch.
func together(t *testing.T, f *File, saves []map[string]string) []error {
	t.Helper()
	f.saving <- struct{}{}
	errs := make([]error, len(saves))
	var wg sync.WaitGroup
	for i, values := range saves {
		wg.Go(func() { errs[i] = f.Set(t.Context(), values) })
	}
	waitForCallers(f, len(saves))
	<-f.saving
	wg.Wait()
	return errs
}

// waitForCallers waits until n callers wait for the next save.
func waitForCallers(f *File, n int) {
	for callers := -1; callers != n; runtime.Gosched() {
		f.mu.Lock()
		if callers = 0; f.next != nil {
			callers = f.next.callers
		}
		f.mu.Unlock()
	}
}

var errFault = errors.New("input/output error")

type fault struct {
	at      int // counts down to 0
	mode    string
	met     bool
	renamed bool
}

// do is a Hook that fails one operation.
func (f *fault) do(op durable.Operation, do func() error) error {
	perform := func() error {
		f.renamed = f.renamed || op.Kind == "rename"
		return do()
	}
	f.at--
	if f.at > 0 || f.at < 0 && f.mode != "all from here" {
		return perform()
	}
	f.met = true
	switch f.mode {
	case "done":
		perform()
	case "kill":
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		return fmt.Errorf("still alive: %w", err)
	}
	return errFault
}
