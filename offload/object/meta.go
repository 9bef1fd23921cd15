package object

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Keys of the metadata that the store adds to an object. The values are base64.
const (
	metaIndex  = "stevedore-index"
	metaChunks = "stevedore-chunks"
)

// blob is an object as its meta message describes it.
type blob struct {
	jetstream.ObjectInfo
	index *index.Index // nil if a stock client put the object
	// seqs are the stream sequences of the chunks, nil for a small object.
	seqs []uint64
	// indexDigest is the SHA-256 of the encoded index.
	indexDigest string
	seq         uint64 // of the meta message
	data        []byte // of the meta message
}

func (s *Store) chunkSubject(nuid string) string { return "$O." + s.bucket + ".C." + nuid }

func (s *Store) metaSubject(name string) string {
	return "$O." + s.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// encodeBlob encodes the meta message, which stock clients can read.
func (s *Store) encodeBlob(in *record.Ingested, nuid string, seqs []uint64) ([]byte, error) {
	x, err := in.Index.MarshalBinary()
	if err != nil {
		return nil, err
	}
	sum, err := hex.DecodeString(in.Digest)
	if err != nil {
		return nil, err
	}
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{
			Name:     in.Digest,
			Metadata: map[string]string{metaIndex: base64.StdEncoding.EncodeToString(x)},
			Opts:     &jetstream.ObjectMetaOptions{ChunkSize: index.BlockSize},
		},
		Bucket: s.bucket, NUID: nuid, Size: uint64(in.Index.Size()), Chunks: uint32(in.Index.Blocks()),
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum),
	}
	if seqs != nil {
		info.Metadata[metaChunks] = base64.StdEncoding.EncodeToString(appendRuns(nil, seqs))
	}
	return json.Marshal(info)
}

// decodeBlob decodes a meta message. An object of another client has no index, and what is no
// description of an object counts as a deleted one.
func decodeBlob(m jsapi.Message, err error) (*blob, error) {
	if err != nil {
		return nil, err
	}
	b := &blob{seq: m.Sequence, data: m.Data}
	if json.Unmarshal(m.Data, &b.ObjectInfo) != nil {
		b.ObjectInfo = jetstream.ObjectInfo{Deleted: true}
	}
	encoded, err := base64.StdEncoding.DecodeString(b.Metadata[metaIndex])
	if err != nil || len(encoded) == 0 {
		return b, nil
	}
	b.indexDigest = digestOf(encoded)
	var x index.Index
	if x.UnmarshalBinary(encoded) != nil || uint64(x.Size()) != b.Size || x.Blocks() != int(b.Chunks) {
		return b, nil
	}
	runs, err := base64.StdEncoding.DecodeString(b.Metadata[metaChunks])
	if err == nil && len(runs) > 0 {
		b.seqs, err = decodeRuns(runs, x.Blocks())
	}
	// Without the sequences, a reader loads all chunks at once.
	if err == nil && (b.seqs != nil || x.Blocks() <= smallChunks) {
		b.index = &x
	}
	return b, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// blob looks an object up. ErrMsgNotFound.
func (s *Store) blob(ctx context.Context, name string) (*blob, error) {
	return decodeBlob(s.api.GetMessage(ctx, s.stream(), jsapi.Get{LastBySubject: s.metaSubject(name)}))
}

// latestBlob is blob, but it asks the leader, so its answer is never outdated.
func (s *Store) latestBlob(ctx context.Context, name string) (*blob, error) {
	return decodeBlob(s.api.GetFromLeader(ctx, s.stream(), jsapi.Get{LastBySubject: s.metaSubject(name)}))
}

// complete reports whether this store wrote the object, with this index, and all its chunks
// are stored.
func (s *Store) complete(ctx context.Context, b *blob, indexDigest string) bool {
	if b.Deleted || b.index == nil || b.indexDigest != indexDigest {
		return false
	}
	if b.Chunks == 0 {
		return true
	}
	subject := s.chunkSubject(b.NUID)
	info, err := s.blobs.Info(ctx, jetstream.WithSubjectFilter(subject))
	return err == nil && info.State.Subjects[subject] == uint64(b.Chunks)
}

// renew publishes the meta message of an object again, so that a sweep considers it
// young. It reports whether a complete object exists, and otherwise the last sequence of its subject.
func (s *Store) renew(ctx context.Context, digest, indexDigest string) (exists bool, last uint64, err error) {
	for {
		b, err := s.latestBlob(ctx, digest)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return false, 0, nil
		case err != nil:
			return false, 0, fmt.Errorf("look for the object: %w", err)
		case !s.complete(ctx, b, indexDigest):
			return false, b.seq, nil
		}
		err = s.storeMeta(ctx, digest, b.data, b.seq)
		if !isWrongSequence(err) {
			return err == nil, b.seq, err
		}
	}
}

// appendRuns encodes ascending numbers as pairs of varints: the gap before a run of
// consecutive numbers, and its length. Chunks have consecutive sequences unless
// other clients write at the same time.
func appendRuns(b []byte, seqs []uint64) []byte {
	var next uint64
	for i := 0; i < len(seqs); {
		n := 1
		for i+n < len(seqs) && seqs[i+n] == seqs[i]+uint64(n) {
			n++
		}
		b = binary.AppendUvarint(b, seqs[i]-next)
		b = binary.AppendUvarint(b, uint64(n))
		next = seqs[i] + uint64(n)
		i += n
	}
	return b
}

// decodeRuns decodes exactly want numbers, or returns an error.
func decodeRuns(data []byte, want int) ([]uint64, error) {
	seqs := make([]uint64, 0, want)
	var next uint64
	for len(data) > 0 {
		gap, size := binary.Uvarint(data)
		n, size2 := binary.Uvarint(data[max(size, 0):])
		if next += gap; size <= 0 || size2 <= 0 || gap > 1<<62 || next > 1<<62 || n == 0 || n > uint64(want-len(seqs)) {
			return nil, errors.New("decode chunk sequences: malformed list")
		}
		data = data[size+size2:]
		for range n {
			seqs = append(seqs, next)
			next++
		}
	}
	if len(seqs) != want {
		return nil, fmt.Errorf("decode chunk sequences: %d instead of %d", len(seqs), want)
	}
	return seqs, nil
}
