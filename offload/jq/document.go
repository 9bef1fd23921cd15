package jq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// document evaluates a plan on a JSON document that is read once.
type document struct {
	ctx  context.Context
	in   *jsonread.Reader
	plan plan
	keys *keyOrder

	inArray bool  // elements reads an array
	at      int64 // where the last element that it read begins
}

// errFound ends a walk early.
var errFound = errors.New("found")

func unlessFound(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// find goes to the part that the plan needs. It returns false if there is none, and
// then the value of the part is null.
func (d *document) find(path []any, f func() error) (bool, error) {
	if len(path) == 0 {
		return true, f()
	}
	kind, err := d.in.Peek()
	if err != nil {
		return false, err
	}
	name, byName := path[0].(string)
	switch {
	case kind == 'n':
		return false, d.in.Skip() // null.x is null
	case byName && kind != '{', !byName && kind != '[':
		want := "an object"
		if !byName {
			want = "an array"
		}
		return false, tools.Errorf(tools.CodeInvalidArguments, "expected %s for .%v, but the value is %s", want, path[0], jsonread.TypeOf(kind))
	}
	found, i := false, 0
	err = d.in.Elements(func(key string) error {
		here := byName && key == name || !byName && i == path[0]
		i++
		if !here {
			return d.in.Skip()
		}
		var err error
		if found, err = d.find(path[1:], f); err != nil {
			return err
		}
		return errFound
	})
	return found, unlessFound(err)
}

// value decodes the next value.
func (d *document) value() (any, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	data, err := d.in.Value()
	if errors.Is(err, jsonread.ErrTooLong) {
		return nil, limited.ErrMemory
	}
	if err != nil {
		return nil, err
	}
	return d.keys.decode(data)
}

// input returns the input of the planned query, except for needElements.
func (d *document) input() (in any, err error) {
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
func (d *document) summary() (any, error) {
	kind, err := d.in.Peek()
	if err != nil {
		return nil, err
	}
	if kind != '[' && kind != '{' {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		code, err := compile(map[need]string{needLength: "length", needKeys: "keys"}[d.plan.need])
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
	err = d.in.Elements(func(key string) error {
		if n++; n%1000 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		if d.plan.need == needKeys && kind == '{' {
			names = append(names, key)
		}
		return d.in.Skip()
	})
	if err != nil || d.plan.need == needLength {
		return n, err
	}
	keys := make([]any, n)
	slices.Sort(names)
	for i := range keys {
		if keys[i] = i; kind == '{' {
			keys[i] = names[i]
		}
	}
	return keys, nil
}

// slice returns some elements of the next value, an array.
func (d *document) slice() (any, error) {
	kind, err := d.in.Peek()
	switch {
	case err != nil:
		return nil, err
	case kind == 'n':
		return nil, d.in.Skip()
	case kind != '[':
		return nil, tools.Errorf(tools.CodeInvalidArguments, "expected an array for the slice, but the value is %s", jsonread.TypeOf(kind))
	}
	out, i := []any{}, 0
	err = d.in.Elements(func(string) error {
		at := i
		i++
		if d.plan.to >= 0 && at >= d.plan.to {
			return errFound
		}
		if at < d.plan.from {
			return d.in.Skip()
		}
		v, err := d.value()
		if out = append(out, v); d.plan.from < 0 && len(out) > -d.plan.from { // the last ones
			out[0] = nil
			out = out[1:]
		}
		return err
	})
	return out, unlessFound(err)
}

// elements calls f with the elements of the part.
func (d *document) elements(f func(any) bool) error {
	found, err := d.find(d.plan.path, func() error {
		kind, err := d.in.Peek()
		if err != nil {
			return err
		}
		d.inArray = kind == '['
		if kind != '[' && (kind != '{' || d.plan.array) {
			if d.plan.optional {
				return d.in.Skip()
			}
			return tools.Errorf(tools.CodeInvalidArguments, "cannot iterate over %s", jsonread.TypeOf(kind))
		}
		return d.in.Elements(func(string) error {
			d.at = d.in.Offset()
			v, err := d.value()
			if err == nil && !f(v) {
				return errFound
			}
			return err
		})
	})
	if err == nil && !found && !d.plan.optional {
		return tools.Errorf(tools.CodeInvalidArguments, "cannot iterate over null: the path .%s does not exist", strings.Trim(fmt.Sprint(d.plan.path), "[]"))
	}
	return unlessFound(err)
}
