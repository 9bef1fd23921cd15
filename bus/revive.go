package bus

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// roomInterval is how often a full disk is looked at.
	roomInterval = 2 * time.Second
	// enoughRoom, in bytes, is what must fit before the server starts anew.
	enoughRoom = 8 << 20
)

// saysFull reports whether the server's log tells of a disk without room.
func saysFull(text string) bool {
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "not enough space on the disk")
}

// revive starts the server anew when its disk was full and has room again: once
// a write failed, a stream takes nothing more until it is loaded again. What was
// acknowledged is on the disk, and the clients come back by themselves.
func (s *Server) revive(full chan struct{}) {
	defer close(s.revived)
	for {
		select {
		case <-s.closing.Done():
			return
		case <-full:
		}
		s.cfg.Log.Error().Str("dir", s.cfg.Dir).Msg("the disk is full; nothing is accepted until there is room")
		for !s.hasRoom() {
			select {
			case <-s.closing.Done():
				return
			case <-time.After(roomInterval):
			}
		}
		s.mu.Lock()
		stop(s.ns)
		select {
		case <-full: // told by the one that is stopped
		default:
		}
		ns, err := s.start(full)
		if err == nil {
			s.ns = ns
		}
		s.mu.Unlock()
		if err != nil {
			s.cfg.Log.Error().Err(err).Msg("the server does not start anew")
			select {
			case full <- struct{}{}: // again, after a look at the disk
			default:
			}
			continue
		}
		s.cfg.Log.Warn().Str("dir", s.cfg.Dir).Msg("the disk has room again; the server was started anew")
	}
}

// hasRoom tries whether the disk takes bytes.
func (s *Server) hasRoom() bool {
	name := filepath.Join(s.cfg.Dir, ".room")
	defer os.Remove(name)
	f, err := os.Create(name)
	if err != nil {
		return false
	}
	_, err = f.Write(make([]byte, enoughRoom))
	syncErr := f.Sync()
	return f.Close() == nil && syncErr == nil && err == nil
}
