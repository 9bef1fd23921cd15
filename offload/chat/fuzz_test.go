package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode decodes JSON with encoding/json, which decodes half a surrogate pair as
// U+FFFD.
func decode(t *testing.T, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("decode %.200s: %v", text, err)
	}
	return v
}

// FuzzNormalize compares accepted texts and their values with encoding/json.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00\/",-0.0]}`, `"\u12"`, "[\"\t\"]", `[1 2]`, `{"a":"b" "c"}`, `["\\"]`, `"a" "b"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := normalize(data)
		if valid := json.Valid(data) && utf8.Valid(data); valid != (err == nil) && !strings.Contains(string(data), strings.Repeat("[", 500)) {
			t.Fatalf("normalize(%q): %v, but valid is %v", data, err, valid)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(decode(t, text), decode(t, string(data))) {
			t.Fatalf("%q was normalized to %q", data, text)
		}
		if again, err := normalize([]byte(text)); err != nil || again != text {
			t.Fatalf("%q, then %q, %v", text, again, err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":"text \ud800\u2028"}`))
	f.Add([]byte(user(result("a", "x"), result("a", "y"), result("../a", "z"))))
	f.Add([]byte(`{"content":[{"type":"tool_result","tool_use_id":"\u0000","content":[{"type":"text","text":"<\/>"}]}],"x":-0.0}`))
	f.Add([]byte(`{"content":[[],null,1,{"type":"tool_result","content":{"a":1}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMessage(data)
		if err != nil {
			return
		}
		if !reflect.DeepEqual(decode(t, m.String()), decode(t, string(data))) {
			t.Fatalf("%q was parsed to %q", data, m)
		}
		w := newMemory()
		res, err := OffloadMessageTo(t.Context(), m, "s", "d", w)
		if err != nil {
			return // no content
		}
		if len(res.Files) == 1 {
			checkFile(t, w.files[res.File], m.contentText())
			decode(t, res.Message.String())
		}
		w = newMemory()
		res, err = OffloadResultsTo(t.Context(), m, "s", "d", 0, w)
		if err != nil {
			t.Fatal(err)
		}
		decode(t, res.Message.String())
		i := 0
		for _, b := range m.resultBlocks() {
			if b.offloadable() {
				checkFile(t, w.files[res.Files[i]], b.value)
				i++
			}
		}
		if i != len(w.files) {
			t.Fatalf("%d results are in %d files", i, len(w.files))
		}
		if again, err := OffloadResultsTo(t.Context(), res.Message, "s", "d", 0, w); err != nil || again.Message != res.Message {
			t.Fatalf("the second run made %s of %s, %v", again.Message, res.Message, err)
		}
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte(`[`+user(result("a", "x"), result("a", "y"), result("a-1", "z"))+`]`), 0.0)
	f.Add([]byte(`[{"content":"x"},{},`+user(`{"type":"tool_use","input":{}}`, `{"type":"image"}`, result("", "x"))+`]`), 0.3)
	f.Add([]byte(`[{"content":[{"type":"tool_result","tool_use_id":"b","content":[{},[],{"a":[1.0]}]}]}]`), 1.0)
	f.Fuzz(func(t *testing.T, data []byte, ratio float64) {
		messages, err := ParseHistory(data)
		if err != nil {
			return
		}
		w := newMemory()
		opts := Options{MinChars: new(1), MinRatio: &ratio}
		res, err := OffloadHistoryTo(t.Context(), messages, "d", opts, w)
		if err != nil {
			if opts.Validate() == nil && !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if len(res.Messages) != len(messages) || len(res.Files) != res.OffloadedCount || len(w.files) != res.OffloadedCount {
			t.Fatalf("%d messages, %d files written, result %+v", len(messages), len(w.files), res)
		}
		if res.OffloadedCount == 0 {
			if !reflect.DeepEqual(res.Messages, messages) {
				t.Fatalf("messages changed: %v", res.Messages)
			}
			return
		}
		i := 0
		for _, m := range messages {
			for b := range m.results() {
				if opts.offloads(b) {
					checkFile(t, w.files[res.Files[i]], b.value)
					i++
				}
			}
		}
		again, err := OffloadHistoryTo(t.Context(), res.Messages, "d", Options{MinChars: new(1)}, w)
		if err != nil || again.OffloadedCount != 0 || !reflect.DeepEqual(again.Messages, res.Messages) {
			t.Fatalf("the second run gives %+v, %v", again, err)
		}
	})
}

// checkFile reports a file that does not contain its content.
func checkFile(t *testing.T, file, value string) {
	t.Helper()
	if kindOf(value) == "a string" {
		if want := decode(t, value); file != want {
			t.Fatalf("the file of %q holds %q", value, file)
		}
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(file)); err != nil || compact.String() != value {
		t.Fatalf("the file of %s holds %s (%v)", value, file, err)
	}
}
