package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
)

// maxDepth is how deep in objects an array may be to be found.
const maxDepth = 4

// scalars is the column of elements that are not objects.
const scalars = "value"

// candidate is an array that may be the table.
type candidate struct {
	layout
	rows int
}

// json reads the rows of a JSON text: the elements of the array at l.path, or the values of a
// text with several.
func (l *layout) json(src io.Reader, yield func([]cell) error) error {
	r := jsonread.New(src, maxRow)
	for values := 0; ; values++ {
		k, err := r.Peek()
		if err == io.EOF && values > 0 {
			return nil
		}
		if err != nil {
			return notJSON(err)
		}
		switch {
		case l.path == rowsPath:
			err = l.element(r, yield)
		case k == '[' || k == '{':
			err = l.follow(r, "", yield)
		default:
			err = r.Skip()
		}
		if err != nil {
			return notJSON(err)
		}
	}
}

const (
	rowsPath  = "*" // the values of a text with several
	wholePath = "." // the document
)

// follow reads the array at l.path.
func (l *layout) follow(r *jsonread.Reader, path string, yield func([]cell) error) error {
	k, err := r.Peek()
	if err != nil {
		return err
	}
	if k == '[' && (path == l.path || path == "" && l.path == wholePath) {
		return r.Elements(func(string) error { return l.element(r, yield) })
	}
	if k != '{' {
		return r.Skip()
	}
	return r.Elements(func(name string) error {
		inner := path + step(name)
		if inner != l.path && !strings.HasPrefix(l.path, inner+".") && !strings.HasPrefix(l.path, inner+"[") {
			return r.Skip()
		}
		return l.follow(r, inner, yield)
	})
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

// step returns the part of a path, as in jq, that leads to a member.
func step(name string) string {
	if plainName.MatchString(name) {
		return "." + name
	}
	text, _ := json.Marshal(name) // a string always has a JSON form
	return "[" + string(text) + "]"
}

// element reads one row.
func (l *layout) element(r *jsonread.Reader, yield func([]cell) error) error {
	row := make([]cell, len(l.names), len(l.names)+4)
	set := func(name string) error {
		c, err := readCell(r)
		if err != nil {
			return err
		}
		i, ok := l.place(name)
		for ok && len(row) <= i {
			row = append(row, cell{})
		}
		if ok {
			row[i] = c
		}
		return nil
	}
	k, err := r.Peek()
	switch {
	case err != nil:
		return err
	case k == '{':
		err = r.Elements(set)
	case k == '[':
		n := 0
		err = r.Elements(func(string) error { n++; return set(fmt.Sprintf("c%d", n)) })
	default:
		err = set(scalars)
	}
	if err != nil {
		return err
	}
	return yield(row)
}

// readCell reads a value.
func readCell(r *jsonread.Reader) (cell, error) {
	value, err := r.Value()
	if err != nil {
		return cell{}, err
	}
	switch jsontext.Value(value).Kind() {
	case 'n':
		return cell{}, nil
	case 't', 'f':
		return cell{boolean, string(value)}, nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			text = []byte(strings.ToValidUTF8(string(text), "\uFFFD"))
		}
		return cell{quoted, string(text)}, nil
	case '0':
		return cell{number, string(value)}, nil
	}
	compact := slices.Clone(value)
	if err := (*jsontext.Value)(&compact).Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return cell{}, err
	}
	return cell{nested, string(compact)}, nil
}

// findJSON sets the path of l to the longest array and finds all columns. In a log, one value
// without an array is a row. size is about that of src.
func (l *layout) findJSON(src io.Reader, size int64, log bool) error {
	in := bufio.NewReaderSize(src, int(min(2*size, maxRow))+1)
	head, err := in.Peek(in.Size())
	if err != nil && err != io.EOF {
		return err
	}
	r := jsonread.New(in, maxRow)
	if hasSeveral(head) {
		return l.findRows(r)
	}
	var found []*candidate
	if err = search(r, "", 0, &found); err == nil {
		_, err = r.Peek()
	}
	switch {
	case err == nil:
		return noTable(fmt.Sprintf("the first of its values has more than %d bytes", maxRow))
	case err != io.EOF:
		return notJSON(err)
	case len(found) == 0 && log:
		return l.findRows(jsonread.New(bytes.NewReader(head), maxRow))
	case len(found) == 0:
		return noTable("the JSON has no array")
	}
	best := slices.MaxFunc(found, func(a, b *candidate) int { return a.rows - b.rows })
	*l = best.layout
	for _, c := range found {
		if c != best {
			l.others = append(l.others, c.path)
		}
	}
	return nil
}

// hasSeveral reports whether the start of a text has a whole JSON value and the start of another:
// its values are rows.
func hasSeveral(head []byte) bool {
	r := jsonread.New(bytes.NewReader(head), maxRow)
	if r.Skip() != nil {
		return false
	}
	_, err := r.Peek()
	return err != io.EOF
}

// findRows finds the columns of rows that are the values of a text.
func (l *layout) findRows(r *jsonread.Reader) error {
	rows := &candidate{}
	for {
		_, err := r.Peek()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = rows.add(r)
		}
		if err != nil {
			return notJSON(err)
		}
	}
	*l = rows.layout
	l.path = rowsPath
	return nil
}

// search finds arrays in objects.
func search(r *jsonread.Reader, path string, depth int, found *[]*candidate) error {
	k, err := r.Peek()
	switch {
	case err != nil:
		return err
	case k == '[':
		c := &candidate{layout: layout{path: path}}
		if path == "" {
			c.path = wholePath
		}
		*found = append(*found, c)
		return r.Elements(func(string) error { return c.add(r) })
	case k == '{' && depth < maxDepth:
		return r.Elements(func(name string) error { return search(r, path+step(name), depth+1, found) })
	}
	return r.Skip()
}

// add reads a row for its columns.
func (c *candidate) add(r *jsonread.Reader) error {
	c.rows++
	return c.element(r, func(row []cell) error { c.see(row); return nil })
}

func notJSON(err error) error {
	switch {
	case errors.Is(err, jsonread.ErrTooLong):
		return noTable(fmt.Sprintf("a row or a value has more than %d bytes", maxRow))
	case errors.Is(err, jsonread.ErrNotJSON):
		return noTable(err.Error())
	}
	return err
}
