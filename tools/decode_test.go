package tools_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestDecodeCall(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		body string
		want tools.Call
	}{
		{`{}`, tools.Call{}},
		{` {"id":"toolu_1","session":"s1","args":{"a":1.50}} `, tools.Call{ID: "toolu_1", Session: "s1", Args: json.RawMessage(`{"a":1.50}`)}},
		{`{"id":null,"offload":true,"new":{"id":1,"ID":2},"x":["id",{"id":3}]}`, tools.Call{Offload: &yes}},
		{`{"tool":"\"id\":\\","action":"a\\\",\"id\":\"","id":"x"}`, tools.Call{Tool: `"id":\`, Action: `a\","id":"`, ID: "x"}},
		{`{"ID":"from a client that spells it so"}`, tools.Call{ID: "from a client that spells it so"}},
	} {
		got, err := tools.DecodeCall([]byte(tt.body))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("DecodeCall(%s) = %+v, %v; want %+v", tt.body, got, err, tt.want)
		}
	}
}

func TestDecodeCallRefuses(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`"f%d":0`, i)
	}
	for name, body := range map[string]string{
		"nothing":              "",
		"white space":          " \n",
		"null":                 "null",
		"array":                `[{"id":"1"}]`,
		"string":               `"x"`,
		"cut":                  `{"id":"1"`,
		"trailing data":        `{"id":"1"} x`,
		"two objects":          `{"id":"1"}{"id":"2"}`,
		"bad UTF-8":            "{\"id\":\"\xff\"}",
		"byte order mark":      "\ufeff{}",
		"comment":              `{"id":"1"/**/}`,
		"wrong type":           `{"id":1}`,
		"wrong session":        `{"offload":7,"session":{}}`,
		"duplicate":            `{"id":"1","session":"s","id":"2"}`,
		"two ids behind more":  `{"x":1,"x":2,"id":"1","ID":"2"}`,
		"other case":           `{"session":"mine","SESSION":"yours"}`,
		"folds in Unicode":     `{"session":"mine","ſession":"yours"}`,
		"escaped":              `{"id":"1","\u0069d":"2"}`,
		"behind a nested one":  `{"id":"1","args":{"a":"}"},"id":"2"}`,
		"deep":                 `{"args":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		"deep and unfinished":  `{"args":` + strings.Repeat(`{"a":`, 100_000),
		"more fields than any": "{" + strings.Join(many, ",") + "}",
	} {
		if got, err := tools.DecodeCall([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), "decode call: ") || !reflect.DeepEqual(got, tools.Call{}) {
			t.Errorf("%s: got %+v, %v; want an error", name, got, err)
		} else if fault, ok := errors.AsType[*tools.Error](err); ok {
			t.Errorf("%s: the error is a *tools.Error (%v), but the caller is unknown", name, fault)
		}
	}
}

// If only one field is wrong, DecodeCall returns the call and names the field.
func TestDecodeCallFaults(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf(`"a%d":0`, i)
	}
	args := strings.Join(many, ",")
	for body, want := range map[string]string{
		`{"id":"1","session":"s","deadline":"tomorrow"}`:           `the field "deadline" is "tomorrow"; want a time such as "2026-01-02T15:04:05Z"`,
		`{"id":"1","deadline":5,"session":"s"}`:                    `the field "deadline" is 5; want a time such as "2026-01-02T15:04:05Z"`,
		`{"offload":"yes","id":"1","session":"s"}`:                 `the field "offload" is "yes"; want true or false`,
		`{"channel":{},"id":"1","session":"s"}`:                    `the field "channel" is {}; want a string`,
		`{"id":"1","session":"s","x":1,"x":2}`:                     `the fields "x" and "x" are the same`,
		`{"id":"1","session":"s","args":{},"Args":{}}`:             `the fields "args" and "Args" are the same`,
		`{"args":{"p":"a","p":"b"},"id":"1","session":"s"}`:        `the argument "p" is given twice`,
		`{"args":{"p":{"q":1},"\u0070":1},"id":"1","session":"s"}`: `the argument "p" is given twice`,
		`{"args":{` + args + `,"a99":1},"id":"1","session":"s"}`:   `the argument "a99" is given twice`,
		`{"args":{` + args + `,"a0":1},"id":"1","session":"s"}`:    `the argument "a0" is given twice`,
	} {
		call, err := tools.DecodeCall([]byte(body))
		if fault, ok := errors.AsType[*tools.Error](err); !ok || fault.Message != want || call.ID != "1" || call.Session != "s" {
			t.Errorf("DecodeCall(%s) = %+v, %v; want the id, the session, and %s", body, call, err, want)
		}
	}
	for _, body := range []string{`{"args":{"a":"b","b":"a","A":{"a":1,"b":[1]}}}`, `{"args":["a","a"]}`, `{"x":{"a":1,"a":2},"args":{` + args + `}}`} {
		if _, err := tools.DecodeCall([]byte(body)); err != nil {
			t.Errorf("DecodeCall(%s): %v", body, err)
		}
	}
}

// The client compares its digest with that of the result, which says that an argument
// is given twice.
func TestDigestOfDuplicateArguments(t *testing.T) {
	sent := tools.Call{ID: "1", Tool: "t", Args: json.RawMessage(`{"p": "a", "q": "<é>", "p": "b"}`)}
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tools.DecodeCall(body)
	if fault, ok := errors.AsType[*tools.Error](err); !ok || fault.Code != tools.CodeInvalidArguments || got.Digest() != sent.Digest() {
		t.Errorf("got %+v, %v; want the digest of %s", got, err, sent.Args)
	}
}

func TestDecodeResultAndRaw(t *testing.T) {
	const result = `{"id":"1","session":"s","tool":"t","outcome":"failed","for_llm":"x","silent":false,"is_error":true,"async":false,"error":{"code":"timeout","message":"m"},"attempt":1,"worker":"w","duration_ms":3}`
	e, err := tools.DecodeResult([]byte(result))
	if err != nil || e.ID != "1" || e.ForLLM != "x" || !e.IsError || e.Outcome != tools.Failed || e.Error.Code != "timeout" {
		t.Errorf("DecodeResult = %+v, %v", e, err)
	}
	if again, err := json.Marshal(e); err != nil || string(again) != result {
		t.Errorf("encoded again = %s, %v; want %s", again, err, result)
	}
	raw, err := tools.DecodeRaw([]byte(`{"id":"1","for_llm":"","content":[{"type":"text"}]}`))
	if err != nil || raw.ID != "1" || raw.ForLLM == nil || *raw.ForLLM != "" || string(raw.Content) != `[{"type":"text"}]` {
		t.Errorf("DecodeRaw = %+v, %v", raw, err)
	}
	for _, body := range []string{`{"for_llm":"a","FOR_LLM":"b"}`, `[]`, `{"id":"1"}x`} {
		if _, err := tools.DecodeResult([]byte(body)); err == nil {
			t.Errorf("DecodeResult(%s): no error", body)
		}
		if _, err := tools.DecodeRaw([]byte(body)); err == nil {
			t.Errorf("DecodeRaw(%s): no error", body)
		}
	}
}

// A case-sensitive decoder reads the same fields, and encoding and decoding again
// changes nothing.
func FuzzDecodeCall(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"id":"1","session":"s","tool":"t","args":{"a":[1,{"id":2}]},"deadline":"2026-01-02T03:04:05Z"}`,
		`{"id":"1","ID":"2"}`, `{"id":"a\"b\\","x":"\\"}`, `{"\u0069d":"1"}`, `{"offload":false,"channel":"c"}`, `[`, "{\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		call, err := tools.DecodeCall(body)
		if err != nil {
			return
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatalf("accepted %q, which is no object: %v", body, err)
		}
		for name, got := range map[string]string{"id": call.ID, "session": call.Session, "tool": call.Tool} {
			var want *string
			if err := json.Unmarshal(fields[name], &want); err == nil && want != nil && got != *want {
				t.Errorf("%s of %q = %q, want %q", name, body, got, *want)
			}
		}
		again, err := json.Marshal(call)
		if err != nil {
			t.Fatalf("encode %+v: %v", call, err)
		}
		call2, err := tools.DecodeCall(again)
		if err != nil {
			t.Fatalf("decode %s: %v", again, err)
		}
		if call.Digest() != call2.Digest() || call.IDToken() != call2.IDToken() || !call.Deadline.Equal(call2.Deadline) {
			t.Errorf("%q became %s", body, again)
		}
		if !tools.IsToken(call.IDToken()) || !tools.IsToken(call.SessionToken()) {
			t.Errorf("unsafe tokens %q, %q", call.IDToken(), call.SessionToken())
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(`{"id":"1","error":{"code":"x"},"artifact":{"artifact_id":"a"},"blocks":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, decode := range []func([]byte) (any, error){
			func(b []byte) (any, error) { return tools.DecodeResult(b) },
			func(b []byte) (any, error) { return tools.DecodeRaw(b) },
		} {
			e, err := decode(body)
			if err != nil {
				continue
			}
			if _, err := json.Marshal(e); err != nil {
				t.Errorf("encode what %q decoded to: %v", body, err)
			}
		}
	})
}

func BenchmarkDecodeCall(b *testing.B) {
	for name, size := range map[string]int{"256B": 100, "4KB": 3900} {
		body := []byte(`{"id":"toolu_01A09q90qw90lq917835lq9","session":"s1","agent_id":"main","task_id":"t7","channel":"console","args":{"path":"` + string(bytes.Repeat([]byte("x"), size)) + `"}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tools.DecodeCall(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
