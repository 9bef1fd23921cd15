package tools

import (
	"encoding/json"
	"reflect"
	"testing"
)

// The fast way returns what encoding/json returns.
func FuzzPlainCall(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","session":"s","tool":"t","channel":"c","chat_id":"h","agent_id":"a","task_id":"k","action":"x","args":{"a":[1,{"b":null}]}}`,
		` { "args" : { "text" : "\n" } , "\u0069d" : "1" } `, `{"id":"\u0031"}`, `{"ID":"1"}`, `{"id":null,"args":null}`, `{}`, `[]`, `{"id":"1","id":"2"}`,
		`{"args":{"a":1,"a":2}}`, "{\"id\":\"\xff\"}", `{"offload":true}`, `{"args":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := fieldsOf(data)
		if (err == nil) && !json.Valid(data) {
			t.Errorf("%q is not JSON", data)
		}
		var got, want Call
		if err != nil || checkFields(fields) != nil || !got.setPlain(fields) {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v; want %+v, %v", data, got, want, err)
		}
	})
}
