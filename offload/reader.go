package offload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// CodeCorrupt is the code of an error about an artifact whose stored bytes are
// not those that were put.
const CodeCorrupt = "corrupt"

// PageChars is the most that GetByID returns at once, in characters.
const PageChars = 15_000

// ReadChars is the most that Read returns at once, in characters: a block, if
// they are ASCII. As JSON they take 768 KiB at most.
const ReadChars = index.BlockSize

// ReaderConfig bounds what reading costs. The zero value works.
type ReaderConfig struct {
	// MaxChars is the most that GetByLines, Grep, JQ and the listings show, in
	// characters. Default 40,000.
	MaxChars int
	// GrepTime is how long a Grep searches before it returns what it has.
	// Default 10 s.
	GrepTime time.Duration
	// JQTime is how long a JQ runs. Default 5 s.
	JQTime time.Duration
	// JQInput is the largest artifact, in bytes, that JQ loads. Default 8 MiB.
	JQInput int64
	// JQCommand is a program, and its arguments, that calls ServeJQ: each query
	// then runs in a process of its own, whose memory is bounded. Without it a
	// query runs in this process, which is watched, but one step of a hostile
	// query can take gigabytes before anybody notices.
	JQCommand []string
}

func (c ReaderConfig) withDefaults() ReaderConfig {
	if c.MaxChars <= 0 {
		c.MaxChars = 40_000
	}
	if c.GrepTime <= 0 {
		c.GrepTime = 10 * time.Second
	}
	if c.JQTime <= 0 {
		c.JQTime = 5 * time.Second
	}
	if c.JQInput <= 0 {
		c.JQInput = 8 << 20
	}
	return c
}

// Reader reads artifacts back. It is safe for concurrent use.
//
// Each method takes the session that the caller was found to belong to, never
// one that the caller claims: from a tools.Call that is Call.SessionToken(), on
// the bus the token in the subject. A session that is no token is taken for an
// original one. An artifact's id may be its token or the original id.
//
// Errors that the asker can do something about are *tools.Error: not_found,
// expired, corrupt, invalid_arguments, timeout. Others are the store's.
type Reader struct {
	store Store
	cfg   ReaderConfig
	jq    chan struct{} // a slot for each query that may run
}

// NewReader returns a Reader of what store holds.
func NewReader(store Store, cfg ReaderConfig) *Reader {
	return &Reader{store: store, cfg: cfg.withDefaults(), jq: make(chan struct{}, 2)}
}

// Record returns the record of an artifact.
func (r *Reader) Record(ctx context.Context, session, id string) (Record, error) {
	if session == "" {
		return Record{}, tools.Errorf(tools.CodeInvalidArguments, "no session is given")
	}
	if id == "" {
		return Record{}, tools.Errorf(tools.CodeInvalidArguments, "no artifact_id is given; %s lists the artifacts", ToolQuery)
	}
	session = tools.TokenOf(session)
	rec, err := r.store.Get(ctx, session, tools.TokenOf(id))
	if errors.Is(err, ErrNotFound) && tools.Token(id) != id {
		// An id that looks like a token may still be an original one.
		rec, err = r.store.Get(ctx, session, tools.Token(id))
	}
	if err != nil {
		return Record{}, readError(id, err)
	}
	if rec.Session != session { // the store's promise, checked
		return Record{}, readError(id, ErrNotFound)
	}
	return rec, nil
}

// Open returns the record and all bytes of an artifact; the caller closes the
// content.
func (r *Reader) Open(ctx context.Context, session, id string) (Record, Content, error) {
	rec, err := r.Record(ctx, session, id)
	if err != nil {
		return Record{}, nil, err
	}
	c, err := r.store.Open(ctx, rec)
	if err != nil {
		return Record{}, nil, readError(id, err)
	}
	return rec, c, nil
}

// with runs f with an open artifact.
func (r *Reader) with(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	rec, err := r.Record(ctx, session, id)
	if err != nil {
		return err
	}
	return r.withRecord(ctx, id, rec, f)
}

// knower is a Store that is asked over a network and may know what an artifact
// was a moment ago, and its content without asking.
type knower interface {
	CachedRecord(session, id string) (Record, bool)
}

// glance is with, for an f that reads little. Of an artifact that the store knows
// f reads while the record is on its way. Only the record says whether what f read
// counts: if it does not, f runs once more or not at all. So take what f leaves
// only if there is no error.
func (r *Reader) glance(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	k, ok := r.store.(knower)
	if !ok {
		return r.with(ctx, session, id, f)
	}
	guess, ok := k.CachedRecord(tools.TokenOf(session), tools.TokenOf(id))
	if !ok {
		return r.with(ctx, session, id, f)
	}
	guessing, cancel := context.WithCancel(ctx)
	defer cancel()
	guessed := make(chan error, 1)
	go func() { guessed <- r.withRecord(guessing, id, guess, f) }()
	rec, err := r.Record(ctx, session, id)
	if err != nil || rec.ID != guess.ID || rec.Digest != guess.Digest {
		cancel()
	}
	guessErr := <-guessed
	switch {
	case err != nil:
		return err
	case guessing.Err() == nil && guessErr == nil:
		return nil
	}
	return r.withRecord(ctx, id, rec, f)
}

func (r *Reader) withRecord(ctx context.Context, id string, rec Record, f func(Record, blockContent) error) error {
	c, err := r.store.Open(ctx, rec)
	if err != nil {
		return readError(id, err)
	}
	err = f(rec, inBlocks(c))
	if closeErr := c.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return readError(id, err)
	}
	return nil
}

// readError gives what the store says a code and an advice.
func readError(id string, err error) error {
	name := tools.Excerpt(id, 100)
	if _, ok := errors.AsType[*tools.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return tools.Errorf(tools.CodeNotFound, "there is no artifact %q in this session; %s lists those there are", name, ToolQuery)
	case errors.Is(err, ErrExpired):
		return tools.Errorf(tools.CodeExpired, "the artifact %q is expired: its content was removed; run the tool again if you need it", name)
	case errors.Is(err, ErrCorrupt):
		return tools.Errorf(CodeCorrupt, "the stored content of the artifact %q is damaged; run the tool again if you need it", name)
	}
	return fmt.Errorf("read artifact %q: %w", name, err)
}

// Delete removes an artifact and returns the record that it had. Its bytes go
// with the next sweep, if no other artifact has them.
func (r *Reader) Delete(ctx context.Context, session, id string) (Record, error) {
	rec, err := r.Record(ctx, session, id)
	if err != nil {
		return Record{}, err
	}
	return rec, r.store.Delete(ctx, rec.Session, rec.ID)
}
