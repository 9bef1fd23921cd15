package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dir replaces files below a directory. No name and no symbolic link leads out
// of it.
type Dir struct {
	Root *os.Root
	// Hook, if not nil, is called instead of each operation, which do performs.
	// Tests record operations and make them fail.
	Hook func(op Operation, do func() error) error
}

// Operation is what Hook may intercept.
type Operation struct {
	Kind string // lstat, create, chmod, write, sync file, close, rename, remove, sync dir
	Name string
	To   string // rename
	Data []byte // write
}

func (d Dir) do(op Operation, do func() error) error {
	if d.Hook != nil {
		return d.Hook(op, do)
	}
	return do()
}

// WriteFile replaces the content of the file, or creates the file with perm less
// the umask. When it returns nil, data survives a power loss. When it returns an
// error or the process dies, the file has its old content or the new one, whole.
// (After an error of the last step, the directory's fsync, the file has the new
// content, but a power loss may undo the change.)
//
// An existing file keeps its permission bits, but not its owner, extended
// attributes and hard links. WriteFile refuses a name that is not a regular file,
// for example a symbolic link. The directory must exist.
//
// check may be nil. It is called immediately before the rename; if it returns an
// error, WriteFile returns that error and changes nothing.
//
// Expected system calls on Linux, without those by which os.Root follows links:
//
//	newfstatat(5, "state.json", AT_SYMLINK_NOFOLLOW)
//	openat(5, ".state.json.K3...Q.stevedore-tmp", O_RDWR|O_CREAT|O_EXCL|O_NOFOLLOW, 0600) = 6
//	fchmod(6, 0600)                      only if the file existed
//	write(6, ...)
//	fsync(6)                             otherwise the rename may be durable before the bytes
//	close(6)
//	renameat(5, ".state.json.K3...Q.stevedore-tmp", 5, "state.json")
//	openat(5, ".", O_RDONLY|O_DIRECTORY) = 6
//	fsync(6)                             otherwise a power loss may undo the rename
//	close(6)
func (d Dir) WriteFile(name string, data []byte, perm fs.FileMode, check func() error) (err error) {
	if base := filepath.Base(name); base == "." || base == ".." {
		return errors.New("a directory has this name")
	}
	var old fs.FileInfo
	err = d.do(Operation{Kind: "lstat", Name: name}, func() (err error) { old, err = d.Root.Lstat(name); return err })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return err
	case !old.Mode().IsRegular():
		return fmt.Errorf("not a regular file but %s", old.Mode().Type())
	default:
		perm = old.Mode().Perm()
	}

	temp, err := d.CreateTemp(filepath.Join(filepath.Dir(name), tempName(name)), perm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temp.Discard()) }()
	if old != nil { // the umask is for new files
		if err := temp.Chmod(perm); err != nil {
			return err
		}
	}
	if _, err := temp.Write(data); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	if check != nil {
		if err := check(); err != nil {
			return err
		}
	}
	if err := temp.Rename(name); err != nil {
		return err
	}
	if err := d.Sync(filepath.Dir(name)); err != nil {
		return fmt.Errorf("written, but a power loss may undo it: %w", err)
	}
	return nil
}

// Sync makes creations, renames and removals in a directory durable.
func (d Dir) Sync(name string) error {
	return d.do(Operation{Kind: "sync dir", Name: name}, func() error { return syncDir(d.Root.OpenFile, name) })
}

// MkdirAll makes a directory and its missing parents, and makes them durable.
func (d Dir) MkdirAll(name string, perm fs.FileMode) error {
	if name == "." {
		return nil
	}
	err := d.Root.Mkdir(name, perm)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.MkdirAll(filepath.Dir(name), perm); err == nil {
			err = d.Root.Mkdir(name, perm)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Sync(filepath.Dir(name))
}

// OpenRoot opens the directory at path. It makes a missing directory like MkdirAll.
func OpenRoot(path string, perm fs.FileMode) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
		return root, err
	}
	parent, err := OpenRoot(filepath.Dir(path), perm)
	if err != nil {
		return nil, err
	}
	err = Dir{Root: parent}.MkdirAll(filepath.Base(path), perm)
	if err = errors.Join(err, parent.Close()); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// Temp is a new file under a temporary name.
type Temp struct {
	*os.File
	dir  Dir
	name string // empty after Rename
}

// CreateTemp creates the file and fails with fs.ErrExist if the name exists. The
// caller must call Discard.
func (d Dir) CreateTemp(name string, perm fs.FileMode) (*Temp, error) {
	t := &Temp{dir: d, name: name}
	err := d.do(Operation{Kind: "create", Name: name}, func() (err error) {
		t.File, err = d.Root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		return err
	})
	if err != nil {
		t.File.Close() // nil unless a Hook made this fail
		return nil, err
	}
	return t, nil
}

// Chmod changes the file's permission bits.
func (t *Temp) Chmod(perm fs.FileMode) error {
	return t.dir.do(Operation{Kind: "chmod", Name: t.name}, func() error { return t.File.Chmod(perm) })
}

// Write writes to the file. It is not buffered.
func (t *Temp) Write(p []byte) (n int, err error) {
	err = t.dir.do(Operation{Kind: "write", Name: t.name, Data: p}, func() error { n, err = t.File.Write(p); return err })
	return n, err
}

// Sync makes the file's content durable, but not its name.
func (t *Temp) Sync() error {
	return t.dir.do(Operation{Kind: "sync file", Name: t.name}, t.File.Sync)
}

// Close closes the file.
func (t *Temp) Close() error {
	return t.dir.do(Operation{Kind: "close", Name: t.name}, t.File.Close)
}

// Rename gives the file its final name and replaces the file that had it. Sync of
// the directory makes the name durable.
func (t *Temp) Rename(to string) error {
	err := t.dir.do(Operation{Kind: "rename", Name: t.name, To: to}, func() error { return t.dir.Root.Rename(t.name, to) })
	if err == nil {
		t.name = ""
	}
	return err
}

// Discard closes the file and removes its temporary name.
func (t *Temp) Discard() error {
	t.File.Close() // the content does not matter any more, or Sync was called
	if t.name == "" {
		return nil
	}
	err := t.dir.do(Operation{Kind: "remove", Name: t.name}, func() error { return t.dir.Root.Remove(t.name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteFile is Dir.WriteFile for a path.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write file %q: %w", path, err)
	}
	defer root.Close()
	if err := (Dir{Root: root}).WriteFile(filepath.Base(path), data, perm, nil); err != nil {
		return fmt.Errorf("write file %q: %w", path, err)
	}
	return nil
}

const tempSuffix = ".stevedore-tmp"

// tempName returns a hidden name within the 255 bytes that file systems allow.
func tempName(name string) string { return tempPrefix(name) + rand.Text() + tempSuffix }

func tempPrefix(name string) string {
	base := filepath.Base(name)
	return "." + strings.ToValidUTF8(base[:min(len(base), 200)], "") + "."
}

// RemoveTemps removes the temporary files that WriteFile calls for name left
// behind when their process died. No such call may be running.
func (d Dir) RemoveTemps(name string) error {
	entries, err := fs.ReadDir(d.Root.FS(), filepath.ToSlash(filepath.Dir(name)))
	if err != nil {
		return fmt.Errorf("remove temporary files: %w", err)
	}
	var failed []error
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), tempPrefix(name)) || !strings.HasSuffix(entry.Name(), tempSuffix) || !entry.Type().IsRegular() {
			continue
		}
		if err := d.Root.Remove(filepath.Join(filepath.Dir(name), entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remove temporary file: %w", err))
		}
	}
	return errors.Join(failed...)
}
