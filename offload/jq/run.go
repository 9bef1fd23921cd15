package jq

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// runner runs one query.
type runner struct {
	request
	res     *Result
	ctx     context.Context
	keys    *keyOrder
	left    int          // characters of results that may still be shown
	emitted int          // results, with those left out
	rows    int          // rows whose results are complete
	read    atomic.Int64 // bytes of the input

	row    int64 // where the current row or element begins
	before int   // results before it
	placed bool  // row is known
	shift  int64 // bytes of the artifact that precede the input
	whole  bool  // the query reads other rows itself, so it cannot continue
}

// minProgress is how many bytes a run without results must search to be worth continuing.
const minProgress = 1 << 20

// begin notes that the results of the row or element at a byte follow.
func (r *runner) begin(at int64) { r.row, r.before, r.placed = at, r.emitted, true }

// place returns where the run can continue, if it can. Results of a query that needs all
// rows at once do not continue.
func (r *runner) place(next int) (cursor.Place, bool) {
	return cursor.Place{Byte: r.row, More: int64(max(next-r.before, 0))}, r.placed && !r.whole && r.Size > Large
}

// stopped returns the answer of a run that its timeout ended.
func (r *runner) stopped() (*Result, bool) {
	place, ok := r.place(max(r.emitted, int(r.Place.More)))
	if !ok || place.Byte-r.Place.Byte < minProgress && len(r.res.Results) == 0 {
		return nil, false
	}
	r.res.Limited, r.res.NextCursor, r.res.Searched = true, place.String(), place.Byte
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("the query was stopped after %s: the bytes %d to %d of %d were searched (%d rows); continue with cursor=%q", r.Time, r.Place.Byte, place.Byte, r.Size, r.rows, r.res.NextCursor))
	return r.res, true
}

// streams reports whether a planned query yields the results of each element apart from
// those of the others, so that it can continue at any element.
func streams(q *gojq.Query) bool {
	switch {
	case q == nil || len(q.FuncDefs) > 0 || len(q.Patterns) > 0:
		return false
	case q.Term != nil && q.Term.Type == gojq.TermTypeFunc:
		return q.Term.Func.Name == elementsFunc
	case q.Term != nil && q.Term.Type == gojq.TermTypeQuery:
		return streams(q.Term.Query)
	case q.Term == nil && q.Op == gojq.OpPipe:
		return streams(q.Left)
	}
	return false
}

// runWithin runs a query with bounded time and memory.
func runWithin(ctx context.Context, req request, input io.Reader) (*Result, error) {
	timeout := tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s", tools.Excerpt(req.Query, 200), req.Time)
	bounded, cancel := context.WithTimeoutCause(ctx, req.Time, timeout)
	defer cancel()
	bounded, stop := watchHeap(bounded)
	defer stop()
	r := &runner{
		request: req, ctx: bounded, keys: newKeyOrder(), left: req.Limit,
		res: &Result{ArtifactID: req.ArtifactID, Query: req.Query, Results: []json.RawMessage{}},
	}
	err := r.run(progressReader{bounded, input, &r.read})
	switch {
	case err == nil || bounded.Err() == nil:
		return r.res, err
	case context.Cause(bounded) == limited.ErrMemory:
		return nil, limited.ErrMemory
	case context.Cause(bounded) != timeout:
		return nil, context.Cause(bounded)
	case req.Size > Large:
		if res, ok := r.stopped(); ok {
			return res, nil
		}
		if r.placed && !r.whole {
			return nil, tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s; it had searched %d of %d bytes. Simplify it, or use grep_knowledge", tools.Excerpt(req.Query, 200), req.Time, r.row, req.Size)
		}
		_, plan, _ := planOf(req.Query)
		return nil, tools.Errorf(tools.CodeTimeout, "the query %q took longer than %s; it had read %d of %d bytes, and it needs all of them in one run. %sask for the rows themselves, as in %s[] | select(...), because such a query continues where it was stopped; or use grep_knowledge, which also counts",
			tools.Excerpt(req.Query, 200), req.Time, r.read.Load(), req.Size, cmp.Or(sqlFor(req.ArtifactID, req.Query), "Use sql_knowledge, which works on disk. Or: "), pathText(plan.path))
	case r.rows > 0 && r.emitted > 0: // each row has its own results
		r.res.Limited = true
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("the query was stopped after %s: only %d of %d bytes were searched (%d rows)", req.Time, r.read.Load(), req.Size, r.rows))
		return r.res, nil
	}
	return nil, timeout
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
func (r *runner) run(src io.Reader) error {
	head, in, err := r.head(src)
	if err != nil {
		return err
	}
	if r.Comma != 0 {
		if r.Place.Byte > 0 {
			header, err := tableHeader(head, r.Comma)
			if err != nil {
				return err
			}
			in = io.MultiReader(bytes.NewReader(header), in)
			r.shift = r.Place.Byte - int64(len(header))
		}
		return r.eachRow(func(src io.Reader, _ bool) rowSource { return newTableRows(src, r.Comma) }, in, head)
	}
	r.shift = r.Place.Byte
	if isLog(head, int64(len(head)) < r.Size) {
		r.res.Notes = append(r.res.Notes, "the text is not JSON as a whole: the query ran on the JSON in its lines")
		return r.eachRow(func(src io.Reader, cut bool) rowSource { return newLogRows(src, cut) }, in, head)
	}
	if err := jsonread.New(bytes.NewReader(head), int64(maxElement)).Skip(); err != nil && int64(len(head)) < r.Size { // one large value
		return r.notJSON(r.document(in))
	}
	return r.notJSON(r.eachRow(newJSONRows, in, head))
}

// head returns the start of the artifact, and the input from which the query runs.
func (r *runner) head(src io.Reader) (head []byte, in io.Reader, err error) {
	size := int(min(r.Size, Large))
	if r.Place.Byte > 0 {
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
	if r.Comma != 0 {
		head = head[:min(len(head), 64<<10)]
	}
	return head, in, err
}

// eachRow applies the query to each row, or to the array of all rows if the query
// fits only that. rows is told whether its input is cut.
func (r *runner) eachRow(rows func(src io.Reader, cut bool) rowSource, in io.Reader, head []byte) error {
	sample := []any{}
	for next := rows(bytes.NewReader(head), int64(len(head)) < r.Size); len(sample) < sampleRows; {
		data, err := next.next()
		if err != nil {
			break // of an incomplete row too
		}
		v, err := r.keys.decode(data)
		if err != nil {
			break
		}
		sample = append(sample, v)
	}
	table := r.Comma != 0
	if summary := strings.TrimSpace(r.Query); table || len(sample) > 1 {
		switch _, object := first(sample).(map[string]any); {
		case summary == "length":
			r.res.Notes = append(r.res.Notes, "the number of rows")
			return r.document(&asArray{rows: rows(in, false)})
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
		return r.document(&asArray{rows: rows(in, false)})
	case !table && len(sample) > 1 && !r.fits(sample[0]) && r.fits(sample):
		return r.document(&asArray{rows: rows(in, false)})
	}
	next := rows(in, false)
	input := func() (any, bool) {
		data, err := next.next()
		if err == io.EOF {
			return nil, false
		}
		if err != nil {
			return err, true
		}
		v, err := r.keys.decode(data)
		if err != nil {
			return err, true
		}
		return v, true
	}
	query, err := gojq.Parse(r.Query)
	if err != nil {
		return badQuery(r.Query, err)
	}
	code, err := r.keys.compile(query, gojq.WithInputIter(iterFunc(func() (any, bool) {
		r.whole = true
		return input()
	})))
	if err != nil {
		return badQuery(r.Query, err)
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
func (r *runner) each(values []any) error {
	code, err := compile(r.Query)
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
func (r *runner) fits(v any) bool {
	code, err := compile(r.Query)
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
func (r *runner) document(in io.Reader) error {
	query, plan, err := planOf(r.Query)
	if err != nil {
		return badQuery(r.Query, err)
	}
	rows, _ := in.(*asArray)
	r.whole = plan.need != needElements || !streams(query)
	if r.Place.Byte > 0 {
		if r.whole {
			return tools.Errorf(tools.CodeInvalidArguments, "the query %q cannot continue at a place in the artifact; use the cursor with the query that was stopped", tools.Excerpt(r.Query, 200))
		}
		if plan.path = nil; rows == nil { // the input begins at an element, perhaps with the comma before it
			rest := bufio.NewReader(in)
			for c, err := rest.ReadByte(); ; c, err = rest.ReadByte() {
				if err != nil || !strings.ContainsRune(", \t\r\n", rune(c)) {
					_ = rest.UnreadByte() // a read error comes again
					break
				}
				r.shift++
			}
			in, r.shift = io.MultiReader(strings.NewReader("["), rest), r.shift-1
		}
	}
	d := &document{ctx: r.ctx, in: jsonread.New(in, int64(maxElement)), plan: plan, keys: r.keys}
	var failed error
	next, stop := iter.Pull(func(yield func(any) bool) {
		if plan.need == needElements {
			failed = d.elements(yield)
		}
	})
	defer stop()
	code, err := r.keys.compile(query, gojq.WithInputIter(gojq.NewIter[any]()), gojq.WithIterFunction(elementsFunc, 0, 0, func(any, []any) gojq.Iter {
		return iterFunc(func() (any, bool) {
			v, ok := next()
			if !ok && failed != nil {
				return failed, true
			}
			switch {
			case ok && rows != nil:
				r.begin(r.shift + rows.rowAt)
			case ok && d.inArray:
				r.begin(r.shift + d.at)
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
