package tables

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	maxHeap = 128 << 20 // bytes that Go values and SQLite may each have
	maxFile = 1 << 30   // bytes of a database, and of each temporary file
)

// importTime is how long the import of contents may take: a minute for 200 MB on a busy machine.
func importTime(tables []Table) (d time.Duration) {
	for _, t := range tables {
		if t.Import {
			d += 5*time.Second + time.Duration(t.Size/(4<<20))*time.Second
		}
	}
	return d
}

// request is the first line of the input of the process. The contents of the tables to import
// follow in order, each of them for all passes.
type request struct {
	Tables []Table       `json:"tables"`
	SQL    string        `json:"sql"`
	Skip   int64         `json:"skip,omitempty"` // rows that earlier answers showed
	Dir    string        `json:"dir"`
	Chars  int           `json:"chars"`
	Time   time.Duration `json:"time"`
}

// Serve answers one query of a Run whose Source.Command started this process. It bounds the
// process, so it is for a main that does nothing else.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := errors.Join(limited.Serve(maxHeap), limited.Files(maxFile)); err != nil {
		return err
	}
	return limited.Answer(stdin, stdout, func(req request, contents io.Reader) (*Result, error) {
		return answer(ctx, req, contents)
	})
}

// inProcess answers a query in a separate process.
func inProcess(ctx context.Context, command []string, req request, contents io.Reader) (*Result, error) {
	// The process has its own timeout; this one is for a process that hangs.
	limit := req.Time + importTime(req.Tables)
	ctx, cancel := context.WithTimeoutCause(ctx, limit+limited.ProcessTime, tools.Errorf(tools.CodeTimeout, "the query took longer than %s; simplify it", limit))
	defer cancel()
	res, err := limited.Ask[*Result](ctx, command, req, contents)
	if errors.Is(err, limited.ErrMemory) {
		err = tools.Errorf(tools.CodeInvalidArguments, "the query or one row of its tables needs too much memory; narrow the query, or use grep_knowledge")
	}
	return res, err
}

// answer imports the tables that need it, and runs the query.
func answer(ctx context.Context, req request, contents io.Reader) (*Result, error) {
	importing, cancel := context.WithTimeoutCause(ctx, importTime(req.Tables), tools.Errorf(tools.CodeTimeout,
		"the import of the tables took too long; use jq_knowledge or grep_knowledge"))
	defer cancel()
	for _, t := range req.Tables {
		if !t.Import {
			continue
		}
		if err := load(importing, t, contents); err != nil {
			if importing.Err() != nil && ctx.Err() == nil {
				err = context.Cause(importing)
			}
			return nil, err
		}
	}
	db, err := open(ctx, req)
	if err != nil {
		return nil, err
	}
	defer db.close()
	if req.SQL == "" {
		return &Result{Columns: []string{}, Rows: [][]any{}, Tables: db.schemas}, nil
	}
	return db.query(ctx, req)
}

// cursorAt returns the cursor of an answer that continues after n rows.
func cursorAt(n int64) string { return cursor.Place{More: n}.String() }
