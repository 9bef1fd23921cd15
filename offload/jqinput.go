package offload

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// decodeJSON decodes one value; numbers keep their text.
func decodeJSON(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// jqDocument evaluates a plan on a JSON document that is read once.
type jqDocument struct {
	ctx  context.Context
	scan *jsonScanner
	plan jqPlan
	// inArray says that each reads the elements of an array. resumed says that the text
	// begins at one of them.
	inArray, resumed bool
}

// errFound ends a walk early.
var errFound = errors.New("found")

// find goes to the part that the plan needs. It returns false if there is none, and
// then the value of the part is null.
func (d *jqDocument) find(path []any, f func() error) (bool, error) {
	if len(path) == 0 {
		return true, f()
	}
	c, err := d.scan.need()
	if err != nil {
		return false, err
	}
	name, byName := path[0].(string)
	switch {
	case c == 'n':
		return false, d.scan.skip() // null.x is null
	case byName && c != '{', !byName && c != '[':
		want := "an object"
		if !byName {
			want = "an array"
		}
		return false, tools.Errorf(tools.CodeInvalidArguments, "expected %s for .%v, but the value is %s", want, path[0], jsonType(c))
	}
	found, i := false, 0
	err = d.scan.elements(func(key []byte) error {
		here := !byName && i == path[0]
		if byName {
			var text string
			here = json.Unmarshal(key, &text) == nil && text == name
		}
		i++
		if !here {
			return d.scan.skip()
		}
		var err error
		if found, err = d.find(path[1:], f); err != nil {
			return err
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

func jsonType(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// value decodes the next value.
func (d *jqDocument) value() (any, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	data, err := d.scan.value()
	if err != nil {
		return nil, err
	}
	return decodeJSON(data)
}

// input returns the input of the planned query, except for needElements.
func (d *jqDocument) input() (in any, err error) {
	found, err := d.find(d.plan.path, func() (err error) {
		switch d.plan.need {
		case needLength, needKeys:
			in, err = d.summary()
		case needSlice:
			in, err = d.slice()
		default:
			in, err = d.value()
		}
		return err
	})
	if err == nil && !found {
		switch d.plan.need {
		case needLength:
			return 0, nil
		case needKeys:
			return nil, tools.Errorf(tools.CodeInvalidArguments, "null has no keys")
		}
	}
	return in, err
}

// summary returns the length or the keys of the next value.
func (d *jqDocument) summary() (any, error) {
	c, err := d.scan.need()
	if err != nil {
		return nil, err
	}
	if c != '[' && c != '{' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		code, err := compileJQ(map[jqNeed]string{needLength: "length", needKeys: "keys"}[d.plan.need])
		if err != nil {
			return nil, err
		}
		out, _ := code.RunWithContext(d.ctx, v).Next()
		if err, ok := out.(error); ok {
			return nil, err
		}
		return out, nil
	}
	n, names := 0, []string{}
	err = d.scan.elements(func(key []byte) error {
		if n++; n%1000 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		if d.plan.need == needKeys && key != nil {
			var name string
			if err := json.Unmarshal(key, &name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return d.scan.skip()
	})
	if err != nil || d.plan.need == needLength {
		return n, err
	}
	keys := make([]any, n)
	slices.Sort(names)
	for i := range keys {
		if keys[i] = i; c == '{' {
			keys[i] = names[i]
		}
	}
	return keys, nil
}

// slice returns some elements of the next value, an array.
func (d *jqDocument) slice() (any, error) {
	c, err := d.scan.need()
	if err != nil || c != '[' {
		if err == nil && c == 'n' {
			return nil, d.scan.skip()
		}
		if err == nil {
			err = tools.Errorf(tools.CodeInvalidArguments, "expected an array for the slice, but the value is %s", jsonType(c))
		}
		return nil, err
	}
	out, i := []any{}, 0
	var last [][]byte
	err = d.scan.elements(func([]byte) error {
		at := i
		i++
		if d.plan.to >= 0 && at >= d.plan.to {
			return errFound
		}
		if at < d.plan.from {
			return d.scan.skip()
		}
		if n := -d.plan.from; n > 0 { // the last n, which are decoded at the end
			data, err := d.scan.value()
			if last = append(last, bytes.Clone(data)); len(last) > n {
				last[0] = nil
				last = last[1:]
			}
			if err == nil && i%1000 == 0 {
				err = d.ctx.Err()
			}
			return err
		}
		v, err := d.value()
		out = append(out, v)
		return err
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	for _, data := range last {
		v, decodeErr := decodeJSON(data)
		if out = append(out, v); err == nil {
			err = decodeErr
		}
	}
	return out, err
}

// each calls f with the elements of the part.
func (d *jqDocument) each(f func(any) bool) error {
	each := func([]byte) error {
		v, err := d.value()
		if err == nil && !f(v) {
			return errFound
		}
		return err
	}
	found, err := d.find(d.plan.path, func() error {
		if d.resumed {
			d.inArray = true
			return d.scan.rest(']', each)
		}
		c, err := d.scan.need()
		if err != nil {
			return err
		}
		d.inArray = c == '['
		if c != '[' && c != '{' {
			if d.plan.optional {
				return d.scan.skip()
			}
			return tools.Errorf(tools.CodeInvalidArguments, "cannot iterate over %s", jsonType(c))
		}
		return d.scan.elements(each)
	})
	if err == nil && !found && !d.plan.optional {
		return tools.Errorf(tools.CodeInvalidArguments, "cannot iterate over null: the path .%s does not exist", strings.Trim(fmt.Sprint(d.plan.path), "[]"))
	}
	if errors.Is(err, errFound) {
		err = nil
	}
	return err
}

// rowSource yields the JSON of rows.
type rowSource interface {
	// next returns a row, or io.EOF at the end. The bytes are valid until the next call.
	next() ([]byte, error)
	// offset returns the byte at which the next row begins.
	offset() int64
}

// jsonRows are the values of a text with several JSON values.
type jsonRows struct{ *jsonScanner }

func newJSONRows(src io.Reader) rowSource { return jsonRows{newJSONScanner(src)} }

func (r jsonRows) next() ([]byte, error) {
	if _, err := r.peek(); err != nil {
		return nil, err
	}
	return r.value()
}

func (r jsonRows) offset() int64 { return r.used }

// tableRows are the rows of a table as objects. Cells without a column have their number
// as the key.
type tableRows struct {
	*csv.Reader
	columns [][]byte // as JSON
	row     bytes.Buffer
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
	r.row.Reset()
	r.row.WriteByte('{')
	for i, cell := range cells {
		if i > 0 {
			r.row.WriteByte(',')
		}
		if i < len(r.columns) {
			r.row.Write(r.columns[i])
		} else {
			fmt.Fprintf(&r.row, `"%d"`, i+1)
		}
		r.row.WriteByte(':')
		r.row.Write(appendJSON(r.row.AvailableBuffer(), cell))
	}
	r.row.WriteByte('}')
	return r.row.Bytes(), nil
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
	data, err := encode(text)
	if err != nil { // impossible for a string
		return append(to, `""`...)
	}
	return append(to, data...)
}

// asArray is the text of a JSON array of rows.
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
			a.rest = append([]byte(","), row...)
		default:
			a.rest, a.started = append([]byte("["), row...), true
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}
