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
	watch   watch
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
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsonread.Lenient...)
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
			if _, twice := object[name]; twice {
				o.watch.note("twice", "an object has the name %q again; it has the last of the values", tools.Excerpt(name, 40))
			} else {
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
