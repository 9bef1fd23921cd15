package tables

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// scalars is the column of elements that are not objects, and keys that of the keys of a map.
const (
	scalars = "value"
	keys    = "key"
)

const (
	rowsPath  = "*" // the values of a text with several
	wholePath = "." // the document
)

// json reads the rows of a JSON text: the elements of the array, or the members of the object, at
// l.path, or the values of a text with several.
func (l *layout) json(src io.Reader, yield func([]cell) error) error {
	r := jsonread.New(src, maxRow)
	steps, err := parsePath(l.path)
	if err != nil {
		return err
	}
	for values := 0; ; values++ {
		switch _, err := r.Peek(); {
		case err == io.EOF && values > 0:
			if l.repeated > 0 {
				l.notes = append(l.notes, fmt.Sprintf("%d cells are the last of several values with the same name in one object", l.repeated))
			}
			return nil
		case err != nil:
			return notJSON(err)
		}
		if l.path == rowsPath {
			err = l.element(r, "", yield)
		} else {
			err = l.follow(r, steps, yield)
		}
		if err != nil {
			return notJSON(err)
		}
	}
}

// follow reads the rows at the end of a path.
func (l *layout) follow(r *jsonread.Reader, steps []string, yield func([]cell) error) error {
	k, err := r.Peek()
	if err != nil {
		return err
	}
	if k != '[' && k != '{' {
		return r.Skip()
	}
	i, found := -1, false
	return r.Elements(func(name string) error {
		if i++; len(steps) == 0 {
			if k == '{' {
				name = "." + name // an empty name is not that of an element
			}
			return l.element(r, name, yield)
		}
		if step := steps[0]; step == "[]" || k == '{' && step == "."+name || k == '[' && step == fmt.Sprintf("[%d]", i) {
			note := fmt.Sprintf("an object has the name %q again; the rows of both are here", tools.Excerpt(name, 40))
			if found && step != "[]" && !slices.Contains(l.notes, note) {
				l.notes = append(l.notes, note)
			}
			found = true
			return l.follow(r, steps[1:], yield)
		}
		return r.Skip()
	})
}

// pathStep matches a step of a path: .name, [0], [], ["name"] or .["name"].
var pathStep = lazyregexp.New(`^(?:\.?\[\s*("(?:[^"\\]|\\.)*"|'[^']*'|\d*)\s*\]|\.([^.\[\]"]+))`)

// parsePath splits a path, as jq writes it, into steps: .NAME, [0] or [].
func parsePath(path string) (steps []string, err error) {
	if path == rowsPath || path == wholePath {
		return nil, nil
	}
	for rest := path; rest != ""; {
		m := pathStep.FindStringSubmatch(rest)
		if m == nil {
			return nil, noTable(fmt.Sprintf("the path %s is not one such as .data.items, .runs[0].results or .[\"a b\"]", tools.Excerpt(path, 100)))
		}
		rest = rest[len(m[0]):]
		switch name := m[1]; {
		case m[2] != "":
			steps = append(steps, "."+m[2])
		case strings.HasPrefix(name, `"`):
			if json.Unmarshal([]byte(name), &name) != nil {
				return nil, noTable(fmt.Sprintf("%s in the path is not a string of JSON", tools.Excerpt(name, 100)))
			}
			steps = append(steps, "."+name)
		case strings.HasPrefix(name, `'`):
			steps = append(steps, "."+name[1:len(name)-1])
		default:
			steps = append(steps, "["+name+"]")
		}
	}
	return steps, nil
}

// element reads one row. key is empty, or that of a member with "." before it.
func (l *layout) element(r *jsonread.Reader, key string, yield func([]cell) error) error {
	if key != "" && len(l.names) == 0 {
		l.add(keys)
	}
	row := make([]cell, len(l.names), len(l.names)+4)
	if key != "" {
		row[0] = cell{quoted, key[1:]}
	}
	set := func(name string) error {
		c, err := readCell(r)
		if err != nil {
			return err
		}
		if l.words && c.kind == quoted {
			c.kind = word
		}
		i, ok := l.place(name)
		for ok && len(row) <= i {
			row = append(row, cell{})
		}
		if ok {
			if row[i].kind != missing {
				l.repeated++
			}
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
		text, _ := jsontext.AppendUnquote(nil, value) // replaces what is not UTF-8
		return cell{quoted, string(text)}, nil
	case '0':
		return cell{number, string(value)}, nil
	}
	compact := slices.Clone(value)
	if err := (*jsontext.Value)(&compact).Compact(jsonread.Lenient...); err != nil {
		return cell{}, err
	}
	return cell{nested, string(compact)}, nil
}

const unsearched = "the document has too many keys to search all of them for tables; a path such as .data.items selects one"

// findJSON sets the path of l, if it is empty, to the table that is meant. In a log, one value without
// a table is a row.
func (l *layout) findJSON(src io.Reader, log bool) error {
	d, err := describe.JSON(src, 0)
	if err != nil {
		return notJSON(err)
	}
	places := d.Places()
	switch {
	case l.path != "":
	case d.Arrays():
		l.path = wholePath
		l.notes = append(l.notes, fmt.Sprintf("the text has %d arrays, whose elements are the rows", d.Values))
	case d.Values > 1, log && len(places) == 0:
		l.path = rowsPath
		return nil
	case len(places) == 0 && d.Unnamed:
		return noTable(unsearched)
	case len(places) == 0:
		return noTable("the JSON has no array and no map of objects")
	default:
		if l.path = places[0].Path; d.Unnamed {
			l.notes = append(l.notes, unsearched)
		}
	}
	if d.Values == 1 {
		l.others = slices.DeleteFunc(places, func(p describe.Place) bool { return p.Path == l.path })
	}
	return nil
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
