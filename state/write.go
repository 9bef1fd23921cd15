package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces the content of the file at path by data, or creates it.
// It is os.WriteFile with a promise: when it returns nil, data survives a power
// loss; when it does not, or when the process dies in it, the file has its old
// content or the new one, whole. (An error of the very last step, the
// directory's fsync, leaves the new content in place but perhaps not durable.)
//
// As with os.WriteFile, an existing file keeps its permission bits, a new one
// gets perm less the umask, and a symbolic link is followed. The file itself is
// a new one: owner, extended attributes and hard links are not kept. The
// directory must exist. What is not a regular file is refused.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	if err := writeFile(path, perm, writeBytes(data)); err != nil {
		return fmt.Errorf("write file %q: %w", path, err)
	}
	return nil
}

// WriteRootFile is WriteFile under root: neither name nor a symbolic link on
// the way can lead out of it.
func WriteRootFile(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	return StreamRootFile(root, name, perm, writeBytes(data))
}

// StreamRootFile is WriteRootFile for contents that are not held in memory:
// write is called once with the new file. If write fails, the old content stays
// and its error is returned, wrapped. The writer is not buffered.
func StreamRootFile(root *os.Root, name string, perm fs.FileMode, write func(io.Writer) error) error {
	if err := writeRootFile(root, name, perm, write); err != nil {
		return fmt.Errorf("write file %q: %w", name, err)
	}
	return nil
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func writeFile(path string, perm fs.FileMode, write func(io.Writer) error) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return replace(rootDir{parent}, filepath.Base(path), perm, write)
}

func writeRootFile(root *os.Root, name string, perm fs.FileMode, write func(io.Writer) error) error {
	name, err := followLinks(root, name)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(name)
	// The parent is opened once, so that the temporary file and the target are
	// in one directory even if somebody renames it meanwhile. Its name is not
	// cleaned: with links on the way, "a/.." need not be ".".
	if dir == "" {
		dir = "."
	}
	parent, err := root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer parent.Close()
	return replace(rootDir{parent}, base, perm, write)
}

// followLinks returns the name that name's chain of symbolic links ends in.
// Names are joined without cleaning: a ".." after a link is for root to resolve.
func followLinks(root *os.Root, name string) (string, error) {
	for range 40 {
		info, err := root.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // an absent or unreachable name is replace's to report
		}
		link, err := root.Readlink(name)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(link) {
			return "", fmt.Errorf("symbolic link to %q leads out of the directory", link)
		}
		dir, _ := filepath.Split(name)
		name = dir + link
	}
	return "", errors.New("too many symbolic links")
}
