package tools

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestDigest(t *testing.T) {
	digest := func(args string) string { return Call{Tool: "t", Args: json.RawMessage(args)}.Digest() }
	for _, same := range [][]string{
		{``, `{}`, ` { } `},
		{`{"a":1,"b":[1,2,{"c":null,"d":"x"}]}`, "{ \"b\" : [1 , 2,{\"d\":\"x\",\n\"c\":null}],\t\"a\":1}"},
		{`{"a":"A"}`, `{"a":"\u0041"}`},
		{`{"a":"<&>"}`, `{"\u0061":"<&>"}`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{"{\"a\":\"\u2028\"}", `{"a":"\u2028"}`},
	} {
		for _, other := range same[1:] {
			if digest(same[0]) != digest(other) {
				t.Errorf("%s and %s differ", same[0], other)
			}
		}
	}
	for _, different := range [][2]string{
		{`{"a":1}`, `{"a":1.0}`},
		{`{"a":"1"}`, `{"a":1}`},
		{`{"a":" "}`, `{"a":""}`},
		{`{"a":[1,2]}`, `{"a":[2,1]}`},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567891}`},
	} {
		if digest(different[0]) == digest(different[1]) {
			t.Errorf("%s and %s are the same", different[0], different[1])
		}
	}
}

// The fast way gives what the slow one gives.
func FuzzCanonicalPlain(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[true,{"z":"","y":-1e5}],"":{}}`, `[ ]`, `"x"`, ` 1 `, `{"a":1,"a":2}`, `{"a":{"b":{}},"A":[[]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := canonicalPlain(data)
		if !ok || !utf8.Valid(data) { // events are valid UTF-8
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			t.Errorf("%q: got %q, want %q", data, got, want.Bytes())
		}
	})
}
