package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
)

// Store is an offload.Store in the directory at a path. Somebody may move or remove the directory, or
// put another one into its place, such as a volume that is mounted again: each operation uses the one
// that is there now, and fails if there is none.
type Store struct {
	path string
	cfg  offload.StoreConfig

	mu       sync.Mutex
	first    os.FileInfo // of the directory that Open found
	now      *tree
	replaced error
	closed   bool
}

// Open opens the store in the directory at path, which it creates if necessary.
func Open(path string, cfg offload.StoreConfig) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	t, err := openTree(path, cfg)
	if err != nil {
		return nil, err
	}
	first, err := t.dir.Root.Stat(".")
	return &Store{path: path, cfg: cfg, now: t, first: first}, err
}

// Replaced returns an error while another directory than that of Open is at the path, or the same one after
// it was emptied.
func (s *Store) Replaced() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced
}

// tree returns the store in the directory that is at the path. The garbage collector closes the one
// before, because other goroutines may still use it.
func (s *Store) tree() (*tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.now, nil // its operations fail
	}
	there, err := os.Stat(s.path)
	if err != nil {
		return nil, fmt.Errorf("the directory of the artifact store was moved or removed: %w", err)
	}
	if opened, err := s.now.dir.Root.Stat("."); err == nil && os.SameFile(opened, there) && s.now.dir.isComplete() {
		return s.now, nil
	}
	_, emptied := os.Stat(filepath.Join(s.path, blobDir))
	t, err := openTree(s.path, s.cfg)
	if err != nil {
		return nil, err
	}
	if s.now, s.replaced = t, nil; emptied != nil || !os.SameFile(s.first, there) {
		s.replaced = fmt.Errorf("another directory is at %s; the artifacts of the one before are not in it", s.path)
		s.cfg.Log.Warn().Err(s.replaced).Msg("the directory of the artifact store was replaced")
	}
	return t, nil
}

// Close closes the directory. Open contents stay readable.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.now.dir.Root.Close()
}

// Put implements offload.Store.
func (s *Store) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	t, err := s.tree()
	if err != nil {
		return offload.Record{}, err
	}
	out, err := t.put(ctx, rec, src, summarize)
	if err != nil && isDiskFull(err) {
		err = fmt.Errorf("%w: its disk has no space left: %w", offload.ErrQuota, err)
	}
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: %w", rec.ID, err)
	}
	return out, nil
}

// Get implements offload.Store.
func (s *Store) Get(ctx context.Context, session, id string) (offload.Record, error) {
	t, err := s.tree()
	if err != nil {
		return offload.Record{}, err
	}
	e, err := t.lookup(session, id)
	if refreshed := e; err == nil && t.life.Refresh(&refreshed) {
		e, err = t.refresh(ctx, e)
	}
	if err != nil {
		return offload.Record{}, fmt.Errorf("get artifact %q: %w", id, err)
	}
	return e.Record, nil
}

// Open implements offload.Store.
func (s *Store) Open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	t, err := s.tree()
	if err != nil {
		return nil, err
	}
	c, err := t.open(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return c, nil
}

// List implements offload.Store.
func (s *Store) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	t, err := s.tree()
	if err != nil {
		return func(yield func(offload.Record, error) bool) { yield(offload.Record{}, err) }
	}
	return t.life.List(t.entries(ctx, session))
}

// Delete implements offload.Store.
func (s *Store) Delete(ctx context.Context, session, id string) error {
	t, err := s.tree()
	if err != nil {
		return err
	}
	if err := t.delete(ctx, session, id); err != nil {
		return fmt.Errorf("delete artifact %q: %w", id, err)
	}
	return nil
}

// Sweep implements offload.Store. It lists blobs before records, so it removes the blob of
// a running Put only if the blob is older than grace. If the Put has linked the blob
// before, the session has the content; otherwise the link fails, and so does the Put.
func (s *Store) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	var report offload.SweepReport
	t, err := s.tree()
	if err != nil {
		return report, err
	}
	if err := errors.Join(t.sweepTemp(grace, &report), t.sweepBlobs(ctx, grace, &report)); err != nil {
		return report, fmt.Errorf("sweep artifacts: %w", err)
	}
	return report, nil
}
