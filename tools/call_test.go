package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", tools.MaxIDLen+1)
	for name, tt := range map[string]struct {
		call tools.Call
		code string
	}{
		"good":         {tools.Call{ID: "1", Tool: "t"}, ""},
		"longest":      {tools.Call{ID: long[1:], Session: long[1:], Tool: "t"}, ""},
		"hostile id":   {tools.Call{ID: "*.>\x00", Tool: "t"}, ""},
		"no id":        {tools.Call{Tool: "t"}, tools.CodeInvalidCall},
		"long id":      {tools.Call{ID: long, Tool: "t"}, tools.CodeInvalidCall},
		"long session": {tools.Call{ID: "1", Session: long, Tool: "t"}, tools.CodeInvalidCall},
		"no tool":      {tools.Call{ID: "1"}, tools.CodeInvalidCall},
		"long tool":    {tools.Call{ID: "1", Tool: strings.Repeat("t", 65)}, tools.CodeUnknownTool},
	} {
		err := tt.call.Validate()
		if (err == nil) != (tt.code == "") || err != nil && tools.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want code %q", name, err, tt.code)
		}
	}
}

func TestSessionToken(t *testing.T) {
	if got := (tools.Call{}).SessionToken(); got != tools.DefaultSession {
		t.Errorf("no session: %q, want %q", got, tools.DefaultSession)
	}
	if got, want := (tools.Call{Session: "a b"}).SessionToken(), tools.Token("a b"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDigest(t *testing.T) {
	digest := func(tool, args string) string { return tools.Call{Tool: tool, Args: json.RawMessage(args)}.Digest() }
	for _, same := range [][2]string{
		{``, `{}`}, {`{}`, " { } "}, {`{"a":1,"b":[2,{"c":3,"d":4}]}`, `{ "b":[2,{"d":4,"c":3}], "a":1 }`}, {`{"a":"\u00e9<"}`, `{"a":"é<"}`},
		{`{"a":"<&>"}`, `{"\u0061":"<&>"}`}, {`{"a":1,"a":2}`, `{"a":2}`}, {"{\"a\":\"\u2028\"}", `{"a":"\u2028"}`},
	} {
		if digest("t", same[0]) != digest("t", same[1]) {
			t.Errorf("the digests of %s and %s differ", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{`{"a":1}`, `{"a":2}`}, {`{"a":1}`, `{"a":"1"}`}, {`{"a":[1,2]}`, `{"a":[2,1]}`}, {`{"a":12345678901234567890}`, `{"a":12345678901234567891}`},
		{`{`, `{}`}, {`{} x`, `{}`}, {`{"a":1}`, `{"A":1}`}, {`{"a":1}`, `{"a":1.0}`}, {`{"a":" "}`, `{"a":""}`},
	} {
		if digest("t", other[0]) == digest("t", other[1]) {
			t.Errorf("the digests of %s and %s are the same", other[0], other[1])
		}
	}
	if digest("t", `{}`) == digest("u", `{}`) {
		t.Error("the digests of two tools are the same")
	}
	// The digest is stored in records, so it must not change between versions.
	if got, want := digest("read_file", `{"path":"a.txt"}`), "cd952692b6735beb38c466fe7c864318"; got != want {
		t.Errorf("digest = %s, want %s", got, want)
	}
}

// People see the arguments of a sub-agent without its limits, also while it runs.
func TestShownArgs(t *testing.T) {
	args := json.RawMessage(`{"grant":{"tools":["` + strings.Repeat("x", 600) + `"]},"task":"read é` + strings.Repeat("é", 600) + `"}`)
	all, short := tools.ShownArgs(tools.Call{Args: args}), tools.ArgsExcerpt(args)
	if !strings.HasPrefix(short, `{"task":"read é`) || len(short) > 250 || !strings.HasPrefix(all, strings.TrimSuffix(short, "…")) {
		t.Errorf("shown are %q and %q", all, short)
	}
	if got := tools.ArgsExcerpt(json.RawMessage(" {} ")); got != "" {
		t.Errorf("no arguments: %q", got)
	}
}
