package tools

import (
	"reflect"
	"testing"
)

// The fast decoder refuses an event or returns what the thorough one returns.
func FuzzDecodeExact(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","session":"s","tool":"t","channel":"c","chat_id":"h","agent_id":"a","task_id":"k","action":"x","args":{"a":[1,{"b":null}]}}`,
		` { "args" : { "text" : "\n" } , "\u0069d" : "1" } `, `{"id":"\u0031"}`, `{"ID":"1"}`, `{"id":null,"args":null}`, `{}`, `[]`, `{"id":"1","id":"2"}`, `null`, `{"id":"\ud800"}`,
		`{"args":{"a":1,"a":2}}`, "{\"id\":\"\xff\"}", `{"offload":true}`, `{"args":[]}`, `{"id":"1"} x`, `{"unknown":1}`, `{"deadline":"2026-01-02T03:04:05.5+01:00","delivery":"user","offload":null}`,
		`{"id":"1","session":"s","tool":"t","outcome":"failed","for_llm":"x","silent":false,"is_error":true,"async":false,"exit_code":3,"error":{"code":"timeout","message":"m"},"artifact":{"artifact_id":"a","size":5},"blocks":[{"type":"text"}],"attempt":1,"worker":"w","started_at":"2026-01-02T03:04:05Z","duration_ms":3}`,
		`{"error":{"code":"a","extra":1}}`, `{"artifact":null,"error":null,"exit_code":null,"blocks":null,"started_at":null}`, `{"attempt":1.0}`, `{"attempt":1e2}`, `{"attempt":9223372036854775808}`, `{"started_at":"2026-01-02T3:04:05,5Z"}`,
		`{"tool":"t","queue":"q","timeout_s":60,"overlap":true,"name":"n"}`, `{"object":"../o","content":"x","for_llm":""}`, `{"for_llm":null,"content":null}`, "{\"content\":[\"\\ud800\"]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sameDecoded[Call](t, data)
		sameDecoded[ResultEvent](t, data)
		sameDecoded[RawEvent](t, data)
		sameDecoded[Tick](t, data)
	})
}

func sameDecoded[T any](t *testing.T, data []byte) {
	t.Helper()
	got, ok := decodeExact[T](data)
	if !ok {
		return
	}
	if want, err := decodeFields[T](data); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: got %+v; want %+v, %v", data, got, want, err)
	}
}
