package hosts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// recordVersion is the version of the format of a record.
const recordVersion = 1

// record is stored, with mode 0600, before a configuration file is changed. It has the
// content that the file would have without Stevedore, which may contain secrets.
type record struct {
	Version int       `json:"version"`
	Host    string    `json:"host"`
	Path    string    `json:"path"`
	Time    time.Time `json:"time"`
	// Written are the SHA-256 digests of the contents that belong to Original: the one
	// before the last change, in case the process died, and the one after it.
	Written  []string       `json:"written"`
	Original []byte         `json:"original"`
	Servers  []recordServer `json:"servers"`
}

// recordServer is a server that was wrapped.
type recordServer struct {
	Path   string   `json:"path"`   // the keys that lead to it, see pathKey
	Prefix []string `json:"prefix"` // what was put before its command
}

// prefix returns the prefix of ours that the command of a server has, or nil.
func (r *record) prefix(path string, command []string) []string {
	if r == nil {
		return nil
	}
	for _, s := range r.Servers {
		if s.Path == path && len(s.Prefix) > 0 && hasPrefix(command, s.Prefix) {
			return s.Prefix
		}
	}
	return nil
}

// wrote tells that nobody changed the file since.
func (r *record) wrote(data []byte) bool { return r != nil && slices.Contains(r.Written, digest(data)) }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// records is the directory of the records.
type records string

// lock takes the lock of the records.
func (r records) lock(ctx context.Context) (unlock func(), err error) {
	if unlock, err = durable.LockIn(ctx, string(r)); err != nil {
		return nil, fmt.Errorf("lock the directory for backups: %w", err)
	}
	return unlock, nil
}

func (r records) path(file string) string {
	return filepath.Join(string(r), digest([]byte(file))[:32]+".json")
}

// load returns the record of a file, or nil if there is none.
func (r records) load(file string) (*record, error) {
	data, err := os.ReadFile(r.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read its backup: %w", err)
	}
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, fmt.Errorf("its backup %q is damaged: %w", r.path(file), err)
	}
	if rec.Version != recordVersion {
		return nil, fmt.Errorf("its backup %q has version %d; this program reads version %d", r.path(file), rec.Version, recordVersion)
	}
	return &rec, nil
}

func (r records) store(rec record) error {
	rec.Version = recordVersion
	data, _ := json.Marshal(rec) // texts and a time do not fail
	if err := durable.WriteFile(r.path(rec.Path), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store its backup: %w", err)
	}
	return nil
}

func (r records) remove(file string) error {
	if err := os.Remove(r.path(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove its backup: %w", err)
	}
	return nil
}
