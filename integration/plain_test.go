package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// plain is a client that knows the URL, the subjects and JSON, and none of our
// packages. A client in any language can do the same.
type plain struct {
	*testing.T
	nc *nats.Conn
}

func connect(t *testing.T, url string) plain {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return plain{t, nc}
}

// publish publishes to a stream and waits for the acknowledgement.
// The subject of a call may lack the session and the id: then those of the body are added.
func (c plain) publish(subject, body string) {
	c.Helper()
	if strings.Count(subject, ".") == 3 && (strings.Contains(subject, ".call.") || strings.Contains(subject, ".raw.")) {
		call := struct{ ID, Session string }{nuid.Next(), "default"}
		_ = json.Unmarshal([]byte(body), &call) // it may be no JSON on purpose
		subject += "." + call.Session + "." + call.ID
	}
	ack, err := c.nc.Request(subject, []byte(body), testTimeout)
	if err != nil {
		c.Fatalf("publish to %s: %v", subject, err)
	}
	var stored struct{ Seq int }
	if err := json.Unmarshal(ack.Data, &stored); err != nil || stored.Seq == 0 {
		c.Fatalf("publish to %s: %s", subject, ack.Data)
	}
}

// subscribe returns a function that waits for the next message.
func (c plain) subscribe(subject string) (next func() event) {
	c.Helper()
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		c.Fatal(err)
	}
	if err := c.nc.Flush(); err != nil {
		c.Fatal(err)
	}
	return func() event {
		c.Helper()
		msg, err := sub.NextMsg(testTimeout)
		if err != nil {
			c.Fatalf("nothing on %s: %v", subject, err)
		}
		return c.decode(msg.Data)
	}
}

// stored waits for a message on a subject of a stream and returns the newest one.
func (c plain) stored(stream, subject string) event {
	c.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		msg, err := c.nc.Request("$JS.API.DIRECT.GET."+stream+"."+subject, nil, testTimeout)
		if err != nil {
			c.Fatal(err)
		}
		if msg.Header.Get("Status") == "" {
			return c.decode(msg.Data)
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.Fatalf("nothing in %s on %s", stream, subject)
	return nil
}

// request sends a request to the service.
func (c plain) request(subject, body string) event {
	c.Helper()
	msg, err := c.nc.Request("stevedore.rpc."+subject, []byte(body), testTimeout)
	if err != nil {
		c.Fatalf("ask %s: %v", subject, err)
	}
	return c.decode(msg.Data)
}

type event map[string]any

func (c plain) decode(data []byte) event {
	c.Helper()
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		c.Fatalf("%v: %s", err, data)
	}
	return e
}

// text returns the string at a path of keys, or "".
func (e event) text(keys ...string) string {
	var v any = map[string]any(e)
	for _, k := range keys {
		object, _ := v.(map[string]any)
		v = object[k]
	}
	if s, ok := v.(string); ok {
		return s
	}
	return ""
}

// check compares the text at a path.
func (c plain) check(e event, want string, keys ...string) {
	c.Helper()
	if got := e.text(keys...); got != want {
		c.Errorf("%s is %q, want %q; the event is %.400s", strings.Join(keys, "."), got, want, fmt.Sprint(e))
	}
}

func TestPlainClient(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	c := connect(t, u.url)

	heard := c.subscribe("stevedore.result.>")
	c.publish("stevedore.call.default.read_file", `{"id":"small","session":"s1","args":{"path":"note.txt"}}`)
	small := heard()
	c.check(small, "completed", "outcome")
	c.check(small, "A note.\n", "for_llm")

	c.publish("stevedore.call.default.shell", `{"id":"big","session":"s1","args":{"command":"seq 1 50000"}}`)
	big := c.stored("STEVEDORE_RESULTS", "stevedore.result.s1.big")
	c.check(big, "big", "artifact", "artifact_id")
	if n := len(big.text("for_llm")); n == 0 || n > 10_000 {
		t.Errorf("the light result has %d bytes", n)
	}

	c.check(c.request("artifact.s1.get", `{"artifact_id":"big","limit":6}`), "1\n2\n3\n", "content")
	lines := c.request("artifact.s1.lines", `{"artifact_id":"big","start_line":40000,"end_line":40001}`).text("text")
	if !strings.HasPrefix(lines, "Lines 40000-40001 of ") || !strings.HasSuffix(lines, "40000\n40001") {
		t.Errorf("lines: %q", lines)
	}
	found := c.request("artifact.s1.grep", `{"artifact_id":"big","pattern":"^49999$"}`).text("text")
	if !strings.HasPrefix(found, "Found 1 match(es)") || !strings.Contains(found, "49999: 49999") {
		t.Errorf("grep: %q", found)
	}
	for _, what := range []string{"query", "info"} {
		if text := c.request("artifact.s1."+what, "").text("text"); !strings.Contains(text, "big") {
			t.Errorf("%s does not list the artifact: %q", what, text)
		}
	}

	row := strings.Repeat("row\\n", 10_000)
	c.publish("stevedore.raw.default.my_tool", `{"id":"raw","session":"s1","for_llm":"`+row+`"}`)
	c.check(c.stored("STEVEDORE_RESULTS", "stevedore.result.s1.raw"), "raw", "artifact", "artifact_id")
	c.publish("stevedore.raw.default.my_tool", `{"id":"blocks","session":"s1","content":[{"type":"text","text":"`+row+`"}]}`)
	c.check(c.stored("STEVEDORE_RESULTS", "stevedore.result.s1.blocks"), "blocks", "artifact", "artifact_id")
}

// Bad input gets an answer with a code if the worker knows whom to answer, otherwise
// a dead letter. The worker goes on.
func TestBadInput(t *testing.T) {
	t.Parallel()
	u := startUp(t)
	c := connect(t, u.url)

	for _, tt := range []struct{ name, subject, body, code string }{
		{"unknown tool", "call.default.nonsense", `{}`, "unknown_tool"},
		{"wrong arguments", "call.default.read_file", `{"args":{"path":7}}`, "invalid_arguments"},
		{"arguments that are no object", "call.default.read_file", `{"args":[1]}`, "invalid_arguments"},
		{"outside the workspace", "call.default.read_file", `{"args":{"path":"/etc/passwd"}}`, "invalid_arguments"},
		{"two tools", "call.default.read_file", `{"tool":"shell"}`, "invalid_call"},
		{"no JSON", "call.default.read_file", `{"id"`, "invalid_call"},
		{"no UTF-8", "call.default.read_file", "{\"id\":\"\xff\"}", "invalid_call"},
		{"an id that is too long", "call.default.read_file", `{"id":"` + strings.Repeat("x", 20_000) + `"}`, "invalid_call"},
		{"unknown artifact", "artifact.s1.get", `{"artifact_id":"none"}`, "not_found"},
		{"no artifact", "artifact.s1.get", `{}`, "invalid_arguments"},
		{"a path for an id", "artifact.s1.get", `{"artifact_id":"../../credential"}`, "not_found"},
		{"no such function", "artifact.s1.nonsense", `{}`, "unknown_operation"},
		{"a wrong type", "artifact.s1.lines", `{"artifact_id":"a","start_line":"x"}`, "invalid_arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := plain{t, c.nc}
			answer := c.request(tt.subject, tt.body)
			c.check(answer, tt.code, "error", "code")
			if answer.text("error", "message") == "" {
				t.Error("the error has no message")
			}
		})
	}

	// Published without a request: no client waits, so it becomes a dead letter.
	dead := c.subscribe("stevedore.dead.>")
	for _, body := range []string{"", "no JSON", "[]", `"text"`, "\xff\xfe", `{"id":7}`, strings.Repeat("[", 100_000)} {
		c.publish("stevedore.call.default.read_file", body)
		c.check(dead(), "undecodable", "code")
	}

	// 2 MB exceed the server's limit. The server reports that to the client and closes
	// the client's connection. The worker keeps its own.
	if err := connect(t, u.url).nc.Publish("stevedore.call.default.read_file", make([]byte, 2<<20)); err == nil {
		t.Error("2 MB were published")
	}

	// The worker replaces ids that are wildcards, paths or too long with a token in
	// the subject. The body has the original id.
	for _, id := range []string{"*", ">", "a.b", "..", "a b", "\u202e", "\x1b[2J", strings.Repeat("y", 5000)} {
		body, err := json.Marshal(map[string]any{"id": id, "session": id, "args": map[string]string{"path": "note.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		answer := c.request("call.default.read_file", string(body))
		c.check(answer, id, "id")
		c.check(answer, "completed", "outcome")
	}

	c.check(c.request("call.default.read_file", `{"args":{"path":"note.txt"}}`), "A note.\n", "for_llm")
}
