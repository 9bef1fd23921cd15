package tools

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The fast way returns what the slow one returns.
func FuzzPlainCall(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","session":"s","tool":"t","channel":"c","chat_id":"h","agent_id":"a","task_id":"k","action":"x","args":{"a":[1,{"b":null}]}}`,
		` { "args" : { "text" : "\n" } , "\u0069d" : "1" } `, `{"id":"\u0031"}`, `{"ID":"1"}`, `{"id":null,"args":null}`, `{}`, `[]`, `{"id":"1","id":"2"}`,
		`{"args":{"a":1,"a":2}}`, "{\"id\":\"\xff\"}", `{"offload":true}`, `{"args":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := decodePlainCall(data)
		if !ok {
			if !reflect.DeepEqual(got, Call{}) {
				t.Errorf("%q: %+v was returned", data, got)
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
		`{"id":"` + strings.Repeat("x", 64<<10) + `"}`: false,
	} {
		if _, ok := decodePlainCall([]byte(body)); ok != want {
			t.Errorf("%.60s: %v, want %v", body, ok, want)
		}
	}
}

func TestPlainCallDepth(t *testing.T) {
	for _, depth := range []int{9_997, 9_998, 9_999, 10_000, 30_000} {
		event := fmt.Appendf(nil, `{"id":"1","tool":"t","args":{"a":%s%s}}`, strings.Repeat("[", depth), strings.Repeat("]", depth))
		_, want := decodeEvent[Call](event)
		if _, err := DecodeCall(event); (err == nil) != (want == nil) {
			t.Errorf("a call of depth %d: %v; want %v", depth, err, want)
		}
	}
}
