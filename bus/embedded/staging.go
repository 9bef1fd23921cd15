package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// staging is a directory in memory, in which the server stages atomic batches.
//
// The server writes each batch to a directory of its own, syncs it, writes the messages to
// the stream, syncs that once, acknowledges, and removes the directory. If it was killed
// while it wrote to the stream, it completes the batch at its next start. On a disk, the
// directory takes three quarters of the time of a batch. In memory it takes almost none, and
// it survives a kill too. After a power failure, a batch that was not acknowledged may be
// stored in part. Clients of the bus allow for that: each of their publishes stands alone.
//
// The server has no setting for this directory, so it is replaced by a symbolic link.
// Without the link, the server makes a directory on the disk.
type staging struct {
	dir  string           // empty: batches are staged on the disk
	lock *durable.DirLock // of dir: other processes remove directories without a lock

	linking sync.Mutex
}

// minBatch is the smallest batch that is faster than single publishes. A batch that is staged
// on a disk takes as long as about 20 messages, one in memory as a few.
func (s *staging) minBatch() int {
	if s.dir == "" {
		return 24
	}
	return 4
}

const (
	stagingPrefix = "stevedore-batches-"
	batchesDir    = "batches" // the server's name, in the directory of each stream
)

// memoryPath is the directory in memory of Linux; all users share it.
const memoryPath = "/dev/shm"

// inMemory reports whether a directory is in memory. Other systems than Linux have no such
// list of mounts.
func inMemory(dir string) bool {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	return strings.Contains(string(mounts), " "+dir+" tmpfs ")
}

// newStaging makes the directory. Its name is empty if the machine has no memory for it.
func newStaging() *staging {
	if !inMemory(memoryPath) {
		return &staging{}
	}
	dir, lock, _ := durable.TempDir(memoryPath, stagingPrefix) // otherwise batches are staged on the disk
	return &staging{dir: dir, lock: lock}
}

// removeOld removes the directories in memory of processes that were killed. The server has
// completed the batches of its own files before. For a server on other files, which was killed and
// not started again, this is like a power failure.
func removeOld(memory string) { durable.RemoveLeft(memory, stagingPrefix, os.RemoveAll) }

// link replaces the directory of batches of each stream. The server removes the links when
// it starts.
func (s *staging) link(data string) error {
	if s.dir == "" {
		return nil
	}
	s.linking.Lock()
	defer s.linking.Unlock()
	var errs error
	for _, stream := range streamDirs(data) {
		link, target := filepath.Join(stream, batchesDir), filepath.Join(s.dir, filepath.Base(stream))
		if current, err := os.Readlink(link); err == nil && current == target {
			continue
		}
		err := os.MkdirAll(target, 0o700)
		if err == nil {
			// A batch that is staged there is rejected, and each of its publishes repeated.
			if err = os.Rename(link, link+"-old"); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		}
		if err == nil {
			err = os.Symlink(target, link)
		}
		errs = errors.Join(errs, err, os.RemoveAll(link+"-old"))
	}
	return errs
}

// streamDirs returns the directories of the streams. A stream without a link is only slower.
func streamDirs(data string) (dirs []string) {
	found, _ := fs.Glob(os.DirFS(data), "jetstream/*/streams/[^.]*") // the pattern is valid
	for _, dir := range found {
		dirs = append(dirs, filepath.Join(data, dir))
	}
	return dirs
}

// close removes the directory and the links to it after the server has stopped.
func (s *staging) close(data string) {
	if s.dir == "" {
		return
	}
	for _, stream := range streamDirs(data) {
		link := filepath.Join(stream, batchesDir)
		if target, err := os.Readlink(link); err == nil && filepath.Dir(target) == s.dir {
			_ = os.Remove(link) // the next start removes it otherwise
		}
	}
	_ = errors.Join(os.RemoveAll(s.dir), s.lock.Unlock()) // another process removes it otherwise
}

// watchStreams links the directories of streams that clients create. It returns a function
// that ends this.
func (s *Server) watchStreams() (stop func(), err error) {
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo(user, s.password), nats.Name("embedded server"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	_, err = nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.CREATED.>", func(*nats.Msg) { s.linkBatches() })
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	s.linkBatches() // of the streams that were created before the subscription
	return nc.Close, nil
}

func (s *Server) linkBatches() {
	if err := s.staging.link(s.cfg.Dir); err != nil {
		s.cfg.Log.Warn().Err(err).Msg("cannot stage batches in memory; they take longer")
	}
}
