package fastjson

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// The fast way returns what the slow one returns.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[true,{"z":"","y":-1e5}],"":{}}`, `[ ]`, `"x"`, ` 1 `, `{"a":1,"a":2}`, `{"a":{"b":{}},"A":[[]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := canonicalPlain(data)
		if !ok || !utf8.Valid(data) { // events are valid UTF-8
			return
		}
		if want, err := canonicalSlow(data); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: got %q, want %q, %v", data, got, want, err)
		}
	})
}
