package offload

import (
	"fmt"
	"io"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

// jqPlace is where a query that was stopped continues: at the row or element that begins
// at byte From, without its first Skip results.
type jqPlace struct {
	From int64
	Skip int
}

// jqSkips is more than the results of one row that a place can leave out.
const jqSkips = 100_000

// minProgress is how many bytes a run without results must search to be worth continuing.
const minProgress = 1 << 20

// offset returns a place as JQQuery.Offset: a negative number, so that it cannot be
// confused with a number of results. As a JSON number it is exact up to 90 GB.
func (p jqPlace) offset() int { return -int(p.From*jqSkips + int64(p.Skip)) }

// placeOf is the inverse of offset. A number of results is a place at the start.
func placeOf(offset int, size int64) (jqPlace, error) {
	if offset >= 0 {
		return jqPlace{Skip: offset}, nil
	}
	place := jqPlace{From: -int64(offset) / jqSkips, Skip: int(-int64(offset) % jqSkips)}
	if place.From < 0 || place.From >= size { // the least integer has no positive counterpart
		return jqPlace{}, tools.Errorf(tools.CodeInvalidArguments, "offset %d is after the end of the artifact; use an offset that an answer gave", offset)
	}
	return place, nil
}

// begin notes that the results of the row or element at a byte follow.
func (r *jqRun) begin(at int64) { r.row, r.before, r.placed = at, r.emitted, true }

// place returns where the run can continue, if it can. Results of a query that needs all
// rows at once do not continue.
func (r *jqRun) place(next int) (jqPlace, bool) {
	place := jqPlace{From: r.row, Skip: max(next-r.before, 0)}
	return place, r.placed && !r.whole && place.Skip < jqSkips && r.Size > maxJQInput
}

// stopped returns the answer of a run that its timeout ended.
func (r *jqRun) stopped() (*JQResult, bool) {
	place, ok := r.place(max(r.emitted, r.skip))
	if !ok || place.From-r.From < minProgress && len(r.res.Results) == 0 {
		return nil, false
	}
	r.res.Limited, r.res.NextOffset, r.res.Searched = true, place.offset(), place.From
	r.res.Notes = append(r.res.Notes, fmt.Sprintf("the query was stopped after %s: the bytes %d to %d of %d were searched (%d rows); continue with offset=%d", r.Time, r.From, place.From, r.Size, r.rows, r.res.NextOffset))
	return r.res, true
}

// resumed returns the part of an artifact that decides how a query is run, and then the
// part from which it continues.
func resumed(src io.ReaderAt, size, from int64) *io.SectionReader {
	if from == 0 {
		return io.NewSectionReader(src, 0, size)
	}
	head := min(size, maxJQInput)
	return io.NewSectionReader(&twoParts{src, head, from}, 0, head+size-from)
}

// twoParts is the first head bytes of src and all bytes from the byte from on.
type twoParts struct {
	src        io.ReaderAt
	head, from int64
}

func (t *twoParts) ReadAt(p []byte, off int64) (int, error) {
	if off >= t.head {
		return t.src.ReadAt(p, t.from+off-t.head)
	}
	n, err := t.src.ReadAt(p[:min(int64(len(p)), t.head-off)], off)
	if err == nil && n < len(p) {
		var m int
		m, err = t.src.ReadAt(p[n:], t.from)
		n += m
	}
	return n, err
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
