package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lockName is the file in a data directory whose lock is that of the directory.
const lockName = "stevedore.lock"

// Holder is the process that holds the lock of a data directory.
type Holder struct {
	PID int `json:"pid"`
	// Since is when the process took the lock.
	Since time.Time `json:"since"`
	// Command is the program and its subcommand, without flags and arguments,
	// which may contain secrets.
	Command string `json:"command"`
	Host    string `json:"host,omitempty"`
}

// LockedError is returned by LockDir if another process holds the lock.
type LockedError struct {
	Dir    string
	Holder Holder // zero if the process has not yet written who it is
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder.PID != 0 {
		who = fmt.Sprintf("%q (pid %d, since %s)", e.Holder.Command, e.Holder.PID, e.Holder.Since.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("lock data directory %q: %s uses it; stop that process, or choose another directory", e.Dir, who)
}

// DirLock is the lock of a data directory.
type DirLock struct{ file *os.File }

// LockDir locks dir for this process until Unlock or the end of the process. It
// creates a missing dir, and waits for some time for the end of another process. A
// *LockedError names the process that holds the lock. The lock excludes other callers of
// LockDir only.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock data directory %q: %w", dir, explainReadOnly(err, dir))
	}
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory %q: %w", dir, explainReadOnly(err, name))
	}
	limited, cancel := context.WithTimeout(context.Background(), dirLockTimeout)
	defer cancel()
	err = Lock(limited, f)
	if errors.Is(err, context.DeadlineExceeded) {
		err = &LockedError{Dir: dir, Holder: readHolder(f)}
		f.Close()
		return nil, err
	}
	if err == nil {
		err = writeHolder(f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock data directory %q: %w", dir, err)
	}
	return &DirLock{f}, nil
}

// dirLockTimeout is how long LockDir waits: a process that was killed may hold the lock until the
// system has ended it, and DirLocked holds it for a moment.
const dirLockTimeout = 2 * time.Second

// DirLocked reports whether a process holds the lock of dir. If none does, the
// files that such a process left in dir are out of date.
func DirLocked(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("test lock of data directory %q: %w", dir, err)
	}
	free, err := tryShared(f) // others may look at the same time
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("test lock of data directory %q: %w", dir, err)
	}
	return !free, nil
}

// Unlock releases the lock. The lock file stays: if it were removed, two
// processes could lock two files of the same name.
func (l *DirLock) Unlock() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// TempDir makes a directory below parent, whose name begins with prefix, and locks it.
func TempDir(parent, prefix string) (dir string, lock *DirLock, err error) {
	if dir, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	if lock, err = LockDir(dir); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// RemoveLeft calls remove for the directories below parent that ended processes have locked, and
// whose names begin with prefix. One of the last minute stays, because its process may not have
// locked it yet.
func RemoveLeft(parent, prefix string, remove func(dir string) error) {
	entries, _ := os.ReadDir(parent) // a parent that does not exist has none
	for _, entry := range entries {
		left := filepath.Join(parent, entry.Name())
		info, err := entry.Info()
		if err != nil || !info.IsDir() || !strings.HasPrefix(entry.Name(), prefix) || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if locked, err := DirLocked(left); err == nil && !locked {
			_ = remove(left) // of another user, it fails
		}
	}
}

func writeHolder(f *os.File) error {
	host, _ := os.Hostname() // only for people
	data, err := json.Marshal(Holder{os.Getpid(), time.Now().UTC().Truncate(time.Second), command(os.Args), host})
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

func readHolder(r io.Reader) Holder {
	var h Holder
	data, err := io.ReadAll(io.LimitReader(r, 64<<10))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

func command(args []string) string {
	if len(args) == 0 {
		return ""
	}
	name := filepath.Base(args[0])
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		name += " " + args[1]
	}
	return name
}
