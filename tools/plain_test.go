package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The fast way gives what the slow one gives.
func FuzzPlainCall(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","session":"s","tool":"t","channel":"c","chat_id":"h","agent_id":"a","task_id":"k","action":"x","args":{"a":[1,{"b":null}]}}`,
		` { "args" : { "text" : "\n" } , "\u0069d" : "1" } `, `{"id":"\u0031"}`, `{"ID":"1"}`, `{"id":null,"args":null}`, `{}`, `[]`, `{"id":"1","id":"2"}`,
		`{"args":{"a":1,"a":2}}`, "{\"id\":\"\xff\"}", `{"offload":true}`, `{"args":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := plainCall(data)
		if !ok {
			if !reflect.DeepEqual(got, Call{}) {
				t.Errorf("%q: %+v is left", data, got)
			}
			return
		}
		want, err := decodeEvent[Call](data)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v; want %+v, %v", data, got, want, err)
		}
	})
}

func TestPlainCallIsUsed(t *testing.T) {
	for body, want := range map[string]bool{
		`{"id":"1","session":"s","args":{"text":"a\nb"}}`: true,
		`{}`:                         true,
		`{"id":"1","new_field":"x"}`: false,
		`{"id":"1","offload":true}`:  false,
		`{"id":"a\u0062"}`:           false,
		`{"id":"` + strings.Repeat("x", maxPlain) + `"}`: false,
	} {
		if _, ok := plainCall([]byte(body)); ok != want {
			t.Errorf("%.60s: %v, want %v", body, ok, want)
		}
	}
}

// Both ways end at the same depth, which no fuzzing finds.
func TestPlainDepth(t *testing.T) {
	for _, depth := range []int{maxDepth - 2, maxDepth - 1, maxDepth, maxDepth + 1, 3 * maxDepth} {
		value := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := isJSON(value), json.Valid(value); got != want {
			t.Errorf("a depth of %d is JSON: %v, want %v", depth, got, want)
		}
		event := fmt.Appendf(nil, `{"id":"1","tool":"t","args":{"a":%s}}`, value)
		_, want := decodeEvent[Call](event)
		if _, err := DecodeCall(event); (err == nil) != (want == nil) {
			t.Errorf("a call of that depth: %v; want %v", err, want)
		}
	}
}

func FuzzIsJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e9\ud800"]}`, `01`, `1.`, `"\x"`, "\"\x01\"", `[1,]`, `{"a":1,}`, ` {} `, `{}{}`, `nul`, `-`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := isJSON(data), json.Valid(data); got != want {
			t.Errorf("%q: %v, want %v", data, got, want)
		}
	})
}
