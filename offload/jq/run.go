package jq

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/internal/markup"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// runner runs one query.
type runner struct {
	request
	res     *Result
	ctx     context.Context
	keys    *keyOrder
	left    int          // characters of results that may still be shown
	emitted int64        // results, with those left out
	read    atomic.Int64 // bytes of the input
}

// runWithin runs a query with bounded memory, until its context ends.
func runWithin(ctx context.Context, req request, input io.Reader) (*Result, error) {
	bounded, stop := watchHeap(ctx)
	defer stop()
	r := &runner{
		request: req, ctx: bounded, keys: newKeyOrder(), left: req.Chars,
		res: &Result{ArtifactID: req.ArtifactID, Query: req.Query, Results: []json.RawMessage{}},
	}
	r.keys.watch.query = req.Query
	err := r.run(progressReader{bounded, input, &r.read})
	r.res.Notes = append(r.res.Notes, r.keys.watch.notes...)
	if req.Skip > 0 {
		r.res.Notes = append(r.res.Notes, fmt.Sprintf("earlier answers have the first %d results", req.Skip))
	}
	if err == nil && !r.res.Limited {
		r.noteUnknown()
	}
	if err == nil || bounded.Err() == nil {
		return r.res, err
	}
	reached, timeUp := limited.TimeUp(bounded)
	if !timeUp {
		return nil, context.Cause(bounded)
	}
	stopped := fmt.Sprintf("stopped: %s. It had searched %d of %d bytes. %s", reached, r.read.Load(), req.Size, instead(req.ArtifactID, req.Query))
	if len(r.res.Results) > 0 {
		r.res.Limited = true
		r.res.Notes = append(r.res.Notes, "the query was "+stopped)
		return r.res, nil
	}
	return nil, tools.Errorf(tools.CodeTimeout, "the query %q was %s", tools.Excerpt(req.Query, 200), stopped)
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
	hint := ""
	if m := dashed.FindStringSubmatch(query); m != nil && strings.Contains(err.Error(), "not defined") {
		hint = fmt.Sprintf("; a name with %q is written .%q", "-", m[1])
	}
	if strings.Contains(query, "'") && strings.Contains(err.Error(), "unexpected token") {
		hint = "; texts have double quotes in jq"
	}
	return tools.Errorf(tools.CodeInvalidArguments, "bad jq query %q: %v%s", tools.Excerpt(query, 200), err, hint)
}

// dashed matches a name with dashes, which jq reads as a difference.
var dashed = lazyregexp.New(`\.([A-Za-z_]\w*(?:-[A-Za-z_]\w*)+)`)

// sampleRows is how many rows decide whether a query is about each row or about all.
const sampleRows = 5

// run applies the query to the document, or to each of its rows.
func (r *runner) run(src io.Reader) error {
	if r.Markup != "" {
		data, err := markup.Read(src, r.Markup)
		if err != nil {
			return err
		}
		r.Size = int64(len(data))
		return r.notJSON(r.eachRow(newJSONRows, bytes.NewReader(data), data))
	}
	in := bufio.NewReaderSize(src, int(min(r.Size, large))+1)
	head, err := in.Peek(int(min(r.Size, large)))
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case r.Form != nil:
		r.res.Notes = append(r.res.Notes, r.Form.Assumed...)
		return r.eachRow(func(src io.Reader, _ bool) rowSource { return &tableRows{form: *r.Form, src: src} }, in, head)
	case r.Log || isLog(head, int64(len(head)) < r.Size):
		return r.eachRow(func(src io.Reader, cut bool) rowSource { return newLogRows(src, cut) }, in, head)
	}
	return r.notJSON(r.eachRow(newJSONRows, in, head)) // a document is one row
}

// eachRow applies the query to each row, or to the array of all rows if the query
// fits only that. rows is told whether its input is cut.
func (r *runner) eachRow(rows func(src io.Reader, cut bool) rowSource, in io.Reader, head []byte) error {
	sample := []any{}
	for next := rows(bytes.NewReader(head), int64(len(head)) < r.Size); len(sample) < sampleRows; {
		v, err := r.next(next)
		if err != nil {
			break // of an incomplete row too
		}
		sample = append(sample, v)
	}
	all := rows(in, false)
	defer func() { r.res.Notes = append(r.res.Notes, all.notes()...) }()
	switch query := strings.TrimSpace(r.Query); {
	case r.Form == nil && len(sample) <= 1: // to try the query on a large document would take long
	case query == "length":
		r.res.Notes = append(r.res.Notes, "the number of rows")
		return r.count(all)
	case query == "keys" && len(sample) > 0:
		r.res.Notes = append(r.res.Notes, "the keys of the first row")
		return r.apply(sample[0])
	case len(calls(r.query(), "inputs")) > 0:
		r.res.Notes = append(r.res.Notes, "inputs has the rows behind the first one, which is the value of .")
	case query != "." && r.aboutAll(sample):
		return r.array(all)
	}
	return r.each(all)
}

// aboutAll reports whether the query is about the array of all rows, of which sample has the first ones: it fits that, and
// fewer than half of the rows, unless they are those of a table. Its strict form decides, or the query if that fits nothing.
func (r *runner) aboutAll(sample []any) bool {
	for _, query := range []string{r.strict(), r.Query} {
		fitting := 0 // rows; the first one may be empty, and any of them odd
		for _, row := range sample {
			if r.fits(row, query) {
				fitting++
			}
		}
		if all := r.fits(sample, query) && (r.Form != nil || 2*fitting < len(sample)); all || fitting > 0 {
			return all
		}
	}
	return false
}

// strict returns the query without each "?" and try, which hide that it does not fit a value.
func (r *runner) strict() string {
	query := r.query()
	each(reflect.ValueOf(query), func(node any) bool {
		if term, ok := node.(*gojq.Term); ok {
			term.SuffixList = slices.DeleteFunc(term.SuffixList, func(s *gojq.Suffix) bool { return s.Optional })
			if term.Type == gojq.TermTypeTry {
				term.Type, term.Query = gojq.TermTypeQuery, term.Try.Body
			}
		}
		return true
	})
	return query.String()
}

// count adds the number of rows.
func (r *runner) count(rows rowSource) error {
	for n := 0; ; n++ {
		if _, err := rows.next(); err == io.EOF {
			_, err = r.add(n)
			return err
		} else if err != nil {
			return err
		}
	}
}

// each applies the query to each row.
func (r *runner) each(rows rowSource) error {
	code, err := r.keys.compile(r.query(), gojq.WithInputIter(iterFunc(func() (any, bool) {
		v, err := r.next(rows)
		if err != nil && err != io.EOF {
			return err, true
		}
		return v, err == nil
	})))
	if err != nil {
		return badQuery(r.Query, err)
	}
	for {
		v, err := r.next(rows)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := r.collect(code.RunWithContext(r.ctx, v))
		if err = cmp.Or(err, r.ctx.Err()); err != nil || !more {
			return err
		}
	}
}

// array applies the query to the array of all rows.
func (r *runner) array(rows rowSource) error {
	all := []any{}
	for size := 0; ; {
		data, err := rows.next()
		if err == io.EOF {
			return r.apply(all)
		}
		if err != nil {
			return err
		}
		if size += len(data); size > maxDocument {
			return limited.ErrMemory
		}
		v, err := r.keys.decode(data)
		if err != nil {
			return err
		}
		all = append(all, v)
	}
}

// query returns the query, which Run checked.
func (r *runner) query() *gojq.Query {
	query, _ := gojq.Parse(r.Query)
	return query
}

// next returns the next row. The error at the end is io.EOF.
func (r *runner) next(rows rowSource) (any, error) {
	data, err := rows.next()
	if err != nil {
		return nil, err
	}
	return r.keys.decode(data)
}

// apply adds the results of the query on a value.
func (r *runner) apply(v any) error {
	code, err := r.keys.compile(r.query(), gojq.WithInputIter(gojq.NewIter[any]()))
	if err != nil {
		return badQuery(r.Query, err)
	}
	_, err = r.collect(code.RunWithContext(r.ctx, v))
	return err
}

type iterFunc func() (any, bool)

func (f iterFunc) Next() (any, bool) { return f() }

// fits reports whether a query accepts a value: its first results are no errors.
func (r *runner) fits(v any, query string) bool {
	code, err := compile(query)
	if err != nil {
		return true // an error for both
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Second)
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
