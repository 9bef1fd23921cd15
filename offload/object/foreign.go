package object

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
)

// readAhead is how many chunks a sequential read requests at a time: 2 MiB.
const readAhead = 16

// messages iterates over the chunks of an object, from a sequence of the stream on.
func (s *Store) messages(ctx context.Context, object string, from uint64) iter.Seq2[jsapi.Message, error] {
	return s.api.AllMessages(ctx, s.stream(), jsapi.Get{Sequence: from, NextBySubject: s.chunkSubject(object), Batch: readAhead})
}

// copyForeign copies any object, including those of stock clients, whose chunks have any
// size. It returns ErrCorrupt if the bytes do not match the digest of the object.
func (s *Store) copyForeign(ctx context.Context, w io.Writer, info *jetstream.ObjectInfo) error {
	sha, size := sha256.New(), uint64(0)
	for m, err := range s.messages(ctx, info.NUID, 1) {
		if err == nil && size < info.Size {
			s.reads.Add(1)
			size += uint64(len(m.Data))
			sha.Write(m.Data)
			_, err = w.Write(m.Data)
		}
		if err != nil {
			return fmt.Errorf("read object %q: %w", info.Name, err)
		}
		if size >= info.Size {
			break
		}
	}
	digest := "SHA-256=" + base64.URLEncoding.EncodeToString(sha.Sum(nil))
	if size != info.Size || digest != info.Digest {
		return fmt.Errorf("read object %q: it has %d bytes and the digest %s, not %d and %s: %w", info.Name, size, digest, info.Size, info.Digest, offload.ErrCorrupt)
	}
	return nil
}
