package tables

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	maxHeap = 128 << 20 // bytes that Go values and SQLite may each have
	maxFile = 1 << 30   // bytes of a database, and of each temporary file
	// processTime is how much longer than its query a process may take: to start on a busy
	// machine, and to write the answer.
	processTime = 10 * time.Second
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
// follow in order, each of them twice.
type request struct {
	Tables []Table       `json:"tables"`
	SQL    string        `json:"sql"`
	Skip   int64         `json:"skip,omitempty"` // rows that earlier answers showed
	Dir    string        `json:"dir"`
	Chars  int           `json:"chars"`
	Time   time.Duration `json:"time"`
}

// response is the output of the process.
type response struct {
	Result  *Result `json:"result,omitempty"`
	Code    string  `json:"code,omitempty"` // of an error
	Message string  `json:"message,omitempty"`
}

// Serve answers one query of a Run whose Source.Command started this process. It bounds the
// process, so it is for a main that does nothing else.
func Serve(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if err := errors.Join(limited.Serve(maxHeap), limited.Files(maxFile)); err != nil {
		return fmt.Errorf("serve SQL: %w", err)
	}
	in := bufio.NewReaderSize(stdin, 256<<10)
	head, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("serve SQL: read the request: %w", err)
	}
	var req request
	dec := json.NewDecoder(bytes.NewReader(head))
	if err := dec.Decode(&req); err != nil {
		return fmt.Errorf("serve SQL: read the request: %w", err)
	}
	res, err := answer(ctx, req, in)
	out := response{Result: res}
	if err != nil {
		out = response{Code: tools.CodeOf(err), Message: err.Error()}
	}
	data, err := jsonform.Encode(out)
	if err == nil {
		_, err = stdout.Write(data)
	}
	return err
}

// inProcess answers a query in a separate process.
func inProcess(ctx context.Context, command []string, req request, contents io.Reader) (*Result, error) {
	head, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// The process has its own timeout; this one is for a process that hangs.
	limit := req.Time + importTime(req.Tables)
	ctx, cancel := context.WithTimeoutCause(ctx, limit+processTime, tools.Errorf(tools.CodeTimeout, "the query took longer than %s; simplify it", limit))
	defer cancel()
	var stdout bytes.Buffer
	err = limited.Run(ctx, command, io.MultiReader(bytes.NewReader(append(head, '\n')), contents), &stdout)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case errors.Is(err, limited.ErrMemory):
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query or one row of its tables needs too much memory; narrow the query, or use grep_knowledge")
	case err != nil:
		return nil, fmt.Errorf("run SQL in a separate process: %w", err)
	}
	var out response
	dec := json.NewDecoder(&stdout)
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("run SQL in a separate process: decode its output: %w", err)
	}
	if out.Code != "" {
		return nil, &tools.Error{Code: out.Code, Message: out.Message}
	}
	return out.Result, nil
}

// answer imports the tables that need it, and runs the query.
func answer(ctx context.Context, req request, contents io.Reader) (*Result, error) {
	importing, cancel := context.WithTimeoutCause(ctx, importTime(req.Tables), tools.Errorf(tools.CodeTimeout, "the import of the tables took too long; use jq_knowledge or grep_knowledge"))
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
