// Package disk is an artifact store in a directory, which several processes may share:
//
//	<session>/<id>.md              the content, for people and other programs
//	<session>/.<id>.artifact.json  the record, with the index of the content
//	.blobs/<sha256>                the content by its digest, to find equal contents
//	.tmp, .locks                   files that are being written, and locks
//	stevedore.format               the version of this format
//
// A content file is read-only. It is a hard link to the blob, or a copy if the file system
// has no links. Only the files of a session matter: the store reads the content from there,
// so a copy of the directory by any program is complete, and a lost blob costs nothing but
// the space of a second copy. The store does not touch files without a record.
//
// Put waits for the disk twice: for the bytes of the content and of the record, at the same
// time, and then for their names in the directory of the session. A sweep removes expired
// records, and blobs that no record names.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// tree is the store in a directory that is open.
type tree struct {
	life            record.Lifecycle
	dir             *dir
	caseInsensitive bool
	links           bool // use hard links if possible; tests turn it off
}

// contentMode is the mode of contents.
const contentMode = 0o400

func openTree(path string, cfg offload.StoreConfig) (*tree, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, fmt.Errorf("open artifact directory %q: %w", path, err)
	}
	s := &tree{life: record.NewLifecycle(cfg), dir: d, links: true}
	if s.caseInsensitive, err = d.caseInsensitive(); err != nil {
		return nil, errors.Join(fmt.Errorf("open artifact directory %q: %w", path, err), d.Root.Close())
	}
	return s, nil
}

func (s *tree) put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	if err := record.CheckKey(rec.Session, rec.ID); err != nil {
		return rec, err
	}
	f, err := s.dir.CreateTemp(tempName(), contentMode)
	if err != nil {
		return rec, err
	}
	defer f.Discard() // removes nothing if f was renamed to the blob
	in, err := s.writeContent(ctx, f.File, src)
	if err != nil {
		return rec, err
	}
	s.life.Complete(&rec, in.Index, in.Digest)
	if summarize != nil {
		if err := summarize(&rec, record.NewContent(f.File, in.Index)); err != nil {
			return rec, fmt.Errorf("summarize: %w", err)
		}
	}
	e := record.Entry{Record: rec}
	if e.Index, err = in.Index.MarshalBinary(); err != nil {
		return rec, err
	}
	var syncErr error
	var syncing sync.WaitGroup
	syncing.Go(func() { syncErr = f.Sync() })
	recordFile, err := s.dir.writeTemp(0o600, encodeTo(e))
	syncing.Wait()
	if err == nil {
		defer recordFile.Discard() // removes nothing if it was renamed
	}
	if err := errors.Join(err, syncErr); err != nil {
		return rec, err
	}
	if err := s.addBlob(ctx, f, in); err != nil {
		return rec, err
	}
	return s.addRecord(ctx, e, recordFile)
}

// writeContent writes the source to a temporary file. When it returns, the disk is
// already writing the bytes.
func (s *tree) writeContent(ctx context.Context, f *os.File, src io.Reader) (*record.Ingested, error) {
	var size int64
	in, err := record.Ingest(ctx, src, func(block []byte) error {
		size += int64(len(block))
		// The content may be stored already, which is known only after its last byte.
		// Only a content larger than the quota cannot be stored.
		if s.life.Quota > 0 && size > s.life.Quota {
			return s.checkQuota(size)
		}
		n, err := f.Write(block)
		startWriteback(f, size-int64(len(block)), int64(n))
		return err
	})
	if err != nil {
		return nil, err
	}
	in.Release()
	return in, nil
}

// addBlob renames the temporary file to the blob, or marks the existing blob as young
// again.
func (s *tree) addBlob(ctx context.Context, f *durable.Temp, in *record.Ingested) error {
	unlock, err := s.dir.lock(ctx, in.Digest)
	if err != nil {
		return err
	}
	defer unlock()
	blob, now := blobDir+"/"+in.Digest, s.life.Now()
	switch intact, err := s.isIntact(blob, in.Index); {
	case err != nil:
		return err
	case intact:
		return s.dir.Root.Chtimes(blob, now, now)
	}
	if s.life.Quota > 0 { // no other Put may add a blob between the check and the rename
		unlock, err := s.dir.lockFile(ctx, "quota")
		if err != nil {
			return err
		}
		defer unlock()
	}
	if err := s.checkQuota(in.Index.Size()); err != nil {
		return err
	}
	if err := f.Rename(blob); err != nil {
		return err
	}
	return s.dir.Root.Chtimes(blob, now, now)
}

// isIntact reports whether a file exists and has the content that x describes. A Put
// replaces a damaged blob.
func (s *tree) isIntact(name string, x *index.Index) (bool, error) {
	f, info, err := s.dir.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info.Size() != x.Size() {
		return false, nil
	}
	buf := make([]byte, index.BlockSize)
	for i := range x.Blocks() {
		n, err := f.ReadAt(buf[:x.BlockLen(i)], int64(i)*index.BlockSize)
		if err != nil || x.Check(i, buf[:n]) != nil {
			return false, nil
		}
	}
	return true, nil
}

// checkQuota returns ErrQuota if more bytes exceed the quota.
func (s *tree) checkQuota(more int64) error {
	if s.life.Quota <= 0 {
		return nil
	}
	var used int64
	entries, err := s.dir.list(blobDir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used += info.Size()
		}
	}
	return errors.Join(err, s.life.CheckQuota(used, more))
}
