package offload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/charset"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// ToolUpload is the tool in the metadata of a file that a user sent. The action is the name of
// the file.
const ToolUpload = "upload"

// Attach stores a file in the session of call, under the id of call; the tool and the action of
// call describe it. If the same file was stored before, Attach returns that artifact. The error
// of a store that is full is ErrQuota.
func (o *Offloader) Attach(ctx context.Context, call tools.Call, file *io.SectionReader) (Record, error) {
	return o.put(ctx, newRecord(inSession(call), ContextToolResult), call.IDToken(), file, summarize(ctx))
}

// put stores src under id, or under an id that derives from it.
func (o *Offloader) put(ctx context.Context, rec Record, id string, src *io.SectionReader, summarize func(*Record, Content) error) (Record, error) {
	return putFree(rec, id, func(rec Record) (Record, error) {
		return o.sweepIfFull(ctx, func() (Record, error) { return o.store.Put(ctx, rec, atStart(src), summarize) })
	}, atStart(src))
}

// putFree calls put with rec and a free id. If an artifact with other content has the id,
// because a model used it twice, putFree derives another id from the bytes of seed.
// A retry derives the same one, and nothing is ever overwritten.
func putFree(rec Record, id string, put func(Record) (Record, error), seed io.Reader) (Record, error) {
	rec.ID = id
	stored, err := put(rec)
	if !errors.Is(err, ErrExists) {
		return stored, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, seed); err != nil {
		return Record{}, err
	}
	sum := suffixEncoding.EncodeToString(h.Sum(nil))
	for _, n := range []int{8, 16, len(sum)} {
		rec.ID = tools.TokenOf(id + "_" + sum[:n])
		if stored, err = put(rec); !errors.Is(err, ErrExists) {
			return stored, err
		}
	}
	return Record{}, err
}

var suffixEncoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

func atStart(src *io.SectionReader) *io.SectionReader { return io.NewSectionReader(src, 0, src.Size()) }

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
		rec, err = putFree(rec, call.IDToken(), func(rec Record) (Record, error) {
			return o.store.Put(ctx, rec, atStart(src), summarize(ctx))
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

// lineStart returns the end of the last line that ends in the 64 KiB before at, or else the
// end of the last character.
func lineStart(text io.ReaderAt, at int64) (int64, error) {
	buf := make([]byte, min(at, minPart-1))
	if _, err := text.ReadAt(buf, at-int64(len(buf))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if last := bytes.LastIndexByte(buf, '\n'); last >= 0 {
		return at - int64(len(buf)-last-1), nil
	}
	return at - int64(charset.OpenRune(buf)), nil
}

const (
	// fullGrace is the grace of a sweep of a full store: longer than a Put takes
	// from its last byte to its record.
	fullGrace = 10 * time.Minute
	// fullInterval is the least time between two such sweeps.
	fullInterval = time.Minute
)

// sweeper sweeps a full store.
type sweeper struct {
	turn chan struct{} // holds a value while a Put may sweep
	next time.Time     // no sweep before this time; the turn guards it
}

// sweepIfFull calls put. If the store is full, it sweeps and calls put again:
// expired artifacts must not keep new ones out. It reports a store that is full, and that it has space again.
func (o *Offloader) sweepIfFull(ctx context.Context, put func() (Record, error)) (rec Record, err error) {
	defer func() {
		if err == nil || errors.Is(err, ErrQuota) {
			trouble.Report(ctx, trouble.StoreFull, "", err)
		}
	}()
	rec, err = put()
	if !errors.Is(err, ErrQuota) {
		return rec, err
	}
	report, sweepErr := o.sweeper.sweep(ctx, o.store)
	if sweepErr != nil {
		o.cfg.Log.Warn().Err(sweepErr).Msg("the artifact store is full and cannot be swept")
		return rec, err
	}
	if report != nil {
		o.cfg.Log.Info().Int("records", report.Records).Int("blobs", report.Blobs).Int64("bytes", report.Bytes).Msg("full artifact store swept")
	}
	return put()
}

// sweep sweeps the store. If another Put is sweeping or swept within fullInterval,
// it waits for that one and returns no report.
func (s *sweeper) sweep(ctx context.Context, store Store) (*SweepReport, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	if now.Before(s.next) {
		return nil, nil
	}
	s.next = now.Add(fullInterval)
	report, err := store.Sweep(ctx, fullGrace)
	return &report, err
}
