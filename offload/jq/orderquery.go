package jq

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/itchyny/gojq"

	"github.com/stevedore-bus/stevedore/tools"
)

// Functions of the rewritten query.
const (
	valuesFunc = "_values" // .[] in order
	namesFunc  = "_names"
	jsonFunc   = "_json"
	prelude    = `def map(f): [_values | f]; def _recurse: ., (_values? | _recurse); def keys_unsorted: _names;
		def tojson: _json; def fromjson: _fromjson; def tostring: if type == "string" then . else _json end;
		def to_entries: [_names[] as $k | {key: $k, value: .[$k]}];
		def with_entries(f): to_entries | [_values | f] | from_entries;
		def _nested: type == "object" or type == "array";
		def _paths($p): select($p != []) | $p;
		def paths: def r($p): _paths($p), (select(_nested) | _names[] as $k | .[$k] | r($p + [$k])); r([]);
		def paths(f): . as $v | paths | select(. as $p | $v | getpath($p) | f);
		def leaf_paths: paths(scalars);
		def flatten: (if type == "object" then [_values] else . end) | flatten(1e9);
		def tostream: def r($p): if _nested and length > 0 then
				_names as $keys | ($keys[] as $k | .[$k] | r($p + [$k])), [$p + [$keys[-1]]] else [$p, .] end; r([]);
		def debug: .; def debug(f): .; def stderr: .; def input_filename: null; def get_search_list: [];
		def _nwise($n): def r: if length <= $n then . else .[:$n], (.[$n:] | r) end; r;
		def _trims($x): type == "string" and ($x | type) == "string";
		def ltrimstr($x): if _trims($x) and startswith($x) then .[($x | length):] else . end;
		def rtrimstr($x): if _trims($x) and endswith($x) then .[:length - ($x | length)] else . end; .`
)

// compile compiles a query that iterates over objects in order. Paths, such as the left side of
// an assignment, stay as they are: no function can stand there, and order has no effect. If
// functions of the query may be used in paths, all of it stays.
func (o *keyOrder) compile(query *gojq.Query, options ...gojq.CompilerOption) (*gojq.Code, error) {
	o.read(query)
	inView(query)
	if v := reflect.ValueOf(query); len(query.FuncDefs) == 0 || !usesPaths(v) {
		inOrder(v)
	}
	definitions, err := gojq.Parse(watched + prelude)
	if err != nil {
		return nil, err
	}
	query.FuncDefs = append(definitions.FuncDefs, query.FuncDefs...)
	options = append(append(options, o.watch.options()...),
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
			if node.Type == gojq.TermTypeFormat && node.Str == nil && slices.Contains([]string{"@text", "@html", "@uri", "@base64"}, node.Format) {
				text, format := &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: "tostring"}}, *node
				*node = gojq.Term{Type: gojq.TermTypeQuery, SuffixList: node.SuffixList, Query: &gojq.Query{
					Left: &gojq.Query{Term: text}, Op: gojq.OpPipe, Right: &gojq.Query{Term: &format}}}
				format.SuffixList = nil
				return false
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
