package state

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// directory is one directory as far as replacing a file in it needs it. It is
// an interface so that tests can record the operations, enumerate what a crash
// between any two of them leaves, and make each of them fail.
type directory interface {
	Lstat(name string) (fs.FileInfo, error)
	// Create makes a new file and fails with fs.ErrExist if there is one.
	Create(name string, perm fs.FileMode) (file, error)
	Rename(from, to string) error
	Remove(name string) error
	// Sync makes creations, renames and removals durable.
	Sync() error
}

type file interface {
	io.Writer
	Chmod(fs.FileMode) error
	// Sync makes the file's content durable, not its name.
	Sync() error
	Close() error
}

// replace writes name in dir anew. Expected system calls on Linux:
//
//	newfstatat(5, "state.json", AT_SYMLINK_NOFOLLOW)
//	openat(5, ".state.json.K3...Q.stevedore-tmp", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW, 0600) = 6
//	fchmod(6, 0600)                      only if there was a file before
//	write(6, ...)
//	fsync(6)                             else the rename may be durable before the bytes
//	close(6)
//	newfstatat(5, "state.json", ...)         os.Root looks whether it is a link
//	renameat(5, ".state.json.K3...Q.stevedore-tmp", 5, "state.json")
//	openat(5, ".", O_RDONLY|O_DIRECTORY) = 6
//	fsync(6)                             else the rename may be undone by a power loss
//	close(6)
func replace(dir directory, name string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	if name == "" || name == "." || name == ".." {
		return errors.New("the name is a directory's")
	}
	old, err := dir.Lstat(name)
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

	temp := tempName(name)
	f, err := dir.Create(temp, perm)
	if err != nil {
		return err
	}
	// Also when write panics: a temporary file must not outlive its save.
	renamed := false
	defer func() {
		if renamed {
			return
		}
		f.Close() // a second Close is harmless, its error is not news
		if removeErr := dir.Remove(temp); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	if old != nil { // the umask is for new files
		if err := f.Chmod(perm); err != nil {
			return err
		}
	}
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := dir.Rename(temp, name); err != nil {
		return err
	}
	renamed = true
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("written, but a power loss may undo it: %w", err)
	}
	return nil
}

const tempSuffix = ".stevedore-tmp"

// tempName is hidden, names the file it is for, and stays within the 255 bytes
// that file systems allow.
func tempName(name string) string { return tempPrefix(name) + rand.Text() + tempSuffix }

func tempPrefix(name string) string {
	return "." + strings.ToValidUTF8(name[:min(len(name), 200)], "") + "."
}

// IsTemp reports whether name, without a directory, is that of a temporary file
// of WriteFile and its forms.
func IsTemp(name string) bool {
	return strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix)
}

// removeTemps removes the temporary files with a prefix that crashed saves left
// directly in root: those not written to for at least age, which must be longer
// than a living save may pause. It returns how many went.
func removeTemps(root *os.Root, prefix string, age time.Duration) (int, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("remove temporary files: %w", err)
	}
	removed := 0
	var failed []error
	for _, entry := range entries {
		if !IsTemp(entry.Name()) || !strings.HasPrefix(entry.Name(), prefix) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < age {
			continue
		}
		switch err := root.Remove(entry.Name()); {
		case err == nil:
			removed++
		case !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return removed, fmt.Errorf("remove temporary files: %w", err)
	}
	return removed, nil
}

// rootDir is a directory of the real file system.
type rootDir struct{ *os.Root }

func (d rootDir) Create(name string, perm fs.FileMode) (file, error) {
	return d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

func (d rootDir) Sync() error { return syncDir(d.Root) }
