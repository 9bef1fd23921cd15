package tools_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

// checkDecoded fails if body is not one object whose id, session and tool another reader
// reads as the decoder did, or if the key of the call is not safe in a subject.
func checkDecoded(t *testing.T, body []byte, call tools.Call) {
	t.Helper()
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
	if !tools.IsToken(call.IDToken()) || !tools.IsToken(call.SessionToken()) {
		t.Errorf("unsafe tokens %q, %q", call.IDToken(), call.SessionToken())
	}
}

// checkAgain fails if encoding and decoding change a decoded event.
func checkAgain[T any](t *testing.T, event T, decode func([]byte) (T, error)) {
	t.Helper()
	again, err := json.Marshal(event)
	if err != nil {
		t.Fatalf("encode %+v: %v", event, err)
	}
	event2, err := decode(again)
	if err != nil {
		t.Fatalf("decode %s: %v", again, err)
	}
	again2, err := json.Marshal(event2)
	if err != nil || !reflect.DeepEqual(again, again2) {
		t.Errorf("%s became %s, %v", again, again2, err)
	}
}

func FuzzDecodeRaw(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","session":"s","tool":"t","for_llm":"x","is_error":true}`, `{"content":[{"type":"text","text":"x"}],"markdown":true}`,
		`{"object":"../o","content":"x","for_llm":""}`, `{"id":"a.b","ID":"c"}`, `{"for_llm":null,"content":null}`, "{\"for_llm\":\"\xff\"}", `{"args":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if e, err := tools.DecodeRaw(body); err == nil {
			checkDecoded(t, body, e.Call)
			checkAgain(t, e, tools.DecodeRaw)
		}
	})
}

func FuzzDecodeTick(f *testing.F) {
	for _, seed := range []string{
		`{"tool":"t","queue":"q","timeout_s":60,"overlap":true,"name":"n"}`, `{"tool":"t","name":"*"}`, `{"tool":"a.b"}`, `{"tool":"t","timeout_s":1e400}`,
		`{"tool":"t","timeout_s":-9223372036854775808}`, `{"tool":"t","Tool":"u"}`, `{"tool":"t","args":{"x":[[[1]]]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tick, err := tools.DecodeTick(body)
		if err != nil {
			return
		}
		checkDecoded(t, body, tick.Call)
		checkAgain(t, tick, tools.DecodeTick)
		if !tools.IsToken(tick.Tool) || tick.Name != "" && !tools.IsToken(tick.Name) {
			t.Errorf("unsafe tool %q or name %q", tick.Tool, tick.Name)
		}
	})
}
