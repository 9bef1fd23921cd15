package jq

import (
	"io"
	"slices"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
)

// document applies the query to one value, which is read in parts if possible.
func (r *runner) document(src io.Reader) error {
	plan := planOf(r.query())
	in := jsonread.New(src, int64(maxElement))
	found, err := seek(in, plan.path)
	if err != nil {
		return err
	}
	if !found {
		return r.apply(plan.rest, nil)
	}
	kind, err := in.Peek()
	if err != nil {
		return err
	}
	if plan.need != needAll && (kind == '[' || kind == '{' && plan.need != needRange) {
		if err := in.Open(); err != nil {
			return err
		}
		return r.parts(plan, &elementRows{Reader: in, object: kind == '{'})
	}
	data, err := in.Value()
	if err != nil {
		return err
	}
	v, err := r.keys.decode(data)
	if err != nil {
		return err
	}
	return r.apply(plan.rest, v)
}

// seek goes to the value at a path, and reports whether there is one.
func seek(in *jsonread.Reader, path []any) (found bool, err error) {
	for _, step := range path {
		kind, err := in.Peek()
		if err != nil {
			return false, err
		}
		name, byName := step.(string)
		switch {
		case kind == 'n':
			return false, nil // null.x is null
		case byName && kind != '{':
			return false, tools.Errorf(tools.CodeInvalidArguments, "expected an object for .%v, but the value is %s", step, jsonread.TypeOf(kind))
		case !byName && kind != '[':
			return false, tools.Errorf(tools.CodeInvalidArguments, "expected an array for .[%v], but the value is %s", step, jsonread.TypeOf(kind))
		}
		if err := in.Open(); err != nil {
			return false, err
		}
		for i := 0; ; i++ {
			here, more, err := in.Next()
			if err != nil || !more {
				return false, err
			}
			if byName && here == name || !byName && i == step {
				break
			}
			if err := in.Skip(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// array applies the query to the array of all rows.
func (r *runner) array(rows rowSource) error {
	p := planOf(r.query())
	if len(p.path) > 0 { // .[3].id; a name is an error of the query
		n, _ := p.path[0].(int)
		p = plan{need: needRange, from: n, to: n + 1, rest: r.query()}
	}
	return r.parts(p, rows)
}

// parts applies the query to the elements of an array, or to the members of an object.
func (r *runner) parts(p plan, rows rowSource) error {
	var input any
	var err error
	query := p.after
	switch p.need {
	case needEach:
		return r.each(rows, p.each, r.add)
	case needMapped:
		results := []any{}
		err = r.each(rows, p.each, func(v any) (bool, error) {
			results = append(results, v)
			return true, nil
		})
		input = results
	case needLength, needKeys:
		input, err = summary(rows, p.need == needKeys)
	case needRange:
		query = p.rest
		input, err = r.elements(rows, p.from, p.to)
	default:
		query = p.rest
		input, err = r.elements(rows, 0, -1)
	}
	if err != nil {
		return err
	}
	return r.apply(query, input)
}

// elements returns an array with the elements from one to another, and null for those before them:
// the query, which stays as it is, does not look at these.
func (r *runner) elements(rows rowSource, from, to int) ([]any, error) {
	all := []any{}
	for to < 0 || len(all) < to {
		if len(all) < from {
			if err := skip(rows); err != nil {
				return all, unlessEnd(err)
			}
			all = append(all, nil)
			continue
		}
		v, err := r.next(rows)
		if err != nil {
			return all, unlessEnd(err)
		}
		if all = append(all, v); from < 0 && len(all)+from > 0 {
			all[len(all)+from-1] = nil
		}
	}
	return all, nil
}

// summary returns the length of an array or object, or its keys.
func summary(rows rowSource, keys bool) (any, error) {
	names := []any{}
	for n := 0; ; n++ {
		err := skip(rows)
		if err != nil && !keys {
			return n, unlessEnd(err)
		}
		if err != nil {
			slices.SortFunc(names, gojq.Compare)
			return names, unlessEnd(err)
		}
		if e, ok := rows.(*elementRows); ok && keys && e.object {
			names = append(names, e.name)
		} else if keys {
			names = append(names, n)
		}
	}
}

func unlessEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// elementRows are the elements of an array, or the members of an object, that is open.
type elementRows struct {
	*jsonread.Reader
	object bool
	name   string // of the last member
}

func (e *elementRows) next() ([]byte, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	return e.Value()
}

func (e *elementRows) enter() error {
	name, more, err := e.Next()
	if err == nil && !more {
		return io.EOF
	}
	e.name = name
	return err
}

// skip skips a row. An element may have any size then.
func skip(rows rowSource) error {
	e, ok := rows.(*elementRows)
	if !ok {
		_, err := rows.next()
		return err
	}
	if err := e.enter(); err != nil {
		return err
	}
	return e.Skip()
}
