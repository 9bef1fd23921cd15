package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// diskInterval is the time between two checks of a full disk.
	diskInterval = 2 * time.Second
	// minFree is how many bytes must be free before the server restarts, and below which
	// CheckDisk warns: the server finds out only when a block of its files needs space.
	minFree = 8 << 20
)

// isDiskFullLog reports whether a line of the server's log says that the disk is full, or that
// JetStream uses as much of it as it may. Batches are staged in memory, and the client publishes one by one
// if that is full.
func isDiskFullLog(text string) bool {
	return !strings.Contains(text, "/"+batchesDir+"/") && (strings.Contains(text, "no space left on device") || strings.Contains(text,
		"not enough space on the disk") || strings.Contains(text, "JetStream file resource limits exceeded"))
}

// maxStore returns the space for streams, which is Config.MaxStore or its default, and what the server may store. The server's
// own default is three quarters of what is used and free together: a server whose disk others have filled would then refuse
// everything, also a deletion. If others have used a part of the disk since the streams got their sizes, these are more than
// the space, and a server that may store no more than the space refuses each change of a stream, also a smaller size.
func (c Config) maxStore() (space, limit int64) {
	free, ok := freeSpace(c.Dir)
	if !ok {
		return c.MaxStore, c.MaxStore
	}
	var used, reserved int64
	_ = filepath.WalkDir(filepath.Join(c.Dir, storeDir), func(path string, file fs.DirEntry, err error) error {
		if err == nil && !file.IsDir() {
			if info, err := file.Info(); err == nil {
				used += info.Size()
			}
		}
		var stream struct {
			MaxBytes int64 `json:"max_bytes"`
		}
		if file != nil && file.Name() == server.JetStreamMetaFile { // of a stream, or of a consumer without a size
			if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &stream) == nil {
				reserved += max(stream.MaxBytes, 0)
			}
		}
		return nil // what is not readable now is what the server reports
	})
	space = cmp.Or(c.MaxStore, used+int64(free)/4*3)
	return space, max(space, min(reserved+reserved/16, used+int64(free)/16*15)) // new streams need some
}

// restartWhenDiskHasSpace restarts the server after its disk was full: a stream
// whose write failed accepts nothing until the server loads it again. Every
// acknowledged message is on the disk, and clients reconnect automatically. A
// server that has reached its MaxStore gets a new one.
func (s *Server) restartWhenDiskHasSpace(ctx context.Context, full chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-full:
		}
		s.diskFull.Store(true)
		s.cfg.Log.Error().Str("dir", s.cfg.Dir).Msg("the disk is full; the server accepts nothing until space is free")
		for !s.hasSpace() || !s.restart(full) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(diskInterval):
			}
		}
		s.diskFull.Store(false)
		s.cfg.Log.Warn().Str("dir", s.cfg.Dir).Msg("the disk has space again; the server was restarted")
	}
}

// restart replaces the server, and reports whether the new one has started.
func (s *Server) restart(full chan struct{}) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop(s.ns)
	select {
	case <-full: // the stopped server sent it
	default:
	}
	ns, err := s.start(full)
	if err != nil {
		s.cfg.Log.Error().Err(err).Msg("the server does not restart; trying again")
		return false
	}
	s.ns = ns
	return true
}

// storeDir is where the server keeps its streams, in Config.Dir.
const storeDir = "jetstream"

// CheckDir returns an error if somebody has removed or replaced the directory of the server, whose files
// are open and gone.
func (s *Server) CheckDir() error {
	now, err := os.Stat(filepath.Join(s.cfg.Dir, storeDir))
	if err == nil && os.SameFile(s.store, now) {
		return nil
	}
	return fmt.Errorf("the directory %q of the server was removed or replaced while it runs", s.cfg.Dir)
}

// CheckDisk returns an error while the server accepts nothing because its disk is full, and
// before that if fewer than 8 MiB are free.
func (s *Server) CheckDisk() error {
	if s.diskFull.Load() {
		return fmt.Errorf("the disk of the directory %q is full: the server accepts nothing until space is free", s.cfg.Dir)
	}
	if free, ok := freeSpace(s.cfg.Dir); ok && free < minFree {
		return fmt.Errorf("the disk of the directory %q is full (%s are free): the server will accept nothing when they are used",
			s.cfg.Dir, bus.FormatBytes(int64(free)))
	}
	return nil
}

// hasSpace reports whether a file of minFree bytes can be written.
func (s *Server) hasSpace() bool {
	name := filepath.Join(s.cfg.Dir, ".space")
	defer os.Remove(name)
	f, err := os.Create(name)
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, minFree))
	syncErr := f.Sync()
	return f.Close() == nil && syncErr == nil && err == nil
}
