package offload

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

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
	// Summary is what the reference shows of the content.
	Summary string `json:"summary,omitempty"`
	// Metadata can be queried by equality: context_type, biz_id, session_id,
	// agent_id, task_id, tool_name, action_name. Values are as they came.
	Metadata  map[string]string `json:"metadata,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	// ExpiresAt moves on with every read.
	ExpiresAt time.Time `json:"expires_at"`
}

var (
	// ErrNotFound: there is no such artifact in this session. A Reader tells it, and
	// ErrExpired and ErrCorrupt, as a *tools.Error: look at tools.CodeOf.
	ErrNotFound = errors.New("artifact not found")
	// ErrExpired: there was one, and its time is over.
	ErrExpired = errors.New("artifact expired")
	// ErrExists: the id is taken by an artifact with another content.
	ErrExists = errors.New("artifact exists with another content")
	// ErrQuota: the store holds as much as it may.
	ErrQuota = errors.New("the artifact store is full")
	// ErrCorrupt means that the stored bytes differ from the bytes that were put.
	ErrCorrupt = index.ErrCorrupt
)

// Store keeps artifacts: bytes by their digest, once however many artifacts
// share them, and one record for each session and id. It is safe for concurrent
// use, also by several processes.
type Store interface {
	// Put reads src to its end, stores it, and then stores rec with the fields
	// filled in that the bytes and the clock decide: Size, Chars, Lines, Digest,
	// Tokens (as RuneCounter estimates them), CreatedAt and ExpiresAt. Both are
	// durable when Put returns. A failed Put leaves no record, and at most bytes
	// that a sweep removes; one that a crash cut short may leave either, and
	// putting it again makes both good.
	//
	// An artifact once put does not change: if the session and id are taken,
	// equal content returns the existing record, its expiry refreshed; another
	// content is ErrExists. An expired record is as good as none. summarize,
	// if not nil, is called once all bytes are known and before the record is
	// written, to set Summary, Type and MediaType from the content.
	Put(ctx context.Context, rec Record, src io.Reader, summarize func(*Record, Content) error) (Record, error)
	// Get returns a record and moves its expiry on. ErrNotFound, ErrExpired.
	Get(ctx context.Context, session, id string) (Record, error)
	// Open gives random access to the bytes of a record; the caller closes it.
	// Bytes that do not match their digest are ErrCorrupt, from Open or from
	// the read that meets them.
	Open(ctx context.Context, rec Record) (Content, error)
	// List yields the records of a session that are not expired, oldest first;
	// an empty session yields those of all.
	List(ctx context.Context, session string) iter.Seq2[Record, error]
	// Delete removes a record; its bytes go with the next sweep if no other
	// record names them. ErrNotFound.
	Delete(ctx context.Context, session, id string) error
	// Sweep removes records that expired, bytes that no record names, and what
	// interrupted writes left. It never touches what is younger than grace, so
	// that a Put under way keeps its bytes.
	Sweep(ctx context.Context, grace time.Duration) (SweepReport, error)
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

// SweepReport says what a sweep removed.
type SweepReport struct {
	Records int   `json:"records"`
	Blobs   int   `json:"blobs"`
	Orphans int   `json:"orphans"` // chunks or temporary files of interrupted writes
	Bytes   int64 `json:"bytes"`
}

// Content is random access to stored bytes. ReadAt reads no more of the store
// than the blocks that hold the range.
type Content interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Index tells where lines and characters are.
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
