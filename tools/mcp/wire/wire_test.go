package wire

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func body(t *testing.T, text string) *Body {
	t.Helper()
	var c Collector
	if _, err := io.WriteString(&c, text); err != nil {
		t.Fatal(err)
	}
	b := c.Body()
	t.Cleanup(b.Close)
	return b
}

// A message in a file has the same parts as one in memory.
func TestParts(t *testing.T) {
	for name, padding := range map[string]string{"memory": "", "file": strings.Repeat(`x\n\"`, 1<<20)} {
		t.Run(name, func(t *testing.T) {
			b := body(t, ` {"jsonrpc":"2.0", "result" : {"a":[1,"two",{"three":"\u00e9\ud83d\ude00\n"},null],"pad":"`+padding+`"},"id":"x7"} `)
			if b.InMemory() != (name == "memory") {
				t.Fatal("in the wrong place")
			}
			m, err := Parse(b)
			if err != nil || m.ID != `"x7"` || !m.IsResponse() {
				t.Fatalf("%+v %v", m, err)
			}
			array, err := m.Get(m.Result, "a")
			if err != nil {
				t.Fatal(err)
			}
			var elements []Value
			if err := m.Elements(array, func(v Value) bool { elements = append(elements, v); return true }); err != nil || len(elements) != 4 {
				t.Fatalf("%d elements: %v", len(elements), err)
			}
			three, err := m.Get(elements[2], "three")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(m.Strings(three))
			if err != nil || string(text) != "é😀\n" {
				t.Errorf("%q %v", text, err)
			}
			m.Edits = []Edit{{From: three.Start, To: three.End, With: []byte("3")}, {From: array.End - 1, To: array.End - 1, With: []byte(",5")}}
			var out strings.Builder
			if err := m.WriteEdited(&out, m.Edits); err != nil {
				t.Fatal(err)
			}
			checkJSON(t, out.String(), `[1,"two",{"three":3},null,5]`)
		})
	}
}

func checkJSON(t *testing.T, message, want string) {
	t.Helper()
	var got struct{ Result struct{ A json.RawMessage } }
	if err := json.Unmarshal([]byte(message), &got); err != nil || string(got.Result.A) != want {
		t.Errorf("%s; want %s: %v", got.Result.A, want, err)
	}
}

func TestInvalidMessages(t *testing.T) {
	for _, text := range []string{
		"", "null", "7", `"x"`, "{}", "[]", "[{}]", `{"id":1}`, `{"id":{},"method":"x"}`, `{"id":[1],"result":1}`, `{"method":""}`, `{"method":7}`,
		`{"id":1,"result":1,"id":2}`, `{"id":1,"result":{}`, `{"id":1,"result":{}}}`, `{"id":1 "result":1}`, `{"id":1,"result":"\`, `{"id":1,"result":tru}`,
		strings.Repeat("[", 100_000), `{"id":1,"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", "\x00\xff",
		`{"id":1,"result":{"x":"` + strings.Repeat("y", 2<<20), // in a file
		`{"id":1,"result":` + strings.Repeat("[{", 1<<20),
	} {
		l := NewLines(strings.NewReader(text+"\n"+`{"method":"next"}`+"\n"), 0)
		_, err := l.Next()
		if _, syntax := errors.AsType[*SyntaxError](err); !syntax && text != "" {
			t.Errorf("%.60q: %v", text, err)
			continue
		}
		if m, err := l.Next(); text != "" && (err != nil || m.Method != "next") {
			t.Errorf("after %.60q: %v", text, err)
		}
	}
}

// The time to read a string does not grow with the number of its escapes times the size
// of the buffer.
func TestManyEscapes(t *testing.T) {
	text := strings.Repeat(`a line of text\n`, 1<<18)
	b := body(t, `{"id":1,"result":"`+text+`"}`)
	m, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, m.Strings(m.Result))
	if err != nil || n != 15<<18 {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// Strings decodes as encoding/json does.
func FuzzStrings(f *testing.F) {
	f.Add(`"a\u00e9\ud83d\ude00\ud83dx\udc00\n\/\\"`)
	f.Fuzz(func(t *testing.T, text string) {
		var want string
		if !strings.HasPrefix(text, `"`) || json.Unmarshal([]byte(text), &want) != nil || !json.Valid([]byte(text)) {
			return
		}
		b := BodyOf([]byte(text))
		v, err := b.Whole()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(b.Strings(v))
		if err != nil || strings.ToValidUTF8(string(got), "\uFFFD") != want && !strings.Contains(want, "\uFFFD") {
			t.Errorf("%q: %q, want %q (%v)", text, got, want, err)
		}
	})
}
