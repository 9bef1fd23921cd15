package jq

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// rowSource yields the JSON of rows.
type rowSource interface {
	// next returns a row, or io.EOF at the end. The bytes are valid until the next call.
	next() ([]byte, error)
	// notes say what a reader may not expect of the rows that were read.
	notes() []string
}

// jsonRows are the values of a text with several JSON values.
type jsonRows struct{ *jsonread.Reader }

func newJSONRows(src io.Reader, _ bool) rowSource {
	return jsonRows{jsonread.New(src, int64(maxDocument))}
}

func (r jsonRows) next() ([]byte, error) { return r.Value() }

func (r jsonRows) notes() []string { return nil }

// logRows are the values in a log. A value begins with a line, or is an object behind other text.
// It ends with that line or a later one.
type logRows struct {
	values *bufio.Scanner
	cut    bool // the input ends before the text does
	// open counts the values that the end of the input cuts.
	open int
	// failed is the size of what began like a value and was none.
	failed int
	found  bool // a value was found
	others int  // lines without a value
	all    bool // lines were read
}

const (
	// maxOpen bounds the values that are searched for their end up to the end of the input.
	maxOpen = 16
	// maxFailed bounds the search for values of several lines, in bytes. Each line of a hostile text
	// begins a value that fails much later.
	maxFailed = 4 << 20
)

func newLogRows(src io.Reader, cut bool) *logRows {
	r := &logRows{values: bufio.NewScanner(src), cut: cut}
	r.values.Buffer(nil, maxDocument)
	r.values.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		row, n := r.value(data, atEOF)
		return n, row, nil
	})
	return r
}

func (r *logRows) next() ([]byte, error) {
	if r.values.Scan() {
		return r.values.Bytes(), nil
	}
	r.all = true
	return nil, cmp.Or(r.values.Err(), io.EOF)
}

// value returns the first value in the lines of data, or nil, and how many bytes the lines up to
// its end have. If more data may complete a line or a value, these are the bytes before that line.
func (r *logRows) value(data []byte, atEOF bool) (value []byte, used int) {
	for used < len(data) {
		line, _, ended := bytes.Cut(data[used:], []byte("\n"))
		if !ended && !atEOF {
			return nil, used
		}
		start := len(line) - len(bytes.TrimLeft(line, " \t"))
		for _, c := range "[{" {
			if c == '{' {
				start = max(bytes.IndexByte(line, '{'), start)
			}
			if start == len(line) || line[start] != byte(c) {
				continue
			}
			rest, oneLine := data[used+start:], r.failed > maxFailed
			if oneLine {
				rest = rest[:min(len(line)-start+1, len(rest))]
			}
			dec := jsontext.NewDecoder(bytes.NewBuffer(rest), jsonread.Lenient...)
			err := dec.SkipValue()
			size := int(dec.InputOffset())
			switch {
			case err == nil:
				after, _, ended := bytes.Cut(rest[size:], []byte("\n"))
				if !ended && !atEOF {
					return nil, used
				}
				if len(bytes.TrimSpace(after)) == 0 {
					r.found = true
					return rest[:size], min(used+start+size+len(after)+1, len(data))
				}
			case errors.Is(err, io.ErrUnexpectedEOF) && r.open < maxOpen && !oneLine:
				if !atEOF {
					return nil, used
				}
				// A line that begins like the value is the row behind a broken one, not a part of it.
				last := r.found && r.others == 0 && !bytes.Contains(rest, []byte{'\n', rest[0]})
				if r.open++; r.cut || last {
					r.others += len(bytes.Split(bytes.TrimSpace(rest), []byte("\n")))
					return nil, len(data)
				}
			}
			if r.failed += size; err != nil && bytes.IndexByte(rest[:size], '{') > 0 {
				break // the object is in a broken array
			}
		}
		if len(bytes.TrimSpace(line)) > 0 {
			r.others++
		}
		used = min(used+len(line)+1, len(data))
	}
	return nil, used
}

// LogValues are the values in a log, one after the other.
type LogValues struct {
	rows *logRows
	rest []byte
}

// NewLogValues returns the values in a log.
func NewLogValues(src io.Reader) *LogValues { return &LogValues{rows: newLogRows(src, false)} }

// Note says what the values leave out, when they were read.
func (v *LogValues) Note() string { return v.rows.note() }

func (r *logRows) notes() []string { return []string{r.note()} }

func (r *logRows) note() string {
	note := "the text is not JSON as a whole: this is the JSON in its lines"
	if r.others > 0 && r.all {
		note += fmt.Sprintf(", without the %d lines that have none", r.others)
	}
	return note
}

func (v *LogValues) Read(p []byte) (int, error) {
	if len(v.rest) == 0 {
		row, err := v.rows.next()
		if err != nil {
			return 0, err
		}
		v.rest = append(append(v.rest[:0], row...), '\n')
	}
	n := copy(p, v.rest)
	v.rest = v.rest[n:]
	return n, nil
}

// isLog reports whether a text that begins with head is not JSON, but has values in its lines. Values of which the
// last one is not complete are a log, too.
func isLog(head []byte, cut bool) bool {
	values, _, err := jsonread.Values(head)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && (cut || values == 0) {
		return false
	}
	rows := newLogRows(bytes.NewReader(jsonread.WithoutBOM(head)), cut)
	_, err = rows.next()
	return err == nil || cut && rows.open > 0
}

// InLines reports whether at least a quarter of the start of a text is JSON in the lines of a
// log.
func InLines(head []byte, cut bool) bool {
	if !isLog(head, cut) {
		return false
	}
	rows, size := newLogRows(bytes.NewReader(head), cut), 0
	for row, err := rows.next(); err == nil; row, err = rows.next() {
		size += len(row)
	}
	return size*4 >= len(head) || cut && rows.open > 0
}

// tableRows are the rows of a table as objects.
type tableRows struct {
	form    describe.Form
	src     io.Reader
	rows    *describe.Rows // nil before the first one
	names   describe.Names
	columns [][]byte // the names as JSON
	row     []byte
}

func (r *tableRows) notes() []string {
	if r.rows == nil {
		return nil
	}
	return append(r.names.Renamed, r.rows.Notes()...)
}

func (r *tableRows) next() ([]byte, error) {
	if r.rows == nil {
		rows, err := r.form.Rows(r.src)
		if err != nil {
			return nil, err
		}
		r.rows = rows
		for i, name := range rows.Columns() {
			r.columns = append(r.columns, appendJSON(nil, r.names.Add(i, name)))
		}
	}
	cells, err := r.rows.Next()
	if err != nil {
		return nil, err
	}
	r.row = append(r.row[:0], '{')
	for i, cell := range cells {
		if i > 0 {
			r.row = append(r.row, ',')
		}
		if i == len(r.columns) {
			r.columns = append(r.columns, appendJSON(nil, r.names.Add(i, "")))
		}
		r.row = appendJSON(append(append(r.row, r.columns[i]...), ':'), cell)
	}
	r.row = append(r.row, '}')
	return r.row, nil
}

func appendJSON(to []byte, text string) []byte {
	out, err := jsontext.AppendQuote(to, text)
	if err != nil { // bytes that are not UTF-8
		out, _ = jsontext.AppendQuote(to, strings.ToValidUTF8(text, "\uFFFD"))
	}
	return out
}
