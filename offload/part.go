package offload

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stevedore-bus/stevedore/tools"
)

// minPart is the size in bytes of the smallest part of a result that is stored if the
// store is full. As much fits into the result itself.
const minPart = 64 << 10

// storedPart is the key of the metadata that says which part of a result was stored.
const storedPart = "stored"

// putPart stores the beginning of a result that does not fit into the store: a half of it,
// or a quarter, and so on. full is the error of the store, which putPart returns if not
// even minPart fits.
func (o *Offloader) putPart(ctx context.Context, call tools.Call, b body, full error) (Record, error) {
	size := b.plain.Size()
	for part := size / 2; part >= minPart; part /= 2 {
		part, err := lineStart(b.plain, part)
		if err != nil {
			return Record{}, err
		}
		rec := newRecord(call, ContextToolResult)
		rec.Truncated = true
		rec.Metadata[storedPart] = fmt.Sprintf("the first %d of %d bytes, because the artifact store is full", part, size)
		src := io.NewSectionReader(b.plain, 0, part)
		rec, err = putFree(call.IDToken(), func(id string) (Record, error) {
			rec := rec
			rec.ID = id
			return o.store.Put(ctx, rec, atStart(src), summarize(nil))
		}, atStart(src))
		if err == nil {
			o.cfg.Log.Warn().Err(full).Str("artifact_id", rec.ID).Str("session", rec.Session).Int64("bytes", size).Int64("stored", part).
				Msg("the artifact store is full; only the beginning of the result was stored")
		}
		if !errors.Is(err, ErrQuota) {
			return rec, err
		}
	}
	return Record{}, full
}

// lineStart returns the end of the last line that ends in the 64 KiB before at, or else a
// place before at where a character begins.
func lineStart(text io.ReaderAt, at int64) (int64, error) {
	buf := make([]byte, min(at, minPart-1))
	if _, err := text.ReadAt(buf, at-int64(len(buf))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	for i := len(buf) - 1; i >= 0; i-- {
		if buf[i] == '\n' {
			return at - int64(len(buf)) + int64(i) + 1, nil
		}
	}
	for i := len(buf) - 1; i >= 0 && i >= len(buf)-4; i-- {
		if buf[i]&0xC0 != 0x80 { // the first byte of a character
			return at - int64(len(buf)) + int64(i), nil
		}
	}
	return at, nil
}
