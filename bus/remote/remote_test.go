package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/remote"
	"github.com/stevedore-bus/stevedore/tools"
)

// serve serves a tool on a subject.
func serve(t *testing.T, b *bus.Bus, subject string, answer func(msg *nats.Msg) *nats.Msg) {
	t.Helper()
	sub, err := b.Conn().QueueSubscribe(subject, "tools", func(msg *nats.Msg) {
		if reply := answer(msg); reply != nil {
			if err := msg.RespondMsg(reply); err != nil {
				t.Errorf("respond: %v", err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Unsubscribe() })
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
}

func respond(body string) func(*nats.Msg) *nats.Msg {
	return func(*nats.Msg) *nats.Msg { return &nats.Msg{Data: []byte(body)} }
}

func open(t *testing.T, b *bus.Bus, subject string, cfg remote.Config) *remote.Tool {
	t.Helper()
	if cfg.RetryTimeout == 0 {
		cfg.RetryTimeout = 50 * time.Millisecond
	}
	tool, err := remote.Open(t.Context(), b, "tool", subject, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// A registry calls a tool that the micro framework serves.
func TestRemoteTool(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	svc, err := micro.AddService(b.Conn(), micro.Config{Name: "shouting", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { svc.Stop() })
	calls := make(chan tools.Call, 10)
	endpoint := func(subject string, f func(micro.Request)) {
		if err := svc.AddEndpoint("e", micro.HandlerFunc(f), micro.WithEndpointSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	endpoint("acme.shout.definition", func(r micro.Request) {
		r.Respond([]byte(`{"name":"other","description":" Shout. ","effect":"idempotent","no_offload":true,"parameters":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`))
	})
	endpoint("acme.shout", func(r micro.Request) {
		call, err := tools.DecodeCall(r.Data())
		if err != nil {
			t.Error(err)
		}
		calls <- call
		var args struct{ Text string }
		json.Unmarshal(call.Args, &args)
		if args.Text == "" {
			r.Error("invalid_arguments", "nothing to shout", nil)
			return
		}
		r.RespondJSON(map[string]any{"for_llm": strings.ToUpper(args.Text), "for_user": "shouted", "silent": true, "channel": "pager", "async": true})
	})

	tool := open(t, b, "acme.shout", remote.Config{RetryTimeout: bustest.Timeout})
	if def := tool.Definition(); def.Name != "tool" || def.Description != "Shout." || def.Effect != tools.Idempotent || def.NoOffload || def.Parameters == nil {
		t.Errorf("definition = %+v", def)
	}
	reg := tools.NewRegistry(zerolog.Nop())
	if err := reg.Register(tool); err != nil {
		t.Fatal(err)
	}
	call := tools.Call{ID: "1", Session: "s", Tool: "tool", Args: json.RawMessage(`{"text":"land ho"}`), AgentID: "a"}
	res := reg.Run(t.Context(), call, nil)
	if want := (&tools.Result{ForLLM: "LAND HO", UserContent: tools.UserContent{ForUser: "shouted"}}); !reflect.DeepEqual(res, want) {
		t.Errorf("got %+v, want %+v", res, want)
	}
	got := <-calls
	if got.Deadline.IsZero() {
		t.Error("the call has no deadline")
	}
	got.Deadline = time.Time{}
	if !reflect.DeepEqual(got, call) {
		t.Errorf("the tool got %+v, want %+v", got, call)
	}
	call.Args = json.RawMessage(`{"text":""}`)
	if res := reg.Run(t.Context(), call, nil); !res.IsError || tools.CodeOf(res.Err) != tools.CodeInvalidArguments || res.ForLLM != "nothing to shout" {
		t.Errorf("got %+v", res)
	}
	call.Args = json.RawMessage(`{}`)
	if res := reg.Run(t.Context(), call, nil); !res.IsError || !strings.Contains(res.ForLLM, "text") {
		t.Errorf("the schema was not checked: %+v", res)
	}
	if len(calls) != 1 {
		t.Errorf("%d further calls reached the tool, want 1", len(calls))
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	failing := func(code, message string) func(*nats.Msg) *nats.Msg {
		return func(*nats.Msg) *nats.Msg {
			return &nats.Msg{Data: []byte("ignored"), Header: nats.Header{"nats-service-error-code": {code}, "Nats-Service-Error": {message}}}
		}
	}
	for name, tt := range map[string]struct {
		answer  func(*nats.Msg) *nats.Msg
		want    string
		forUser string
		code    string
	}{
		"text":            {respond("just text"), "just text", "", ""},
		"nothing":         {respond(""), "", "", ""},
		"JSON of its own": {respond(`{"a":1}`), `{"a":1}`, "", ""},
		"array":           {respond(`["for_llm"]`), `["for_llm"]`, "", ""},
		"result":          {respond(`{"for_llm":"x","for_user":"y"}`), "x", "y", ""},
		"ambiguous":       {respond(`{"for_llm":"x","FOR_LLM":"y"}`), `{"for_llm":"x","FOR_LLM":"y"}`, "", ""},
		"content type text": {func(*nats.Msg) *nats.Msg {
			return &nats.Msg{Data: []byte(`{"for_llm":"x"}`), Header: nats.Header{"Content-Type": {"text/plain"}}}
		}, `{"for_llm":"x"}`, "", ""},
		"error result":       {respond(`{"for_llm":"no luck","is_error":true}`), "no luck", "", tools.CodeToolFailed},
		"empty error result": {respond(`{"for_llm":"","is_error":true}`), "the tool failed", "", tools.CodeToolFailed},
		"error":              {failing("not_found", "no such thing"), "no such thing", "", tools.CodeNotFound},
		"other code":         {failing("500", "oops"), "oops (code 500)", "", tools.CodeToolFailed},
		"our code":           {failing(tools.CodeUnknownOutcome, "who knows"), "who knows (code unknown_outcome)", "", tools.CodeToolFailed},
		"message only":       {failing("", "oops"), "oops", "", tools.CodeToolFailed},
		"code only":          {failing("500", ""), "the tool failed (code 500)", "", tools.CodeToolFailed},
		"too large":          {respond(strings.Repeat("x", 1001)), "the response of tool has 1001 bytes; at most 1000 are accepted", "", tools.CodeToolFailed},
	} {
		t.Run(name, func(t *testing.T) {
			subject := "acme." + tools.Token(name)
			serve(t, b, subject+".definition", respond("{}"))
			serve(t, b, subject, tt.answer)
			res := open(t, b, subject, remote.Config{MaxResult: 1000}).Execute(t.Context(), tools.Call{ID: "1", Tool: "tool"})
			if res.ForLLM != tt.want || res.ForUser != tt.forUser || res.IsError != (tt.code != "") || res.IsError && tools.CodeOf(res.Err) != tt.code || res.Silent || res.Async {
				t.Errorf("got %+v (%v), want %q, %q, code %q", res, res.Err, tt.want, tt.forUser, tt.code)
			}
		})
	}
	serve(t, b, "acme.bytes", respond("\xff\xfe"))
	bytes := open(t, b, "acme.bytes", remote.Config{}).Execute(t.Context(), tools.Call{})
	if bytes.IsError || bytes.Output == nil {
		t.Fatalf("bytes: %+v", bytes)
	}
	if text, _, err := bytes.Output.Text(10); err != nil || text != "\xff\xfe" {
		t.Errorf("bytes: %q, %v", text, err)
	}
	serve(t, b, "acme.user", respond(`{"for_llm":"x","for_user":"`+strings.Repeat("y", 100_000)+`"}`))
	if res := open(t, b, "acme.user", remote.Config{}).Execute(t.Context(), tools.Call{}); len(res.ForUser) > 17_000 {
		t.Errorf("%d bytes for the user", len(res.ForUser))
	}
}

func TestNoResponse(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "1", Tool: "tool"}
	check := func(name string, res *tools.Result, code, want string) {
		t.Helper()
		if !res.IsError || tools.CodeOf(res.Err) != code || !strings.Contains(res.ForLLM, want) {
			t.Errorf("%s: got %s %q, want %s %q", name, tools.CodeOf(res.Err), res.ForLLM, code, want)
		}
	}
	check("not served", open(t, b, "acme.nobody", remote.Config{}).Execute(t.Context(), call), tools.CodeToolFailed, "was not run: no process serves it")

	asked := make(chan struct{}, 10)
	serve(t, b, "acme.mute", func(*nats.Msg) *nats.Msg { asked <- struct{}{}; return nil })
	check("mute", open(t, b, "acme.mute", remote.Config{Timeout: 50 * time.Millisecond}).Execute(t.Context(), call), tools.CodeTimeout, "may have acted")
	<-asked
	mute := open(t, b, "acme.mute", remote.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	check("cancelled", mute.Execute(ctx, call), tools.CodeCancelled, "was cancelled")
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check("deadline", mute.Execute(ctx, call), tools.CodeTimeout, "in time")

	big := call
	big.Args = json.RawMessage(`{"x":"` + strings.Repeat("x", int(b.Conn().MaxPayload())) + `"}`)
	check("big", mute.Execute(t.Context(), big), tools.CodeInvalidArguments, "larger than the limit of the bus")
}

// A call is retried until a process serves the tool.
func TestToolStartsLate(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	tool := open(t, b, "acme.late", remote.Config{RetryTimeout: 10 * time.Millisecond})
	if def := tool.Definition(); def.Effect != tools.Once || def.Parameters != nil || def.Description == "" {
		t.Errorf("definition = %+v", def)
	}
	serve(t, b, "acme.late.definition", respond(`{"description":"Late."}`))
	retrying := open(t, b, "acme.late", remote.Config{RetryTimeout: 20 * time.Second})
	done := make(chan *tools.Result, 1)
	go func() { done <- retrying.Execute(t.Context(), tools.Call{ID: "1", Tool: "tool"}) }()
	serve(t, b, "acme.late", respond("here"))
	if res := <-done; res.ForLLM != "here" {
		t.Errorf("got %+v", res)
	}
}

func TestOpenRefuses(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "THEIRS", Subjects: []string{"theirs.>"}}); err != nil {
			t.Fatal(err)
		}
		for subject, want := range map[string]string{
			"": "empty", "a b": "character", "acme.*": "character", "acme..x": "empty token",
			"stevedore.call.default.x": "are reserved", "stevedore": "", "theirs.tool": `the stream "THEIRS" captures`,
		} {
			_, err := remote.Open(t.Context(), b, "tool", subject, remote.Config{RetryTimeout: 2 * time.Second})
			if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("subject %q: %v, want %q", subject, err, want)
			}
		}
		if _, err := remote.Open(t.Context(), b, "a.b", "acme.x", remote.Config{}); err == nil {
			t.Error("no error for a bad name")
		}
		for body, want := range map[string]string{
			"no JSON": "want {", `{"effect":"harmless"}`: "once, keyed or idempotent",
			`{"parameters":{"type":"string"}}`: "object", `{"parameters":{"type":"object","$ref":"http://127.0.0.1/x"}}`: "parameters",
			"\xff": "UTF-8", `{"description":"` + strings.Repeat("x", 300<<10) + `"}`: "at most",
			`{"parameters":{"type":"object","properties":{"a":{"pattern":"("}}}}`: "parameters",
		} {
			subject := "acme." + tools.Token(body)
			serve(t, b, subject+".definition", respond(body))
			if _, err := remote.Open(t.Context(), b, "tool", subject, remote.Config{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("definition %.50q: %v, want %q", body, err, want)
			}
		}
	})
}

// A tool whose process starts late gets its definition then, and an invalid definition is
// requested again.
func TestLateDefinition(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		tool := open(t, b, "acme.late", remote.Config{})
		if def := tool.Definition(); def.Effect != tools.Once || def.Parameters != nil {
			t.Fatalf("definition %+v", def)
		}
		requests := 0
		serve(t, b, "acme.late.definition", func(*nats.Msg) *nats.Msg {
			if requests++; requests == 1 {
				return &nats.Msg{Data: []byte(`{"effect":"sometimes"}`)}
			}
			return &nats.Msg{Data: []byte(`{"description":"late","effect":"idempotent","parameters":{"type":"object"}}`)}
		})
		served := tool.Await(t.Context())
		if served == nil {
			t.Fatal("no tool")
		}
		if def := served.Definition(); def.Name != "tool" || def.Description != "late" || def.Effect != tools.Idempotent || def.Parameters == nil {
			t.Errorf("definition %+v", def)
		}
		if again := served.Await(t.Context()); again != nil {
			t.Errorf("a served tool is replaced by %+v", again.Definition())
		}
	})
}

// The end of the connection is not the tool's failure: the worker decides by the effect what
// becomes of the call.
func TestConnectionEndsDuringARequest(t *testing.T) {
	s := bustest.Server(t)
	b := bustest.Dial(t, s, bus.Config{})
	reached := make(chan struct{})
	serve(t, b, "acme.slow", func(msg *nats.Msg) *nats.Msg { close(reached); return nil })
	client := bustest.Dial(t, s, bus.Config{})
	tool := open(t, client, "acme.slow", remote.Config{})
	go func() { <-reached; client.Close() }()
	if res := tool.Execute(t.Context(), tools.Call{ID: "1", Tool: "slow"}); !errors.Is(res.Err, tools.ErrInterrupted) {
		t.Errorf("result %+v", res)
	}
}

// A server that restarts, or a connection that breaks, can drop a response. Then the silence is
// not the tool's: a call that may run again is interrupted soon, a once-only one at its timeout.
func TestResponseIsLostWithTheConnection(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Idempotent, tools.Once} {
		t.Run(string(effect), func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				s := bustest.Server(t)
				server, link := bustest.Dial(t, s, bus.Config{}), &link{server: s}
				config := s.ClientConfig(bus.Config{})
				config.InProcess = link
				client, err := bus.Connect(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(client.Close)
				subject, cfg := "acme.lost", remote.Config{Timeout: 5 * time.Minute, RetryTimeout: 10 * time.Second, ReconnectGrace: 10 * time.Second}
				serve(t, server, subject+".definition", respond(`{"effect":"`+string(effect)+`"}`))
				serve(t, server, subject, func(*nats.Msg) *nats.Msg { link.cut(); return nil })
				began := time.Now()
				res := open(t, client, subject, cfg).Execute(t.Context(), tools.Call{ID: "1", Tool: "tool"})
				soon := time.Since(began) < time.Minute
				if !errors.Is(res.Err, tools.ErrInterrupted) || soon != (effect == tools.Idempotent) || soon && tools.CodeOf(res.Err) == tools.CodeTimeout {
					t.Errorf("%v after %s", res.Err, time.Since(began))
				}
			})
		})
	}
}

// link is a connection to a server that a test can cut.
type link struct {
	server *embedded.Server
	conn   net.Conn
}

func (l *link) InProcessConn() (conn net.Conn, err error) {
	l.conn, err = l.server.InProcessConn()
	return l.conn, err
}

func (l *link) cut() {
	l.conn.Close()
}
