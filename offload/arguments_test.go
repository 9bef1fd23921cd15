package offload

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	long := strings.Repeat("ab\"c\n", 60_000)
	putArtifact(t, store, "s", "text", []byte("one\ntwo\nthree"))
	putArtifact(t, store, "s", "long", []byte(long))
	putArtifact(t, store, "s", "json", []byte(`{"items":[{"n":1.10},{"n":2}],"name":"x"}`))
	putArtifact(t, store, "s", "huge", bytes.Repeat([]byte("x"), maxArguments+1))
	putArtifact(t, store, "s", "half", bytes.Repeat([]byte("x"), maxArguments*2/3))
	putArtifact(t, store, "s", "parts", []byte(`{"parts":["`+strings.Repeat("x", maxArguments*2/3)+`","`+strings.Repeat("y", maxArguments*2/3)+`"]}`))
	putArtifact(t, store, "s", "binary", []byte("\x00\xff\x01"))
	putArtifact(t, store, "other", "theirs", []byte("secret"))
	r := NewReader(store, ReaderConfig{})
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
		"text": {Type: "string"}, "rows": {Types: []string{"null", "array"}}, "n": {Type: "integer"}, "nested": {Type: "object", Properties: map[string]*jsonschema.Schema{"text": {Type: "string"}}},
	}}
	longJSON := must(json.Marshal(long))
	for args, want := range map[string]string{
		`{"text":{"$artifact":"text"},"n":1.50}`:                                 `{"n":1.50,"text":"one\ntwo\nthree"}`,
		`{"text":{"$artifact":"long"}}`:                                          `{"text":` + string(longJSON) + `}`,
		`{"text":{"$artifact":"text","lines":"2-3"}}`:                            `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":"2-"}}`:                             `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":"-2"}}`:                             `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":-2}}`:                               `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":"2"}}`:                              `{"text":"two"}`,
		`{"text":{"$artifact":"text","lines":" 1 - 2 "}}`:                        `{"text":"one\ntwo"}`,
		`{"text":{"$artifact":"text","lines":"2-900"}}`:                          `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":[2,null]}}`:                         `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":[-2,-1]}}`:                          `{"text":"two\nthree"}`,
		`{"text":{"$artifact":"text","lines":["1","2"]}}`:                        `{"text":"one\ntwo"}`,
		`{"text":{"$artifact":"text","lines":[1,2]}}`:                            `{"text":"one\ntwo"}`,
		`{"text":{"$artifact":"text","lines":-1}}`:                               `{"text":"three"}`,
		`{"text":{"$artifact":"json","jq":".name"}}`:                             `{"text":"x"}`,
		`{"text":{"$artifact":"json","jq":".items[].n"}}`:                        `{"text":"1.10\n2"}`,
		`{"rows":{"$artifact":"json","jq":".items"}}`:                            `{"rows":[{"n":1.10},{"n":2}]}`,
		`{"rows":{"$artifact":"json","jq":".items[].n"}}`:                        `{"rows":[1.10,2]}`,
		`{"nested":{"$artifact":"json"}}`:                                        `{"nested":{"items":[{"n":1.10},{"n":2}],"name":"x"}}`,
		`{"nested":{"text":{"$artifact":"json"}},"list":[{"$artifact":"text"}]}`: `{"list":["one\ntwo\nthree"],"nested":{"text":"{\"items\":[{\"n\":1.10},{\"n\":2}],\"name\":\"x\"}"}}`,
		`{"text":{"$artifact":"binary","base64":true}}`:                          `{"text":"AP8B"}`,
		`{"text":"$artifact","x": 1}`:                                            `{"text":"$artifact","x": 1}`,
		`{"text":{"\u0024artifact":"text","lines":1}}`:                           `{"text":"one"}`,
		`not json $artifact"`:                                                    `not json $artifact"`,
	} {
		got, err := r.Expand(t.Context(), "s", schema, json.RawMessage(args))
		if err != nil || string(got) != want {
			t.Errorf("%s gives %.200s, %v; want %.200s", args, got, err, want)
		}
	}
	for args, want := range map[string][2]string{
		`{"text":{"$artifact":"none"}}`:                                                              {tools.CodeNotFound, "no artifact"},
		`{"text":{"$artifact":"theirs"}}`:                                                            {tools.CodeNotFound, "no artifact"},
		`{"text":{"$artifact":"huge"}}`:                                                              {tools.CodeInvalidArguments, "too large for an argument"},
		`{"text":{"$artifact":"huge","lines":1}}`:                                                    {tools.CodeInvalidArguments, "too large for an argument"},
		`{"text":{"$artifact":"half"},"x":{"$artifact":"half"}}`:                                     {tools.CodeInvalidArguments, "too large for an argument"},
		`{"text":{"$artifact":"half","lines":1},"x":{"$artifact":"half","lines":1}}`:                 {tools.CodeInvalidArguments, "too large for an argument"},
		`{"text":{"$artifact":"parts","jq":".parts[0]"},"x":{"$artifact":"parts","jq":".parts[1]"}}`: {tools.CodeInvalidArguments, "too large for an argument"},
		`{"rows":{"$artifact":"parts","jq":".parts[]"}}`:                                             {tools.CodeInvalidArguments, "too large for an argument"},
		`{"text":{"$artifact":"binary"}}`:                                                            {tools.CodeInvalidArguments, "not text"},
		`{"text":{"$artifact":"binary"},"rows":1}`:                                                   {tools.CodeInvalidArguments, "not text"},
		`{"rows":{"$artifact":"text"}}`:                                                              {tools.CodeInvalidArguments, "is not JSON"},
		`{"text":{"$artifact":"text","lines":"x"}}`:                                                  {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":"1 2"}}`:                                                {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":"-"}}`:                                                  {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":""}}`:                                                   {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":"0-2"}}`:                                                {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":{"from":1}}}`:                                           {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":[]}}`:                                                   {tools.CodeInvalidArguments, "want a range such as"},
		`{"text":{"$artifact":"text","lines":"3-2"}}`:                                                {tools.CodeInvalidArguments, "before start_line"},
		`{"text":{"$artifact":"text","lines":[9,10]}}`:                                               {tools.CodeInvalidArguments, "outside"},
		`{"text":{"$artifact":"text","jq":"."}}`:                                                     {tools.CodeInvalidArguments, "not JSON"},
		`{"text":{"$artifact":"text","session":"other"}}`:                                            {tools.CodeInvalidArguments, "unknown"},
		`{"text":{"$artifact":5}}`:                                                                   {tools.CodeInvalidArguments, "must be the id"},
		`{"text":{"$artifact":"json","jq":".","lines":1}}`:                                           {tools.CodeInvalidArguments, "either"},
	} {
		_, err := r.Expand(t.Context(), "s", schema, json.RawMessage(args))
		wantCode(t, err, want[0], want[1])
	}
}

// A model sees an image as a block, and of any other binary one sentence.
func TestBinaryArtifacts(t *testing.T) {
	store := newFakeStore(StoreConfig{})
	png := screenshot(t, 300, 200)
	for id, data := range map[string][]byte{"png": png, "elf": append([]byte("\x7fELF\x00\xff"), png...), "large": append(png, make([]byte, maxImageFile)...)} {
		rec := Record{Artifact: tools.Artifact{ID: id}, Session: "s"}
		if _, err := store.Put(t.Context(), rec, bytes.NewReader(data), summarize(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	registry := tools.NewRegistry(zerolog.Nop())
	if err := registry.Register(NewReader(store, ReaderConfig{}).Tools()...); err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string]string{ToolGet: "", ToolLines: `,"start_line":1`, ToolGrep: `,"pattern":"q"`} {
		for _, id := range []string{"png", "elf", "large"} {
			res := registry.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: tool, Args: []byte(`{"artifact_id":"` + id + `"` + args + `}`)}, nil)
			if res.IsError || strings.Contains(res.ForLLM, "\uFFFD") || !strings.Contains(res.ForLLM, " bytes of ") || len(res.ForLLM) > 600 {
				t.Errorf("%s of %s gives %+v", tool, id, res)
			}
			if want := tool == ToolGet && id == "png"; want != (res.Blocks != nil) || want && !strings.Contains(string(res.Blocks), base64.StdEncoding.EncodeToString(png)) {
				t.Errorf("%s of %s: blocks %.100s", tool, id, res.Blocks)
			}
		}
	}
}
