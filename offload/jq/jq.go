// Package jq runs jq queries on JSON, YAML and XML documents, rows of JSON (NDJSON) and tables (CSV, TSV), with
// bounded time and memory.
//
// A document of at most 64 MiB is loaded as a whole. Rows and tables of any size are read row by
// row, unless the query needs all of them at once. What needs more than the memory holds is for SQL
// (package tables), which the error names.
//
// gojq keeps objects as maps. So the package notes the order of the names in the objects of the
// document and of the query, and uses it where a query iterates over an object and where a result
// is written.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	// large is the size in bytes of what decides how a query runs.
	large         = 8 << 20
	maxQuery      = 4 << 10 // bytes
	watchInterval = 5 * time.Millisecond
)

// maxGrowth is the bytes by which the heap may grow while a query runs, with garbage.
var maxGrowth = uint64(limited.JQ.Memory * 3 / 2)

// maxDocument is the size in bytes of what is loaded at a time: a document, or all rows of an
// artifact. Tests lower it.
var maxDocument = 64 << 20

// Query configures a query. Its JSON form is the arguments of the tool.
type Query struct {
	Query  string `json:"query" jsonschema:"a jq program, for instance '.items[:5] | map(.name)'"`
	Cursor string `json:"cursor,omitempty" jsonschema:"where to continue, as an earlier answer to the same query gave it"`
}

// Source is an artifact and the bounds of a query on it.
type Source struct {
	ArtifactID string      `json:"artifact_id"`
	Content    io.ReaderAt `json:"-"`
	Size       int64       `json:"size"`
	// Form is that of a table; nil if the artifact is JSON.
	Form *describe.Form `json:"form,omitempty"`
	// Markup is the format of package markup that the artifact has; "" if it is JSON or a table.
	Markup string        `json:"markup,omitempty"`
	Log    bool          `json:"log,omitempty"` // it is a text with JSON in its lines
	Chars  int           `json:"chars"`         // of results that are returned
	CPU    time.Duration `json:"cpu"`           // the limit of the context, which a separate process has too
	// Command is a program with arguments that calls Serve. The query then runs in a
	// separate process. Without it, a check of the heap every 5 ms stops a query, but a
	// single step of a hostile query can take gigabytes before that.
	Command []string `json:"-"`
}

// Result is the result of a jq query on an artifact.
type Result struct {
	ArtifactID string            `json:"artifact_id"`
	Query      string            `json:"query"`
	Results    []json.RawMessage `json:"results"`
	// Limited is true if there may be more results than shown. The query continues at
	// NextCursor, if it can.
	Limited    bool   `json:"limited,omitempty"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Notes say what is missing.
	Notes []string `json:"notes,omitempty"`
}

// Text returns the form for a model.
func (r *Result) Text() string {
	var b strings.Builder
	more := ""
	if r.Limited {
		more = "at least " // a model takes the number for the number of all results
	}
	fmt.Fprintf(&b, "Found %s%d result(s) for query '%s' in knowledge#%s", more, len(r.Results), r.Query, r.ArtifactID)
	for i, result := range r.Results {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\n%s", result)
	}
	if r.NextCursor != "" {
		fmt.Fprintf(&b, "\n\n[there are more results than shown; continue with cursor=%q, or narrow the query]", r.NextCursor)
	}
	for _, note := range r.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// Check returns the error of a query that is not valid.
func Check(query string) error {
	_, err := compile(query)
	return err
}

// Run runs a query on an artifact. With several values (NDJSON) it runs on each of them, or on
// the array of all if it fits only an array. A table is an array of objects; a query about a
// row runs on each row.
func Run(ctx context.Context, src Source, q Query) (*Result, error) {
	if err := Check(q.Query); err != nil {
		return nil, err
	}
	place, err := cursor.Parse(q.Cursor, src.Size)
	if err != nil {
		return nil, err
	}
	req := request{Source: src, Query: q.Query, Skip: place.More}
	input := io.NewSectionReader(src.Content, 0, src.Size)
	var res *Result
	if len(src.Command) > 0 {
		res, err = limited.Ask[*Result](ctx, src.Command, req, input)
	} else {
		res, err = runWithin(ctx, req, input)
	}
	if reached, killed := errors.AsType[limited.Reached](err); killed {
		err = tools.Errorf(tools.CodeTimeout, "the query %q was stopped: %s. %s", tools.Excerpt(q.Query, 200), reached, instead(src.ArtifactID, q.Query))
	}
	if !errors.Is(err, limited.ErrMemory) {
		return res, err
	}
	short := tools.Excerpt(q.Query, 200)
	switch {
	case src.Size > int64(maxDocument):
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query %q needs the whole artifact, which has %d bytes; jq loads at most %d MiB at a time. %s",
			short, src.Size, maxDocument>>20, instead(src.ArtifactID, q.Query))
	case src.Size > large:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query %q needs too much memory: it needs the whole artifact (%d bytes) at a time. %s",
			short, src.Size, instead(src.ArtifactID, q.Query))
	}
	return nil, tools.Errorf(tools.CodeInvalidArguments, "the query or its artifact needs too much memory; narrow the query, or use grep_knowledge")
}

// compile compiles a query that has no other input.
func compile(query string) (*gojq.Code, error) {
	if len(query) > maxQuery {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the query has %d bytes; at most %d are accepted", len(query), maxQuery)
	}
	parsed, err := gojq.Parse(query)
	if err != nil {
		return nil, badQuery(query, err)
	}
	code, err := newKeyOrder().compile(parsed, gojq.WithInputIter(gojq.NewIter[any]()))
	if err != nil {
		return nil, badQuery(query, err)
	}
	return code, nil
}

// watchHeap returns a context that ends when the heap has grown by more than
// maxGrowth: gojq checks the context at each step, but does not bound its memory. A
// single step can still take 2 GB, such as "x" * 2e9; Source.Command bounds that.
func watchHeap(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	start := heapBytes()
	go func() {
		defer close(done)
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if heapBytes() > start+maxGrowth {
				cancel(limited.ErrMemory)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
