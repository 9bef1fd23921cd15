package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/grep"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

// CodeCorrupt is the code of an error about an artifact whose stored bytes differ
// from the bytes that were put.
const CodeCorrupt = "corrupt"

// PageChars is the maximum of GetByID, in characters.
const PageChars = 15_000

// ReadChars is the maximum of Read, in characters: one block of ASCII text. As JSON,
// they have at most 768 KiB.
const ReadChars = index.BlockSize

// The queries of Grep and JQ, and their results.
type (
	GrepQuery  = grep.Query
	GrepResult = grep.Result
	JQQuery    = jq.Query
	JQResult   = jq.Result
)

// noteReserve is for the first line and the notes of an answer, in characters.
const noteReserve = 1000

// ReaderConfig limits the cost of reading. The zero value works.
type ReaderConfig struct {
	// MaxChars is the maximum that GetByLines, Grep, JQ and SQL return, in characters.
	// Default PageChars.
	MaxChars int
	// GrepTime is how long a Grep searches before it returns the matches so far.
	// Default 10 s.
	GrepTime time.Duration
	// JQTime is the timeout of a JQ. Default 10 s.
	JQTime time.Duration
	// JQCommand is a program with arguments that calls jq.Serve. Each query then runs
	// in a separate process with bounded memory. Without JQCommand, a query runs in
	// this process: a check of the heap every 5 ms stops it, but a single step of a
	// hostile query can take gigabytes before that.
	JQCommand []string
	// SQLTime is the timeout of a query of SQL, which begins when its tables are imported.
	// Default 30 s.
	SQLTime time.Duration
	// SQLCommand is a program with arguments that calls tables.Serve, as JQCommand is one for
	// jq.Serve.
	SQLCommand []string
	// SQLCache keeps the databases of SQL; the caller closes it. By default, the Reader has one
	// below os.TempDir(), which a later process removes.
	SQLCache *tables.Cache
	// SubSessions, if not nil, returns the sessions of the sub-agents of a session, which
	// reads what they stored as well.
	SubSessions func(ctx context.Context, session string) ([]string, error)
}

func (c ReaderConfig) withDefaults() ReaderConfig {
	if c.MaxChars <= 0 {
		c.MaxChars = PageChars
	}
	if c.GrepTime <= 0 {
		c.GrepTime = 10 * time.Second
	}
	if c.JQTime <= 0 {
		c.JQTime = 10 * time.Second
	}
	if c.SQLTime <= 0 {
		c.SQLTime = 30 * time.Second
	}
	if c.SQLCache == nil {
		c.SQLCache = tables.NewCache("")
	}
	return c
}

// Reader reads artifacts back. It is safe for concurrent use.
//
// The session of each method must be authenticated, never an argument of the client:
// Call.SessionToken() of a tools.Call, or the token in the subject on the bus. A
// session and an artifact id may be a token or the original id.
//
// An error that the client can fix is a *tools.Error: not_found, expired, corrupt,
// invalid_arguments, timeout. Any other error comes from the store.
type Reader struct {
	store Store
	cfg   ReaderConfig
	// jq, largeJQ and sql limit the queries that run at the same time: those about large artifacts
	// may take much memory, so they run one after the other.
	jq, largeJQ, sql chan struct{}
}

// NewReader returns a Reader of the artifacts in store.
func NewReader(store Store, cfg ReaderConfig) *Reader {
	return &Reader{
		store: store, cfg: cfg.withDefaults(),
		jq: make(chan struct{}, 2), largeJQ: make(chan struct{}, 1), sql: make(chan struct{}, 1),
	}
}

// Record returns the record of an artifact of the session or of its sub-agents.
func (r *Reader) Record(ctx context.Context, session, id string) (Record, error) {
	rec, err := r.ownRecord(ctx, session, id)
	if tools.CodeOf(err) != tools.CodeNotFound || r.cfg.SubSessions == nil {
		return rec, err
	}
	children, childErr := r.cfg.SubSessions(ctx, tools.TokenOf(session))
	if childErr != nil {
		return Record{}, fmt.Errorf("%w (and the sub-agents of the session are unknown: %w)", err, childErr)
	}
	for _, child := range slices.Backward(children) {
		if found, err := r.Record(ctx, child, id); err == nil || tools.CodeOf(err) != tools.CodeNotFound {
			return found, err
		}
	}
	return rec, err
}

// ownRecord returns the record of an artifact of the session.
func (r *Reader) ownRecord(ctx context.Context, session, id string) (Record, error) {
	if session == "" {
		return Record{}, tools.Errorf(tools.CodeInvalidArguments, "no session is given")
	}
	if id == "" {
		return Record{}, tools.Errorf(tools.CodeInvalidArguments, "no artifact_id is given; %s lists the artifacts", ToolQuery)
	}
	session = tools.TokenOf(session)
	rec, err := r.store.Get(ctx, session, tools.TokenOf(id))
	if errors.Is(err, ErrNotFound) && tools.Token(id) != id {
		// An id that looks like a token may still be an original id.
		rec, err = r.store.Get(ctx, session, tools.Token(id))
	}
	if err != nil {
		return Record{}, readError(id, err)
	}
	if rec.Session != session { // checks the promise of the store
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

// with calls f with the text of an artifact.
func (r *Reader) with(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	return r.withBytes(ctx, session, id, func(rec Record, c blockContent) error {
		charset := rec.charset()
		if charset == "" {
			return f(rec, c)
		}
		text, err := decode(ctx, c, c.Size(), charset)
		if err != nil {
			return err
		}
		return errors.Join(f(rec, text), text.Close())
	})
}

// withBytes calls f with the bytes of an artifact.
func (r *Reader) withBytes(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	rec, c, err := r.Open(ctx, session, id)
	if err != nil {
		return err
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

// Grep finds the lines of an artifact that match a pattern; see grep.Artifact.
func (r *Reader) Grep(ctx context.Context, session, id string, q GrepQuery) (res *GrepResult, err error) {
	defer countRead("grep", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		if res, err = grep.Artifact(ctx, rec.ID, c, q, grep.Limits{Time: r.cfg.GrepTime, Chars: r.cfg.MaxChars}); err != nil {
			return err
		}
		if res.MediaType = rec.binary(); res.MediaType != "" {
			res.Instead = binaryNotice(rec.ID, res.MediaType, res.Size)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// JQ runs a jq query on an artifact that is JSON or a table; see jq.Run.
func (r *Reader) JQ(ctx context.Context, session, id string, q JQQuery) (res *JQResult, err error) {
	if err := jq.Check(q.Query); err != nil {
		return nil, err
	}
	defer countRead("jq", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		slots := r.jq
		if c.Size() > jq.Large {
			slots = r.largeJQ
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-time.After(r.cfg.JQTime):
			return tools.Errorf(tools.CodeTimeout, "other jq queries are running, and this one waited %s for them; ask again, or use %s", r.cfg.JQTime, ToolGrep)
		case <-ctx.Done():
			return ctx.Err()
		}
		form, err := rec.tableForm(c, c.Size(), describe.Hints{})
		if err != nil {
			return err
		}
		var table *describe.Form
		if form.Certain || isMedia(rec.MediaType, mediaCSV, mediaTSV) {
			table = &form
		}
		res, err = jq.Run(ctx, jq.Source{
			ArtifactID: rec.ID, Content: c, Size: c.Size(), Form: table,
			Chars: r.cfg.MaxChars - noteReserve, Time: r.cfg.JQTime, Command: r.cfg.JQCommand,
		}, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// readError turns an error of the store into one with a code and advice.
func readError(id string, err error) error {
	if _, ok := errors.AsType[*tools.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return tools.Errorf(tools.CodeNotFound, "there is no artifact %.100q in this session; %s lists the artifacts", id, ToolQuery)
	case errors.Is(err, ErrExpired):
		return tools.Errorf(tools.CodeExpired, "the artifact %.100q is expired: its content was removed; run the tool again if you need it", id)
	case errors.Is(err, ErrCorrupt):
		return tools.Errorf(CodeCorrupt, "the stored content of the artifact %.100q is damaged; run the tool again if you need it", id)
	}
	return fmt.Errorf("read artifact %.100q: %w", id, err)
}

// Delete removes an artifact and returns its record. The next sweep removes its
// bytes if no other artifact has them.
func (r *Reader) Delete(ctx context.Context, session, id string) (Record, error) {
	rec, err := r.ownRecord(ctx, session, id)
	if tools.CodeOf(err) == CodeCorrupt { // its key can be removed all the same
		rec, err = Record{}, nil
		rec.Session, rec.ID = tools.TokenOf(session), tools.TokenOf(id)
	}
	if err != nil {
		return Record{}, err
	}
	return rec, r.store.Delete(ctx, rec.Session, rec.ID)
}

var readDuration = metrics.NewHistogram("stevedore_read_back_duration_seconds",
	"Time to read from an artifact: a page of characters, lines, a search (grep) or a query (jq).", metrics.Seconds, "kind")

// countRead counts a read that began at a time.
func countRead(kind string, began time.Time) {
	readDuration.Observe(time.Since(began).Seconds(), kind)
}
