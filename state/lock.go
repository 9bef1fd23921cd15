package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// lockName is the file in a data directory that its owner holds a lock on.
const lockName = "stevedore.lock"

// Holder is a process that holds a data directory.
type Holder struct {
	PID int `json:"pid"`
	// Since is when it took the directory.
	Since time.Time `json:"since"`
	// Command is the program and its subcommand, without flags and arguments:
	// they may hold secrets.
	Command string `json:"command"`
	Host    string `json:"host,omitempty"`
}

// LockedError is returned by Lock for a directory that another process holds.
type LockedError struct {
	Dir    string
	Holder Holder // zero if it has not written who it is
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder.PID != 0 {
		who = fmt.Sprintf("%q (pid %d, since %s)", e.Holder.Command, e.Holder.PID, e.Holder.Since.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("lock data directory %q: %s uses it; stop that one, or choose another directory", e.Dir, who)
}

// DirLock is a data directory held by this process.
type DirLock struct{ file *os.File }

// Lock claims dir, which is created if missing, for this process until Unlock
// or its end, however it ends. A *LockedError names the process that has it.
// The lock excludes other processes that call Lock, nobody else.
func Lock(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock data directory %q: %w", dir, explainReadOnly(err, dir))
	}
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory %q: %w", dir, explainReadOnly(err, name))
	}
	ok, err := tryLock(f)
	for range 3 {
		if ok || err != nil {
			break
		}
		time.Sleep(lookTime) // it may have been no more than a look, by Held
		ok, err = tryLock(f)
	}
	if err == nil && !ok {
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

// lookTime is far longer than Held has the lock.
const lookTime = 5 * time.Millisecond

// Held reports whether a process holds dir, as Lock does it. What such a process
// left in dir is worth nothing once it is gone, however it ended.
func Held(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look who holds data directory %q: %w", dir, err)
	}
	free, err := tryLock(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("look who holds data directory %q: %w", dir, err)
	}
	return !free, nil
}

// Unlock gives the directory back. The lock file stays: removing it would let
// two processes lock two files of the same name.
func (l *DirLock) Unlock() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

func writeHolder(f *os.File) error {
	host, _ := os.Hostname() // only to tell people
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

// explainReadOnly adds what to do to the error of a directory that this process
// may not write to.
func explainReadOnly(err error, path string) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: no right to write in %q; change its owner or mode, or choose another directory", err, filepath.Dir(path))
	}
	return err
}
