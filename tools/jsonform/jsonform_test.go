package jsonform

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

func TestEncode(t *testing.T) {
	got, err := Encode(map[string]any{"a": "<b>&\u2028"})
	if want := `{"a":"<b>&\u2028"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

// Canonical returns what decoding and encoding with encoding/json returns.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[true,{"z":"","y":-1e5}],"":{}}`, `[ ]`, `"x"`, ` 1 `, `{"a":1,"a":2}`, `{"a":{"b":{}},"A":[[]]}`,
		`"\u00e9\ud83d\ude00\/<>&\u2028\u0007\b\u007f"`, `"\ud800"`, "\"\xff\"", `1.0`, `-0`, `1e400`, `12345678901234567890`, `{"\u0061":1,"b":2}`, `{} x`, `{"a":1}]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte(`\u`)) || bytes.ContainsFunc(data, func(r rune) bool { return r > 0xffff }) {
			t.Skip() // RFC 8785 orders keys by UTF-16, which puts these before U+E000
		}
		got := Canonical(data)
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var v any
		err := dec.Decode(&v)
		if err == nil {
			_, err = dec.Token()
		}
		if err != io.EOF || len(bytes.TrimSpace(data)) == 0 {
			return
		}
		if want, err := Encode(v); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: got %q, want %q, %v", data, got, want, err)
		}
	})
}
