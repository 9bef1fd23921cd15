package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// openFunc is os.OpenFile or the method of an os.Root.
type openFunc = func(name string, flag int, perm fs.FileMode) (*os.File, error)

// Lock waits for the lock of f until ctx ends. See TryLock.
//
// It polls instead of waiting in the kernel, so that a stopped process that holds
// the lock leads to an error and not to a hang.
func Lock(ctx context.Context, f *os.File) error {
	for wait := 200 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		ok, err := TryLock(f)
		if ok {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %q, which another process holds; check whether that process hangs: %w", f.Name(), ctx.Err())
		case <-time.After(wait):
		}
	}
}

// LockFile opens the file at path, which it creates if necessary, and waits for
// its lock until ctx ends. unlock closes the file, which releases the lock. If the holder of
// the lock removes the file, a process that waits for it creates and locks a new file.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, explainReadOnly(err, path)
		}
		err = Lock(ctx, f)
		if err == nil && isAt(f, path) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// lockInTime bounds the wait of LockIn for another process.
const lockInTime = 10 * time.Second

// LockIn makes the directory if necessary, and waits like LockFile, but at most ten seconds, for the lock of a file "lock" in
// it. unlock removes what only the lock needed. (Windows keeps the file, because it is open.)
func LockIn(ctx context.Context, dir string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockInTime)
	defer cancel()
	name := filepath.Join(dir, "lock")
	for {
		var release func()
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			release, err = LockFile(ctx, name)
		}
		removed := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) // just now, by another process
		switch {
		case err == nil:
			return func() {
				_ = os.Remove(name)
				_ = os.Remove(dir) // unless it has other files
				release()
			}, nil
		case !removed || ctx.Err() != nil:
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

// isAt reports whether path leads to an open file.
func isAt(f *os.File, path string) bool {
	have, err := f.Stat()
	now, nowErr := os.Stat(path)
	return err == nil && nowErr == nil && os.SameFile(have, now)
}

// explainReadOnly adds advice to the error of a process that may not write to the
// directory of path.
func explainReadOnly(err error, path string) error {
	if advice := WriteAdvice(err); advice != "" {
		return fmt.Errorf("%w: %s", err, advice)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: no right to write in %q; change its owner or mode, or choose another directory", err, filepath.Dir(path))
	}
	return err
}

// WriteAdvice says what to do about an error of a file that nobody may write, whatever its owner and mode are, or nothing.
func WriteAdvice(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(path, syscall.EROFS) {
		return "the file system is read-only; mount it for writing, or choose another directory"
	} else if ok && errors.Is(path, syscall.EPERM) {
		return "the file or its directory may be immutable (lsattr shows i or a); remove that with chattr -ia, or choose another directory"
	}
	return ""
}
