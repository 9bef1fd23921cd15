package jq

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// rowSource yields the JSON of rows.
type rowSource interface {
	// next returns a row, or io.EOF at the end. The bytes are valid until the next call.
	next() ([]byte, error)
	// offset returns the byte at which the next row begins.
	offset() int64
}

// jsonRows are the values of a text with several JSON values.
type jsonRows struct{ *jsonread.Reader }

func newJSONRows(src io.Reader) rowSource { return jsonRows{jsonread.New(src, maxElement)} }

func (r jsonRows) next() ([]byte, error) { return r.Value() }

func (r jsonRows) offset() int64 { return r.Offset() }

// logRows are the values in the lines of a log: a line that is JSON, or ends with an object.
type logRows struct {
	lines *bufio.Scanner
	at    int64 // where the next line begins
}

func newLogRows(src io.Reader) rowSource {
	r := &logRows{lines: bufio.NewScanner(src)}
	r.lines.Buffer(nil, maxElement)
	r.lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		r.at += int64(n)
		return n, line, err
	})
	return r
}

func (r *logRows) next() ([]byte, error) {
	for r.lines.Scan() {
		if row := jsonIn(r.lines.Bytes()); row != nil {
			return row, nil
		}
	}
	if r.lines.Err() != nil {
		return nil, r.lines.Err()
	}
	return nil, io.EOF
}

func (r *logRows) offset() int64 { return r.at }

// jsonIn returns the JSON of a line of a log, or nil.
func jsonIn(line []byte) jsontext.Value {
	row := jsontext.Value(line)
	if row.Kind() != '[' || !row.IsValid() {
		row = row[max(bytes.IndexByte(row, '{'), 0):]
	}
	if k := row.Kind(); k != '{' && k != '[' || !row.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil
	}
	return row
}

// isLog reports whether a text that begins with head is not JSON, but has lines with JSON.
func isLog(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\uFEFF"))
	dec := jsontext.NewDecoder(bytes.NewReader(head), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := dec.SkipValue()
	for err == nil {
		err = dec.SkipValue()
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return false
	}
	_, err = newLogRows(bytes.NewReader(head)).next()
	return err == nil
}

// tableRows are the rows of a table as objects. Cells without a column have their number
// as the key.
type tableRows struct {
	*csv.Reader
	columns [][]byte // as JSON
	row     []byte
}

func newTableRows(src io.Reader, comma rune) rowSource {
	r := csv.NewReader(src)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, true, -1, true
	return &tableRows{Reader: r}
}

// tableHeader returns the row of the names of the columns.
func tableHeader(head []byte, comma rune) ([]byte, error) {
	r := newTableRows(bytes.NewReader(head), comma).(*tableRows)
	_, err := r.Read()
	return head[:r.InputOffset()], err
}

func (r *tableRows) next() ([]byte, error) {
	if err := r.header(); err != nil {
		return nil, err
	}
	cells, err := r.Read()
	if err != nil {
		return nil, err
	}
	r.row = append(r.row[:0], '{')
	for i, cell := range cells {
		if i > 0 {
			r.row = append(r.row, ',')
		}
		if i < len(r.columns) {
			r.row = append(r.row, r.columns[i]...)
		} else {
			r.row = fmt.Appendf(r.row, `"%d"`, i+1)
		}
		r.row = appendJSON(append(r.row, ':'), cell)
	}
	r.row = append(r.row, '}')
	return r.row, nil
}

// header reads the names of the columns, unless it did so before.
func (r *tableRows) header() error {
	if r.columns != nil {
		return nil
	}
	names, err := r.Read()
	if err != nil {
		return err
	}
	names[0] = strings.TrimPrefix(names[0], "\uFEFF")
	for _, name := range names {
		r.columns = append(r.columns, appendJSON(nil, name))
	}
	return nil
}

func (r *tableRows) offset() int64 {
	_ = r.header() // next returns its error
	return r.InputOffset()
}

func appendJSON(to []byte, text string) []byte {
	out, err := jsontext.AppendQuote(to, text)
	if err != nil { // bytes that are not UTF-8
		out, _ = jsontext.AppendQuote(to, strings.ToValidUTF8(text, "\uFFFD"))
	}
	return out
}

// asArray is the text of a JSON array of rows. A space follows each row, so that the reader
// of a number finds its end without the next row.
type asArray struct {
	rows    rowSource
	rowAt   int64 // where the row that was read last begins
	rest    []byte
	started bool
	ended   bool
}

func (a *asArray) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.ended {
			return 0, io.EOF
		}
		at := a.rows.offset()
		row, err := a.rows.next()
		a.rowAt = at
		switch {
		case err == io.EOF && !a.started:
			a.rest, a.ended = []byte("[]"), true
		case err == io.EOF:
			a.rest, a.ended = []byte("]"), true
		case err != nil:
			return 0, err
		case a.started:
			a.rest = fmt.Appendf(nil, ",%s ", row)
		default:
			a.rest, a.started = fmt.Appendf(nil, "[%s ", row), true
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}
