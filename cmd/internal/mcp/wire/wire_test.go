package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// What nobody changes stays as it was written.
func TestParts(t *testing.T) {
	m, err := Parse([]byte(" {\"jsonrpc\":\"2.0\", \"result\" : {\"a\":[1.50,\"two\",{\"three\":\"\\u00e9\\ud83d\\ude00\\n\"},null],\r\n\"b\\/\":1e400},\"id\":\"x7\",\"more\":[ ]} "))
	if err != nil || m.ID != `"x7"` || !m.IsResponse() {
		t.Fatalf("%+v %v", m, err)
	}
	elements := slices.Collect(Elements(Get(m.Result, "a")))
	if len(elements) != 4 || string(elements[0]) != "1.50" {
		t.Fatalf("%s", elements)
	}
	if text, ok := Text(Get(elements[2], "three")); !ok || text != "é😀\n" {
		t.Errorf("%q", text)
	}
	m = m.With("result", Set(m.Result, json.RawMessage("3"), "a")).With("id", json.RawMessage("8"))
	if got, want := string(m.Text()), `{"jsonrpc":"2.0","result":{"a":3,"b/":1e400},"id":8,"more":[ ]}`; got != want || m.ID != "8" {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(Set(m.Result, json.RawMessage("1"), "new", "deep")); got != `{"a":3,"b/":1e400,"new":{"deep":1}}` {
		t.Errorf("set: %s", got)
	}
	if got := string(Array(elements)); got != `[1.50,"two",{"three":"\u00e9\ud83d\ude00\n"},null]` {
		t.Errorf("array: %s", got)
	}
	if got := Get(m.Result, "a", "b"); got != nil {
		t.Errorf("a member of a number: %s", got)
	}
}

// All forms of an id are one; two ids that differ stay different.
func TestIDs(t *testing.T) {
	for want, forms := range map[string][]string{
		"7": {"7", "7.0", "70e-1"}, `"a/é"`: {`"a\/\u00e9"`, `"a/é"`}, `"7"`: {`"7"`}, "9007199254740993": {"9007199254740993"}, "": {"null"},
	} {
		for _, form := range forms {
			if m, err := Parse([]byte(`{"id":` + form + `,"result":1}`)); err != nil || m.ID != want {
				t.Errorf("%s: %q, %v; want %s", form, m.ID, err, want)
			}
		}
	}
}

func TestInvalidMessages(t *testing.T) {
	for _, text := range []string{
		"null", "7", `"x"`, "{}", "[]", "[{}]", `{"id":1}`, `{"id":{},"method":"x"}`, `{"id":[1],"result":1}`, `{"method":""}`, `{"method":7}`,
		`{"id":1,"result":1,"id":2}`, `{"id":1,"result":{}`, `{"id":1,"result":{}}}`, `{"id":1 "result":1}`, `{"id":1,"result":"\`, `{"id":1,"result":tru}`,
		strings.Repeat("[", 100_000), `{"id":1,"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", "\x00\xff",
		`{"id":1,"result":{"x":"` + strings.Repeat("y", 2<<20), `[{"id":1,"result":1}`, `[{"id":1,"result":1},{"id":2,"result":2}] x`,
	} {
		l := NewLines(strings.NewReader(text + "\n\n \n" + `{"method":"next"}` + "\n"))
		_, err := l.Next()
		if _, syntax := errors.AsType[*SyntaxError](err); !syntax {
			t.Errorf("%.60q: %v", text, err)
			continue
		}
		if m, err := l.Next(); err != nil || m.Method != "next" {
			t.Errorf("after %.60q: %v", text, err)
		}
	}
}

// An array of messages, as revision 2025-03-26 has them; the last line has no end.
func TestBatch(t *testing.T) {
	l := NewLines(strings.NewReader(`[{"method":"a"}, {"id":"b","result":null}]` + "\r\n" + `{"method":"c"}`))
	var got []string
	for {
		m, err := l.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		got = append(got, m.Method+m.ID)
	}
	if !slices.Equal(got, []string{"a", `"b"`, "c"}) {
		t.Errorf("%q", got)
	}
}

// A message that is too large is an error with its id, and the stream goes on.
func TestTooLargeMessages(t *testing.T) {
	slow.Test(t)
	if testing.Short() {
		t.Skip("one goroutine reads a gigabyte")
	}
	padding := strings.Repeat("x", MaxMessage)
	for text, id := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":"` + padding + `"}`:                         "7",
		`{ "id" : "a\"b" , "result":"` + padding + `"}`:                               `"a\"b"`,
		`{"result":{"id":5,"x":"` + padding + `"},"jsonrpc":"2.0","id":8}`:            "8",
		`{"method":"tools/call","params":["` + padding + `"],"id":9,"jsonrpc":"2.0"}`: "9",
		`{"result":{"x":"` + padding + `","id":5}}`:                                   "",
		padding + padding: "",
	} {
		l := NewLines(strings.NewReader(text + "\n" + `{"method":"next"}` + "\n"))
		_, err := l.Next()
		if size, ok := errors.AsType[*SizeError](err); !ok || size.ID != id || size.Size != int64(len(text))+1 {
			t.Errorf("%.60q: %v, %+v", text, err, size)
		}
		if m, err := l.Next(); err != nil || m.Method != "next" {
			t.Errorf("after %.60q: %v", text, err)
		}
		if id != "7" {
			continue
		}
		var errs []error
		err = Events(strings.NewReader("data: "+text+"\n\ndata: {\"method\":\"next\"}\n\n"), new(Resume), func(m []*Message, err error) {
			if err == nil && m[0].Method != "next" {
				t.Errorf("%+v", m[0])
			}
			errs = append(errs, err)
		})
		if err != nil || len(errs) != 2 || errs[1] != nil {
			t.Errorf("events: %v, %v", errs, err)
		} else if size, ok := errors.AsType[*SizeError](errs[0]); !ok || size.ID != id {
			t.Errorf("events: %v", errs[0])
		}
	}
}

func TestEvents(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	in := ": comment\n:\nevent: message\ndata: {\"method\":\ndata: \"1\"}\n\nid: 7\r\nretry: 20\r\ndata:{\"method\":\"2\"}\r\n\r\nid: 7\ndata: \n\ndata: {\"method\":\"3\",\"params\":\"" + big + "\"}\n\nid: 8\ndata: cut"
	var got []string
	var resume Resume
	err := Events(strings.NewReader(in), &resume, func(m []*Message, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(m[0].Method, len(m[0].Params)))
	})
	if err != nil || !slices.Equal(got, []string{"10", "20", fmt.Sprint("3", len(big)+2)}) || resume != (Resume{"7", 20 * time.Millisecond}) {
		t.Errorf("%q: %v, %+v", got, err, resume)
	}
}

// Text decodes as encoding/json does.
func FuzzText(f *testing.F) {
	f.Add(`"a\u00e9\ud83d\ude00\ud83dx\udc00\n\/\\"`)
	f.Fuzz(func(t *testing.T, text string) {
		var want string
		if json.Unmarshal([]byte(text), &want) != nil || !strings.HasPrefix(text, `"`) || !strings.HasSuffix(text, `"`) {
			return
		}
		if got, ok := Text(json.RawMessage(text)); !ok || got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	})
}
