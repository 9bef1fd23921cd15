package offload

import (
	"cmp"
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
	"github.com/stevedore-bus/stevedore/tools/limited"
	"github.com/stevedore-bus/stevedore/tools/metrics"
)

// CodeCorrupt is the code of an error about an artifact whose stored bytes differ
// from the bytes that were put.
const CodeCorrupt = "corrupt"

// PageChars is the longest page of GetByID and of a list, in characters.
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
	// MaxChars is the maximum that GetByID, GetByLines, Grep, JQ and SQL return, in characters.
	// Default PageChars.
	MaxChars int
	// GrepTime, JQTime and SQLTime are how much processor time a Grep, JQ and SQL may take. A Grep
	// then returns the matches so far. Default: 4 s for an artifact of 1 MiB, and a second more
	// for each MiB, up to 10 s, 10 s and 30 s; SQL has more for the import of its tables.
	GrepTime, JQTime, SQLTime time.Duration
	// Pool is where the sessions of readers take turns, and runs queries in processes with bounded
	// memory. By default, a Reader has a Pool of its own that runs them in this process.
	Pool *limited.Pool
	// SQL is sqlite.Engine{} of package offload/tables/sqlite in a program that runs SQL in its own
	// process. It is not needed if Pool runs it in another one. Without both, SQL returns an error.
	SQL tables.Engine
	// SQLCache keeps the databases of SQL; the caller closes it. By default, the Reader has one
	// below os.TempDir(), which a later process removes.
	SQLCache *tables.Cache
	// SubSessions, if not nil, returns the sessions of the sub-agents of a session, which
	// reads what they stored as well.
	SubSessions func(ctx context.Context, session string) ([]string, error)
}

func (c ReaderConfig) withDefaults() ReaderConfig {
	c.MaxChars = cmp.Or(max(c.MaxChars, 0), PageChars)
	if c.Pool == nil {
		c.Pool = limited.NewPool()
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
}

// NewReader returns a Reader of the artifacts in store.
func NewReader(store Store, cfg ReaderConfig) *Reader { return &Reader{store, cfg.withDefaults()} }

// turn runs work when it is the turn of the session.
func (r *Reader) turn(ctx context.Context, session string, cpu time.Duration, work func(context.Context) error) error {
	return r.cfg.Pool.Do(ctx, tools.TokenOf(session), cpu, work)
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

// withText is with for readers of characters. Its error says what an artifact is that has none.
func (r *Reader) withText(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	return r.with(ctx, session, id, func(rec Record, c blockContent) error {
		if media := rec.binary(); media != "" {
			return tools.Errorf(tools.CodeInvalidArguments, "%s; jq and SQL read texts in UTF-8, UTF-16 and Latin-1, into which iconv converts others", NotText(rec.ID, media, rec.Size))
		}
		return f(rec, c)
	})
}

// withBytes calls f with the bytes of an artifact.
func (r *Reader) withBytes(ctx context.Context, session, id string, f func(Record, blockContent) error) error {
	rec, c, err := r.Open(ctx, session, id)
	if err != nil {
		return err
	}
	if err := errors.Join(f(rec, inBlocks(c)), c.Close()); err != nil {
		return readError(id, err)
	}
	return nil
}

// Grep finds the lines of an artifact that match a pattern; see grep.Artifact.
func (r *Reader) Grep(ctx context.Context, session, id string, q GrepQuery) (res *GrepResult, err error) {
	defer countRead("grep", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		err := r.turn(ctx, session, cmp.Or(r.cfg.GrepTime, limited.Grep.CPU(rec.Size)), func(ctx context.Context) error {
			res, err = grep.Artifact(ctx, rec.ID, c, q, r.cfg.MaxChars-noteReserve)
			return err
		})
		if err != nil {
			return err
		}
		res.Counted, res.Notes = rec.Lines, append(res.Notes, rec.Lost()...)
		if res.MediaType = rec.binary(); res.MediaType != "" {
			res.Instead = binaryNotice(rec.ID, res.MediaType, res.Size)
		}
		return nil
	})
	return res, err
}

// JQ runs a jq query on an artifact that is JSON or a table; see jq.Run.
func (r *Reader) JQ(ctx context.Context, session, id string, q JQQuery) (res *JQResult, err error) {
	if err := jq.Check(q.Query); err != nil {
		return nil, err
	}
	defer countRead("jq", time.Now())
	err = r.withText(ctx, session, id, func(rec Record, c blockContent) error {
		form, err := rec.tableForm(c, c.Size(), describe.Hints{})
		if err != nil {
			return err
		}
		var table *describe.Form
		if form.Kind == describe.Cells && form.Certain || isMedia(rec.MediaType, mediaCSV, mediaTSV) {
			table = &form
		}
		src := jq.Source{
			ArtifactID: rec.ID, Content: c, Size: c.Size(), Form: table, Markup: rec.markup(), Log: isMedia(rec.MediaType, mediaLog),
			Chars: r.cfg.MaxChars - noteReserve, CPU: cmp.Or(r.cfg.JQTime, limited.JQ.CPU(c.Size())), Command: r.cfg.Pool.Command(limited.JQ),
		}
		return r.turn(ctx, session, src.CPU, func(ctx context.Context) error {
			if res, err = jq.Run(ctx, src, q); err == nil {
				res.Notes = append(res.Notes, rec.Lost()...)
			}
			return err
		})
	})
	return res, err
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
