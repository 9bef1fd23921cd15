package jq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxNames  = 10_000 // whose order is kept, in case they are data
	maxOthers = 100_000
)

// keyOrder is the order of names in objects. Objects with the same names have the order of the
// first one in the document, or of one that the query writes; those in another order are listed.
// The names of objects that the query computes have the order in which they first occur in the
// document, and then in the query.
type keyOrder struct {
	rank    map[string]int // of the names in the document
	written map[string]int // of the names in objects that the query writes
	shapes  map[uint64][]string
	others  map[uintptr]other // by the address of the object
	seed    maphash.Seed
	stack   []string // names of the objects that are being read
	size    int      // names in shapes
}

// other is an object whose order is not that of the first one with its names. While it is kept, no
// other object gets its address.
type other struct {
	object map[string]any
	names  []string
}

func newKeyOrder() *keyOrder {
	return &keyOrder{rank: map[string]int{}, written: map[string]int{}, shapes: map[uint64][]string{}, others: map[uintptr]other{}, seed: maphash.MakeSeed()}
}

// shape identifies an object by its names, in any order.
func (o *keyOrder) shape(names iter.Seq[string]) (sum uint64) {
	for name := range names {
		sum += maphash.String(o.seed, name)
	}
	return sum
}

// note keeps the order of the names of an object.
func (o *keyOrder) note(object map[string]any, names []string) {
	if first := o.known(o.shape(slices.Values(names)), names); slices.Equal(first, names) {
		return
	}
	if len(o.others) == maxOthers {
		clear(o.others) // those of rows read before
	}
	ordered := maphash.String(o.seed, strings.Join(names, "\x00"))
	o.others[reflect.ValueOf(object).Pointer()] = other{object, o.known(ordered, names)}
}

// known returns the names for a hash, which are these if there are none yet.
func (o *keyOrder) known(sum uint64, names []string) []string {
	if _, ok := o.shapes[sum]; !ok && o.size+len(names) <= 10*maxNames {
		o.shapes[sum] = slices.Clone(names)
		o.size += len(names)
	}
	return o.shapes[sum]
}

// decode decodes one value; numbers keep their text.
func (o *keyOrder) decode(data []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := o.value(dec)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w: %v", jsonread.ErrNotJSON, err)
}

func (o *keyOrder) value(dec *jsontext.Decoder) (any, error) {
	if k := dec.PeekKind(); k == '"' || k == '0' {
		return scalar(dec)
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := o.value(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.ReadToken()
		return list, err
	case '{':
		object, first := map[string]any{}, len(o.stack)
		for dec.PeekKind() != '}' {
			key, err := scalar(dec)
			if err != nil {
				return nil, err
			}
			name := key.(string)
			if _, ok := o.rank[name]; !ok && len(o.rank) < maxNames {
				o.rank[name] = len(o.rank)
			}
			if _, twice := object[name]; !twice {
				o.stack = append(o.stack, name)
			}
			if object[name], err = o.value(dec); err != nil {
				return nil, err
			}
		}
		o.note(object, o.stack[first:])
		o.stack = o.stack[:first]
		_, err := dec.ReadToken()
		return object, err
	}
	return nil, nil
}

// scalar decodes a string or a number.
func scalar(dec *jsontext.Decoder) (any, error) {
	text, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if text[0] != '"' {
		return exactNumber(string(text)), nil
	}
	unquoted, _ := jsontext.AppendUnquote(nil, text) // the error is about bytes that are not UTF-8
	return string(unquoted), nil
}

// exactNumber returns an int or a float64 if its text is that of the number, because gojq parses a
// json.Number again in each comparison.
func exactNumber(text string) any {
	if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == text && math.Abs(f) >= 1e-6 && math.Abs(f) < 1e15 {
		return f
	}
	return json.Number(text)
}

// names returns the names of an object in order, which the caller does not change.
func (o *keyOrder) names(object map[string]any) []string {
	missing := func(name string) bool { _, ok := object[name]; return !ok }
	for _, names := range [][]string{o.others[reflect.ValueOf(object).Pointer()].names, o.shapes[o.shape(maps.Keys(object))]} {
		if len(names) == len(object) && !slices.ContainsFunc(names, missing) {
			return names
		}
	}
	return slices.SortedFunc(maps.Keys(object), func(a, b string) int {
		return cmp.Or(o.place(a)-o.place(b), cmp.Compare(a, b))
	})
}

// place returns the place of a name among others.
func (o *keyOrder) place(name string) int {
	if i, ok := o.rank[name]; ok {
		return i
	}
	if i, ok := o.written[name]; ok {
		return maxNames + i
	}
	return math.MaxInt32
}

// read notes the names of the objects that a query writes.
func (o *keyOrder) read(query *gojq.Query) {
	each(reflect.ValueOf(query), func(node any) bool {
		object, ok := node.(*gojq.Object)
		if !ok {
			return true
		}
		names := []string{}
		for _, kv := range object.KeyVals {
			switch {
			case kv.Key != "":
				names = append(names, strings.TrimPrefix(kv.Key, "$"))
			case kv.KeyString != nil && len(kv.KeyString.Queries) == 0:
				names = append(names, kv.KeyString.Str)
			}
		}
		for _, name := range names {
			if _, ok := o.written[name]; !ok {
				o.written[name] = len(o.written)
			}
		}
		if len(names) == len(object.KeyVals) { // else it has names that the query computes
			o.shapes[o.shape(slices.Values(names))] = names
		}
		return true
	})
}

// errTooLong ends the text of a result that is too long.
var errTooLong = errors.New("a result is too long")

// appendJSON appends the text of a result, of at most about limit bytes: parts of a value may be
// shared many times.
func (o *keyOrder) appendJSON(out []byte, v any, limit int) ([]byte, error) {
	text, _ := v.(string)
	if len(out)+len(text) > limit {
		return nil, errTooLong
	}
	var err error
	switch v := v.(type) {
	case []any:
		out = append(out, '[')
		for i, element := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = o.appendJSON(out, element, limit); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case map[string]any:
		out = append(out, '{')
		for i, name := range o.names(v) {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = o.appendJSON(out, name, limit); err != nil {
				return nil, err
			}
			if out, err = o.appendJSON(append(out, ':'), v[name], limit); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	data, err := gojq.Marshal(v)
	return append(out, data...), err
}

// Functions of the rewritten query.
const (
	valuesFunc = "_values" // .[] in order
	namesFunc  = "_names"
	jsonFunc   = "_json"
	prelude    = `def map(f): [_values | f]; def _recurse: ., (_values? | _recurse); def keys_unsorted: _names;
		def tojson: _json; def fromjson: _fromjson; def tostring: if type == "string" then . else _json end;
		def to_entries: [_names[] as $k | {key: $k, value: .[$k]}];
		def with_entries(f): to_entries | [_values | f] | from_entries; .`
)

// compile compiles a query that iterates over objects in order. Paths, such as the left side of
// an assignment, stay as they are: no function can stand there, and order has no effect. If
// functions of the query may be used in paths, all of it stays.
func (o *keyOrder) compile(query *gojq.Query, options ...gojq.CompilerOption) (*gojq.Code, error) {
	o.read(query)
	if v := reflect.ValueOf(query); len(query.FuncDefs) == 0 || !usesPaths(v) {
		inOrder(v)
	}
	definitions, err := gojq.Parse(prelude)
	if err != nil {
		return nil, err
	}
	query.FuncDefs = append(definitions.FuncDefs, query.FuncDefs...)
	options = append(options,
		gojq.WithIterFunction(valuesFunc, 0, 0, func(v any, _ []any) gojq.Iter { return o.iterate(v) }),
		gojq.WithFunction(jsonFunc, 0, 0, func(v any, _ []any) any {
			text, err := o.appendJSON(nil, v, math.MaxInt)
			if err != nil {
				return err
			}
			return string(text)
		}),
		gojq.WithFunction("_fromjson", 0, 0, func(v any, _ []any) any {
			text, ok := v.(string)
			if !ok {
				return fmt.Errorf("fromjson cannot be applied to: %s", gojq.TypeOf(v))
			}
			parsed, err := o.decode([]byte(text))
			if err != nil {
				return fmt.Errorf("fromjson cannot be applied to %q: %w", tools.Excerpt(text, 100), err)
			}
			return parsed
		}),
		gojq.WithFunction(namesFunc, 0, 0, func(v any, _ []any) any {
			switch v := v.(type) {
			case []any:
				keys := make([]any, len(v))
				for i := range keys {
					keys[i] = i
				}
				return keys
			case map[string]any:
				keys := make([]any, 0, len(v))
				for _, name := range o.names(v) {
					keys = append(keys, name)
				}
				return keys
			}
			return fmt.Errorf("%s has no keys", gojq.TypeOf(v))
		}))
	return gojq.Compile(query, options...)
}

// iterate returns the elements of an array or the values of an object.
func (o *keyOrder) iterate(v any) gojq.Iter {
	switch v := v.(type) {
	case []any:
		return gojq.NewIter(v...)
	case map[string]any:
		values := make([]any, 0, len(v))
		for _, name := range o.names(v) {
			values = append(values, v[name])
		}
		return gojq.NewIter(values...)
	}
	return gojq.NewIter[any](fmt.Errorf("cannot iterate over: %s", gojq.TypeOf(v)))
}

// each calls f with a value of a query and with all values below it, unless f returns false.
func each(v reflect.Value, f func(any) bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && f(v.Interface()) {
			each(v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), f)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			each(field, f)
		}
	}
}

// isAssignment and takesPath say where a query has paths.
func isAssignment(q *gojq.Query) bool { return q.Op >= gojq.OpAssign }

func takesPath(f *gojq.Func) bool { return slices.Contains([]string{"path", "del", "pick"}, f.Name) }

func usesPaths(query reflect.Value) (found bool) {
	each(query, func(node any) bool {
		q, isQuery := node.(*gojq.Query)
		f, isFunc := node.(*gojq.Func)
		found = found || isQuery && isAssignment(q) || isFunc && takesPath(f)
		return true
	})
	return found
}

// inOrder replaces each .[] and @json in a query, except in paths.
func inOrder(query reflect.Value) {
	each(query, func(node any) bool {
		switch node := node.(type) {
		case *gojq.Query:
			if isAssignment(node) {
				inOrder(reflect.ValueOf(node.Right))
				return false
			}
		case *gojq.Func:
			return !takesPath(node)
		case *gojq.Term:
			if node.Type == gojq.TermTypeFormat && node.Format == "@json" && node.Str == nil {
				node.Type, node.Func = gojq.TermTypeFunc, &gojq.Func{Name: jsonFunc}
			}
			if node.Type == gojq.TermTypeRecurse || node.Type == gojq.TermTypeFunc && node.Func.Name == "recurse" && len(node.Func.Args) == 0 {
				node.Type, node.Func = gojq.TermTypeFunc, &gojq.Func{Name: "_recurse"}
			}
			for at := iterates(node); at >= 0; at = iterates(node) {
				left, rest := *node, node.SuffixList[at+1:]
				left.SuffixList = node.SuffixList[:at]
				values := &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: valuesFunc}}
				if len(rest) > 0 && rest[0].Optional {
					values.SuffixList, rest = rest[:1], rest[1:]
				}
				*node = gojq.Term{Type: gojq.TermTypeQuery, SuffixList: rest, Query: &gojq.Query{
					Left: &gojq.Query{Term: &left}, Op: gojq.OpPipe, Right: &gojq.Query{Term: values},
				}}
			}
		}
		return true
	})
}

// iterates returns the index of the first .[] in the suffixes of a term, or -1.
func iterates(t *gojq.Term) int {
	return slices.IndexFunc(t.SuffixList, func(s *gojq.Suffix) bool { return s.Iter })
}
