package offload

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

// jqRun is one run of a query.
type jqRun struct {
	jqRequest
	res     *JQResult
	ctx     context.Context
	left    int          // characters of results that may still be shown
	skip    int          // results to leave out
	emitted int          // results, with those left out
	rows    int          // rows whose results are complete
	read    atomic.Int64 // bytes of the input

	row    int64 // where the current row or element begins
	before int   // results before it
	placed bool  // row is known
	shift  int64 // bytes of the artifact that precede the input
	whole  bool  // the query reads other rows itself, so it cannot continue
}

// runWithin runs a query with bounded time and memory.
func runWithin(ctx context.Context, req jqRequest, input io.Reader) (*JQResult, error) {
	timeout := tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(req.Query, 200), req.Time)
	limited, cancel := context.WithTimeoutCause(ctx, req.Time, timeout)
	defer cancel()
	limited, stop := watchHeap(limited)
	defer stop()
	r := &jqRun{
		jqRequest: req, ctx: limited, left: req.Limit, skip: req.Offset,
		res: &JQResult{ArtifactID: req.ArtifactID, Query: req.Query, Results: []json.RawMessage{}},
	}
	err := r.run(progressReader{limited, input, &r.read})
	switch {
	case err == nil || limited.Err() == nil:
		return r.res, err
	case context.Cause(limited) == errJQMemory:
		return nil, memoryError(req)
	case context.Cause(limited) != timeout:
		return nil, context.Cause(limited)
	case req.Size > maxJQInput:
		if res, ok := r.stopped(); ok {
			return res, nil
		}
		if r.placed && !r.whole {
			return nil, tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s; it had searched %d of %d bytes. Simplify it, or use %s", tools.Excerpt(req.Query, 200), req.Time, r.row, req.Size, ToolGrep)
		}
		return nil, tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s; it had read %d of %d bytes, and it needs all of them in one run. Ask for the rows themselves, as in .[] | select(...), because such a query continues where it was stopped; or use %s, which also counts", tools.Excerpt(req.Query, 200), req.Time, r.read.Load(), req.Size, ToolGrep)
	case r.rows > 0 && r.emitted > 0: // each row has its own results
		r.res.Limited = true
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("the query was stopped after %s: only %d of %d bytes were searched (%d rows)", req.Time, r.read.Load(), req.Size, r.rows))
		return r.res, nil
	}
	return nil, timeout
}

// memoryError says that a query takes too much memory.
func memoryError(req jqRequest) error {
	if req.Size <= maxJQInput {
		return errJQMemory
	}
	return tools.Errorf(tools.CodeInvalidArguments, "the query %q needs too much memory: it needs the whole document (%d bytes) or a large part of it at a time; reduce each element first, as in [.[] | {name}] | group_by(.name), or use %s", tools.Excerpt(req.Query, 200), req.Size, ToolGrep)
}

// progressReader counts the bytes that are read, and ends with its context: a query may read
// much before its first step.
type progressReader struct {
	ctx context.Context
	r   io.Reader
	n   *atomic.Int64
}

func (c progressReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func badQuery(query string, err error) error {
	return tools.Errorf(tools.CodeInvalidArguments, "bad jq query %q: %v", tools.Excerpt(query, 200), err)
}

// sampleRows is how many rows decide whether a query is about each row or about all.
const sampleRows = 5

// run applies the query to the document, or to each of its rows.
func (r *jqRun) run(src io.Reader) error {
	if _, err := compileJQ(r.Query, gojq.WithInputIter(gojq.NewIter[any]())); err != nil {
		return err
	}
	head, in, err := r.head(src)
	if err != nil {
		return err
	}
	if comma := r.comma(head); comma != 0 {
		if r.From > 0 {
			header, err := tableHeader(head, comma)
			if err != nil {
				return err
			}
			in = io.MultiReader(bytes.NewReader(header), in)
			r.shift = r.From - int64(len(header))
		}
		return r.eachRow(func(src io.Reader) rowSource { return newTableRows(src, comma) }, in, head)
	}
	r.shift = r.From
	first := newJSONScanner(bytes.NewReader(head))
	if err := first.skip(); err != nil && int64(len(head)) < r.Size { // one large value
		return r.notJSON(r.document(in))
	}
	return r.notJSON(r.eachRow(newJSONRows, in, head))
}

// comma returns the separator of a table that begins with head, or 0.
func (r *jqRun) comma(head []byte) rune { return separator(r.Media, head) }

// head returns the start of the artifact, and the input from which the query runs.
func (r *jqRun) head(src io.Reader) (head []byte, in io.Reader, err error) {
	size := int(min(r.Size, maxJQInput))
	if r.From > 0 {
		head = make([]byte, size)
		_, err = io.ReadFull(src, head)
		in = src
	} else {
		buffered := bufio.NewReaderSize(src, size+1)
		head, err = buffered.Peek(size)
		in = buffered
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	if r.comma(head) != 0 {
		head = head[:min(len(head), 64<<10)]
	}
	return head, in, err
}

// eachRow applies the query to each row, or to the array of all rows if the query
// fits only that.
func (r *jqRun) eachRow(rows func(io.Reader) rowSource, in io.Reader, head []byte) error {
	sample := []any{}
	for next := rows(bytes.NewReader(head)); len(sample) < sampleRows; {
		data, err := next.next()
		if err != nil {
			break // of an incomplete row too
		}
		v, err := decodeJSON(data)
		if err != nil {
			break
		}
		sample = append(sample, v)
	}
	table := r.comma(head) != 0
	if summary := strings.TrimSpace(r.Query); table || len(sample) > 1 {
		switch _, object := first(sample).(map[string]any); {
		case summary == "length":
			r.res.Notes = append(r.res.Notes, "the number of rows")
			return r.document(&asArray{rows: rows(in)})
		case summary == "keys" && object:
			r.res.Notes = append(r.res.Notes, "the keys of the first row")
			return r.each(sample[:1])
		}
	}
	if note := aboutCells(r.Query); table && note != "" {
		r.res.Notes = append(r.res.Notes, note)
	}
	switch {
	case table && r.fits(sample) && r.Query != ".":
		return r.document(&asArray{rows: rows(in)})
	case !table && len(sample) > 1 && !r.fits(sample[0]) && r.fits(sample):
		return r.document(&asArray{rows: rows(in)})
	}
	next := rows(in)
	input := func() (any, bool) {
		data, err := next.next()
		if err == io.EOF {
			return nil, false
		}
		if err != nil {
			return err, true
		}
		v, err := decodeJSON(data)
		if err != nil {
			return fmt.Errorf("%w: %v", errNotJSON, err), true
		}
		return v, true
	}
	code, err := compileJQ(r.Query, gojq.WithInputIter(iterFunc(func() (any, bool) {
		r.whole = true
		return input()
	})))
	if err != nil {
		return err
	}
	for {
		r.begin(r.shift + next.offset())
		v, ok := input()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			return err
		}
		more, err := r.collect(code.RunWithContext(r.ctx, v))
		if err != nil || !more {
			return err
		}
		if r.rows++; r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
}

// each applies the query to values.
func (r *jqRun) each(values []any) error {
	code, err := compileJQ(r.Query, gojq.WithInputIter(gojq.NewIter[any]()))
	for _, v := range values {
		if err == nil {
			_, err = r.collect(code.RunWithContext(r.ctx, v))
		}
	}
	return err
}

func first(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// usesNumbers matches the queries that mean the numbers in cells.
var usesNumbers = regexp.MustCompile(`[<>=]=?\s*-?\d|\b(add|sort|sort_by|min|max|min_by|max_by|floor|round)\b|[-+*/]\s*\.\w`)

// aboutCells returns a note for a query that seems to calculate with the cells of a table:
// in jq, each string is greater than each number, and "add" joins strings.
func aboutCells(query string) string {
	if !usesNumbers.MatchString(query) || strings.Contains(query, "tonumber") {
		return ""
	}
	return "each cell of a table is a string; to sort, compare or add numbers, write (.column|tonumber)"
}

type iterFunc func() (any, bool)

func (f iterFunc) Next() (any, bool) { return f() }

// fits reports whether the query accepts a value: its first results are no errors.
func (r *jqRun) fits(v any) bool {
	code, err := compileJQ(r.Query, gojq.WithInputIter(gojq.NewIter[any]()))
	if err != nil {
		return true // an error for both
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.Time/10)
	defer cancel()
	iter := code.RunWithContext(ctx, v)
	for range 100 {
		v, ok := iter.Next()
		if !ok {
			return true
		}
		if _, bad := v.(error); bad {
			return ctx.Err() != nil // a slow query is not one that fails
		}
	}
	return true
}

// document applies the query to one value, which is read in parts if possible.
func (r *jqRun) document(in io.Reader) error {
	query, plan, err := planJQ(r.Query)
	if err != nil {
		return badQuery(r.Query, err)
	}
	d := &jqDocument{ctx: r.ctx, scan: newJSONScanner(in), plan: plan}
	rows, _ := in.(*asArray)
	r.whole = plan.need != needElements || !streams(query)
	if r.From > 0 {
		if r.whole {
			return tools.Errorf(tools.CodeInvalidArguments, "the query %q cannot continue at a place in the artifact; use the offset with the query that was stopped", tools.Excerpt(r.Query, 200))
		}
		d.plan.path, d.resumed = nil, rows == nil
	}
	var failed error
	next, stop := iter.Pull(func(yield func(any) bool) {
		if plan.need == needElements {
			failed = d.each(yield)
		}
	})
	defer stop()
	code, err := gojq.Compile(query, gojq.WithInputIter(gojq.NewIter[any]()), gojq.WithIterFunction(elementsFunc, 0, 0, func(any, []any) gojq.Iter {
		return iterFunc(func() (any, bool) {
			v, ok := next()
			if !ok && failed != nil {
				return failed, true
			}
			switch {
			case ok && rows != nil:
				r.begin(r.shift + rows.rowAt)
			case ok && d.inArray:
				r.begin(r.shift + d.scan.at)
			}
			if ok {
				r.rows++
			}
			return v, ok
		})
	}))
	if err != nil {
		return badQuery(r.Query, err)
	}
	var input any
	if plan.need != needElements {
		if input, err = d.input(); err != nil {
			return r.inQuery(err)
		}
	}
	_, err = r.collect(code.RunWithContext(r.ctx, input))
	return err
}
