package offload

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/tools"
)

// DigestPrefix precedes the hexadecimal SHA-256 in a Record's Digest.
const DigestPrefix = "sha256:"

// Record describes one artifact: one offloaded text and its metadata.
type Record struct {
	tools.Artifact
	// Session is the token of the session that the artifact belongs to.
	Session string `json:"session"`
	// Summary is the preview in the reference.
	Summary string `json:"summary,omitempty"`
	// Metadata can be queried by equality: context_type, biz_id, session_id,
	// agent_id, task_id, tool_name, action_name. Values are unchanged.
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	// ExpiresAt is later after every read.
	ExpiresAt time.Time `json:"expires_at"`
	// IndexDigest is the SHA-256 of the line index, in hexadecimal, if the store keeps
	// the index beside the bytes. The index holds the digest of each block, so a changed
	// index could otherwise pass off other bytes as those of the record.
	IndexDigest string `json:"index_digest,omitempty"`

	// sameAs is the id of an earlier artifact of the session with the same content, for the
	// reference. It is not stored.
	sameAs string
}

var (
	// ErrNotFound means that the session has no such artifact. A Reader returns this
	// error, ErrExpired and ErrCorrupt as a *tools.Error; see tools.CodeOf.
	ErrNotFound = errors.New("artifact not found")
	// ErrExpired means that the artifact existed and has expired.
	ErrExpired = errors.New("artifact expired")
	// ErrExists means that the id belongs to an artifact with other content.
	ErrExists = errors.New("artifact exists with other content")
	// ErrQuota means that the store is full.
	ErrQuota = errors.New("the artifact store is full")
	// ErrCorrupt means that the stored bytes differ from the bytes that were put.
	ErrCorrupt = index.ErrCorrupt
)

// Store contains artifacts: one record for each session and id, and the bytes by
// their digest, once for all artifacts that share them. It is safe for concurrent
// use, also by several processes.
type Store interface {
	// Put reads src to its end and stores it. Then it sets Size, Chars, Lines,
	// Digest, Tokens (by TokensOfRunes), CreatedAt and ExpiresAt of rec
	// and stores rec. Both are durable when Put returns. A failed Put leaves no
	// record, and at most bytes that a sweep removes. After a crash either may be
	// incomplete; the next Put of the same content repairs both.
	//
	// An artifact never changes. If the session and id exist, Put returns the
	// existing record with a new expiry for equal content, and ErrExists for other
	// content. Put replaces an expired record. If summarize is not nil, Put calls
	// it after the last byte and before it writes the record, to set Summary, Type
	// and MediaType from the content.
	Put(ctx context.Context, rec Record, src io.Reader, summarize func(*Record, Content) error) (Record, error)
	// Get returns a record and moves its expiry later. ErrNotFound, ErrExpired.
	Get(ctx context.Context, session, id string) (Record, error)
	// Open gives random access to the bytes of a record; the caller closes it.
	// If bytes do not match their digest, Open or the read of those bytes returns
	// ErrCorrupt.
	Open(ctx context.Context, rec Record) (Content, error)
	// List yields the records of a session that are not expired, oldest first; of
	// all sessions if session is empty. It yields ErrCorrupt for a record that it cannot
	// decode, and goes on.
	List(ctx context.Context, session string) iter.Seq2[Record, error]
	// Delete removes a record. The next sweep removes its bytes if no other record
	// names them. ErrNotFound.
	Delete(ctx context.Context, session, id string) error
	// Sweep removes expired records, bytes that no record names, and the remains of
	// interrupted writes. It never removes anything younger than grace, because a
	// Put may still be writing it.
	Sweep(ctx context.Context, grace time.Duration) (SweepReport, error)
}

// StoreConfig configures any store. The zero value works.
type StoreConfig struct {
	// TTL is how long the store keeps an artifact after it was put or last read.
	// For another TTL, the store answers ErrExpired; after that, ErrNotFound.
	// Default 7 days.
	TTL time.Duration
	// Quota is the maximum number of bytes of all blobs together; a Put that would
	// exceed it returns ErrQuota. 0 means no limit. Expired artifacts count until
	// they are swept; an Offloader sweeps a full store once before it reports
	// ErrQuota. The stored blobs never exceed the quota, also if several processes put
	// at once; the bytes of Puts that have not ended may.
	Quota int64
	// Now returns the current time. Default time.Now.
	Now func() time.Time
	// Log receives warnings about the place of the store.
	Log zerolog.Logger
}

// Adopter is a Store that can make an artifact of an object that a producer put
// into its bucket with another client.
type Adopter interface {
	// PutObject is Put with the named object as the source. The object still
	// belongs to the producer; a sweep removes it when it is older than the TTL.
	// PutObject returns ErrNotFound if there is no such object, and ErrCorrupt if
	// its bytes do not match its digest.
	PutObject(ctx context.Context, rec Record, object string, summarize func(*Record, Content) error) (Record, error)
}

// SweepReport counts what a sweep removed.
type SweepReport struct {
	Records int   `json:"records"`
	Blobs   int   `json:"blobs"`
	Orphans int   `json:"orphans"` // chunks or temporary files of interrupted writes
	Bytes   int64 `json:"bytes"`
}

// Content is random access to stored bytes. ReadAt reads only the blocks that
// contain the range.
type Content interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Index gives the positions of lines and characters.
	Index() *index.Index
}

// blockContent is a Content that caches blocks: finding a line and then reading it
// loads its block once.
type blockContent interface {
	Content
	index.BlockReader
}

// inBlocks adds a cache to a content that has none.
func inBlocks(c Content) blockContent {
	if cached, ok := c.(blockContent); ok {
		return cached
	}
	return blocks.NewContent(c, c.Index())
}
