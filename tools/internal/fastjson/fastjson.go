// Package fastjson scans JSON without decoding it. It is on the path of every call
// and saves half the time of package encoding/json; the fuzz tests compare both.
package fastjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// maxSize is the largest input of gjson, in bytes. gjson is twice as fast as
// encoding/json, but each bracket costs it a nested call.
const maxSize = 64 << 10

// maxDepth is the largest depth that encoding/json accepts. Deeper JSON would fail
// later, in the next program that decodes or encodes it.
const maxDepth = 10_000

// Valid reports what json.Valid reports.
func Valid(data []byte) bool {
	if len(data) > maxSize || len(data) > maxDepth && bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxDepth {
		return json.Valid(data)
	}
	return gjson.ValidBytes(data)
}

// Strings decodes a JSON object whose values are strings without escapes, except
// for the value of the name nested, which is an object. It passes the strings to set,
// which returns false for an unknown name. Strings reports false, perhaps after calls
// of set, if data is anything else, if CheckFields fails, or if data is not valid
// UTF-8.
func Strings(data []byte, nested string, set func(name, value string) bool) (object []byte, ok bool) {
	if len(data) > maxSize || !utf8.Valid(data) || !Valid(data) || CheckFields(data, nested) != nil {
		return nil, false
	}
	outer := gjson.ParseBytes(data)
	if ok = outer.IsObject(); !ok {
		return nil, false
	}
	outer.ForEach(func(name, value gjson.Result) bool {
		if name.Str == nested {
			object, ok = []byte(value.Raw), value.IsObject()
			return ok
		}
		ok = value.Type == gjson.String && strings.IndexByte(value.Raw, '\\') < 0 && set(name.Str, value.Str)
		return ok
	})
	return object, ok
}
