package offload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
