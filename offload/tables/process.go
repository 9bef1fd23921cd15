package tables

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const maxFile = 1 << 30 // bytes of a database, and of each temporary file

// request is the first line of the input of the process. The contents of the tables to import
// follow in order, each of them for all passes.
type request struct {
	Source
	SQL  string `json:"sql"`
	Skip int64  `json:"skip,omitempty"` // rows that earlier answers showed
}

// Engine is SQLite. Only a program that names that of package tables/sqlite links it.
type Engine interface {
	// Confine refuses everything but SELECT on a connection of the driver "sqlite", and a value or a
	// statement that is longer.
	Confine(conn *sql.Conn, maxValue, maxStatement int) error
}

// Serve answers one query of a Run whose Source.Command started this process. It bounds the
// process, so it is for a main that does nothing else.
func Serve(ctx context.Context, engine Engine, stdin io.Reader, stdout io.Writer) error {
	if err := errors.Join(limited.Serve(limited.SQL), limited.Files(maxFile)); err != nil {
		return err
	}
	return limited.Answer(stdin, stdout, func(req request, contents io.Reader) (*Result, error) {
		ctx, cancel := limited.Within(ctx, req.CPU)
		defer cancel()
		return answer(ctx, engine, req, contents)
	})
}

// answer imports the tables that need it, and runs the query.
func answer(ctx context.Context, engine Engine, req request, contents io.Reader) (*Result, error) {
	for _, t := range req.Tables {
		if !t.Import {
			continue
		}
		err := load(ctx, t, contents)
		if reached, ok := limited.TimeUp(ctx); ok && err != nil {
			err = tools.Errorf(tools.CodeTimeout, "the import of the tables was stopped: %s; use jq_knowledge or grep_knowledge", reached)
		}
		if err != nil {
			return nil, err
		}
	}
	db, err := open(ctx, engine, req)
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
