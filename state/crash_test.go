package state

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// TestCrashStates records the operations of a few saves and loads each state of the
// disk that a power loss between two of them may leave. It must be the state of the last
// save that returned, or of the next one.
func TestCrashStates(t *testing.T) {
	t.Parallel()
	states, violations := crashStates(t, recordSaves(t, 3, ""))
	t.Logf("%d states", states)
	if states < 100 {
		t.Errorf("enumerated %d states, want at least 100", states)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

// The enumeration must notice a missing fsync.
func TestCrashStatesNoticeMissingSyncs(t *testing.T) {
	t.Parallel()
	for _, dropped := range []string{"sync file", "sync dir"} {
		if _, violations := crashStates(t, recordSaves(t, 3, dropped)); len(violations) == 0 {
			t.Errorf("without %q every crash state still loads", dropped)
		}
	}
}

type operation struct {
	kind string // create, write, sync file, rename, remove, sync dir, returned
	file int    // which file was created, written, synced, renamed, removed
	name string // create, remove: the name; rename: the new name
	data []byte // write
	save int    // returned: which save
}

// recordSaves makes n saves of growing size and returns their operations, without those
// of kind dropped.
func recordSaves(t *testing.T, n int, dropped string) []operation {
	r := &recorder{names: make(map[string]int)}
	path := filepath.Join(t.TempDir(), "state.json")
	f := openFile(t, path)
	f.hook = r.do
	for i := range n {
		must(t, f.Set(t.Context(), map[string]string{"n": strconv.Itoa(i + 1), "pad": strings.Repeat("p", 100*(i+1))}))
		r.add(operation{kind: "returned", save: i + 1})
	}
	var kept []operation
	for _, op := range r.ops {
		if op.kind != dropped {
			kept = append(kept, op)
		}
	}
	return kept
}

// crashStates loads each possible state after each operation: all subsets of the
// directory's changes since its last sync, with the unsynced bytes whole, missing,
// zeroed or partly written.
func crashStates(t *testing.T, ops []operation) (states int, violations []string) {
	for cut := range len(ops) + 1 {
		disk := newDisk(ops[:cut])
		for subset := range 1 << len(disk.pending) {
			for _, unsynced := range []string{"whole", "gone", "zeroed", "torn"} {
				states++
				dir := t.TempDir()
				for name, content := range disk.after(subset, unsynced) {
					must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
				}
				if err := checkCrash(t, dir, disk.acknowledged); err != nil {
					violations = append(violations, fmt.Sprintf("after %d of %d operations, directory changes %b, bytes %s: %v",
						cut, len(ops), subset, unsynced, err))
				}
			}
		}
	}
	return states, violations
}

func checkCrash(t *testing.T, dir string, acknowledged int) error {
	f := openFile(t, filepath.Join(dir, "state.json"))
	got, _ := strconv.Atoi(get(t, f, "n").Value)
	if got != acknowledged && got != acknowledged+1 {
		return fmt.Errorf("loaded save %d, want %d or the next", got, acknowledged)
	}
	if pad := get(t, f, "pad").Value; pad != strings.Repeat("p", 100*got) {
		return fmt.Errorf("loaded save %d with %d bytes of another", got, len(pad))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != "state.json" && e.Name() != "state.json.lock" {
			return fmt.Errorf("found %q after opening", e.Name()) // a corrupt or a temporary file
		}
	}
	return err
}

// disk is what a sequence of operations leaves on the disk: durable and pending changes.
type disk struct {
	names        map[string]int // durable
	pending      []operation    // changes of names since the last sync dir
	content      map[int][]byte
	synced       map[int]int // how many bytes of content are durable
	acknowledged int
}

func newDisk(ops []operation) *disk {
	d := &disk{names: make(map[string]int), content: make(map[int][]byte), synced: make(map[int]int)}
	for _, op := range ops {
		switch op.kind {
		case "write":
			d.content[op.file] = append(d.content[op.file], op.data...)
		case "sync file":
			d.synced[op.file] = len(d.content[op.file])
		case "sync dir":
			apply(d.names, d.pending, -1)
			d.pending = nil
		case "returned":
			d.acknowledged = op.save
		default:
			d.pending = append(d.pending, op)
		}
	}
	return d
}

func (d *disk) after(subset int, unsynced string) map[string][]byte {
	names := make(map[string]int)
	maps.Copy(names, d.names)
	apply(names, d.pending, subset)
	files := make(map[string][]byte)
	for name, file := range names {
		content, n := d.content[file], d.synced[file]
		switch unsynced {
		case "gone":
			content = content[:n]
		case "zeroed":
			content = append(bytes.Clone(content[:n]), make([]byte, len(content)-n)...)
		case "torn":
			content = content[:n+(len(content)-n)/2]
		}
		files[name] = content
	}
	return files
}

// apply makes those changes of names whose bit is set in subset.
func apply(names map[string]int, changes []operation, subset int) {
	for i, op := range changes {
		if subset&(1<<i) == 0 {
			continue
		}
		for name, file := range names {
			if file == op.file {
				delete(names, name)
			}
		}
		if op.kind != "remove" {
			names[op.name] = op.file
		}
	}
}

// recorder records the operations in a directory.
type recorder struct {
	ops   []operation
	names map[string]int
	files int
}

func (r *recorder) add(op operation) { r.ops = append(r.ops, op) }

// do is a Hook that records the operations.
func (r *recorder) do(op durable.Operation, do func() error) error {
	switch op.Kind {
	case "create":
		r.files++
		r.names[op.Name] = r.files
	case "rename":
		r.names[op.To] = r.names[op.Name]
	}
	name := op.Name
	if op.Kind == "rename" {
		name = op.To
	}
	switch op.Kind {
	case "create", "write", "sync file", "rename", "remove", "sync dir":
		r.add(operation{kind: op.Kind, file: r.names[op.Name], name: name, data: bytes.Clone(op.Data)})
	}
	return do()
}
