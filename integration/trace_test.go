package integration

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// otlpSpan is a span as the receiver decodes it.
type otlpSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []struct {
		Key   string
		Value map[string]any
	}
	Status struct {
		Code    int
		Message string
	}
}

func (s otlpSpan) attribute(key string) any {
	for _, a := range s.Attributes {
		if a.Key == key {
			for _, v := range a.Value {
				return v
			}
		}
	}
	return nil
}

// receiver is a receiver of OTLP/JSON over HTTP. It refuses the first request, as a
// receiver that is restarting does.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	text     strings.Builder
	spans    []otlpSpan
	problems []string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.requests++; r.requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var body io.Reader = req.Body
		if req.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(req.Body)
		}
		data, err := io.ReadAll(body)
		var in struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []map[string]any }
				ScopeSpans []struct{ Spans []otlpSpan }
			}
		}
		if err == nil {
			err = json.Unmarshal(data, &in)
		}
		if err != nil || req.Method != http.MethodPost || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/json" || req.Header.Get("Api-Key") != "a secret" {
			r.problems = append(r.problems, req.Method+" "+req.URL.Path+" "+string(data))
		}
		r.text.Write(data)
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(r.Close)
	return r
}

// of returns the spans of a trace, by name.
func (r *receiver) of(trace string) map[string]otlpSpan {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]otlpSpan{}
	for _, s := range r.spans {
		if s.TraceID == trace {
			found[s.Name] = s
		}
	}
	return found
}

// One trace leads from the client's traceparent through the queue, the agent, the model,
// its tool, the artifact and the result to the notification, and contains no content.
func TestTrace(t *testing.T) {
	t.Parallel()
	const secret, trace, parent = "xyzzy-content", "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	r := newReceiver(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"turns.jsonl": `{"text":"` + secret + `","tools":[{"name":"read_file","input":{"path":"` + secret + `.txt"}}],"usage":{"input_tokens":12,"output_tokens":3}}
{"text":"` + secret + `"}
`, secret + ".txt": strings.Repeat(secret+"\n", 10_000),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(workerProgram, "up", "--json", "--listen", "127.0.0.1:0", "--console", "off", "--data", filepath.Join(t.TempDir(), "data"), "--workspace", dir,
		"--model", "script:"+filepath.Join(dir, "turns.jsonl"), "--channel", "log=file:"+filepath.Join(t.TempDir(), "log"), "--default-channel", "log")
	cmd.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.URL, "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%20secret", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"}
	p, err := launchCommand(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("%v\n%s", err, p.stderr)
		}
	})
	nc, err := nats.Connect(urlOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	results, err := nc.SubscribeSync("stevedore.result.s.run1")
	if err != nil {
		t.Fatal(err)
	}
	msg := &nats.Msg{Subject: "stevedore.call.agent.agent.s.run1", Data: []byte(`{"channel":"log","args":{"prompt":"` + secret + `"}}`), Header: nats.Header{"traceparent": {"00-" + trace + "-" + parent + "-01"}}}
	if _, err := js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	result, err := results.NextMsg(testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"wait agent", "execute_tool agent", "invoke_agent agent", "chat turns.jsonl", "publish default", "wait default", "execute_tool read_file", "offload", "publish result", "notify log"}
	missing := func() (missing []string) {
		spans := r.of(trace)
		for _, name := range want {
			if _, ok := spans[name]; !ok {
				missing = append(missing, name)
			}
		}
		return missing
	}
	for deadline := time.Now().Add(testTimeout); len(missing()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no spans %q\n%s", missing(), p.stderr)
		}
	}
	spans := r.of(trace)
	for child, of := range map[string]string{
		"invoke_agent agent": "execute_tool agent", "chat turns.jsonl": "invoke_agent agent", "publish default": "invoke_agent agent",
		"wait default": "publish default", "execute_tool read_file": "publish default", "offload": "execute_tool read_file",
	} {
		if spans[child].ParentSpanID != spans[of].SpanID {
			t.Errorf("the parent of %q is not %q", child, of)
		}
	}
	for _, name := range []string{"wait agent", "execute_tool agent"} {
		if spans[name].ParentSpanID != parent {
			t.Errorf("the parent of %q is %q, want the client's span", name, spans[name].ParentSpanID)
		}
	}
	if got := result.Header.Get("traceparent"); !strings.HasPrefix(got, "00-"+trace+"-") || strings.Contains(got, parent) || !strings.Contains(got, spans["notify log"].ParentSpanID) {
		t.Errorf("the result has the traceparent %q, the notification the parent %q", got, spans["notify log"].ParentSpanID)
	}
	for name, attributes := range map[string]map[string]any{
		"execute_tool read_file": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file", "gen_ai.conversation.id": "s", "stevedore.outcome": "completed"},
		"execute_tool agent":     {"gen_ai.tool.call.id": "run1", "stevedore.queue": "agent", "stevedore.attempt": "1"},
		"invoke_agent agent":     {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent", "stevedore.agent.turns": "2"},
		"chat turns.jsonl":       {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "script", "gen_ai.request.model": "turns.jsonl"},
		"offload":                {"stevedore.artifact.bytes": "140000"},
		"notify log":             {"stevedore.channel": "log", "stevedore.outcome": "delivered"},
	} {
		for key, want := range attributes {
			if got := spans[name].attribute(key); got != want {
				t.Errorf("%q has %s %v, want %v", name, key, got, want)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := r.text.String(); strings.Contains(text, secret) || !strings.Contains(text, `"stevedore-worker"`) || !strings.Contains(text, `"deployment.environment.name"`) {
		t.Errorf("the traces contain content, or no resource:\n%s", text)
	}
	if len(r.problems) > 0 {
		t.Errorf("unexpected requests: %q", r.problems)
	}
}

// Without the variables, a worker passes on the client's trace and makes no spans.
func TestTraceIsForwardedWithoutExporter(t *testing.T) {
	t.Parallel()
	u := startUp(t, "--console", "off")
	nc, err := nats.Connect(u.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	results, err := nc.SubscribeSync("stevedore.result.s.*")
	if err != nil {
		t.Fatal(err)
	}
	const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for sent, want := range map[string]string{traceparent: traceparent, "hostile\x01": "", "00-00000000000000000000000000000000-0000000000000000-01": ""} {
		msg := &nats.Msg{Subject: "stevedore.call.default.read_file.s." + nats.NewInbox()[7:], Data: []byte(`{"args":{"path":"note.txt"}}`), Header: nats.Header{"traceparent": {sent}}}
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		result, err := results.NextMsg(testTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Header.Get("traceparent"); got != want {
			t.Errorf("sent %q, got %q, want %q", sent, got, want)
		}
	}
}

// Settings that cannot work are errors, and name no secret.
func TestTraceSettings(t *testing.T) {
	for env, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc":      "only OTLP over HTTP",
		"OTEL_EXPORTER_OTLP_ENDPOINT=localhost": "want a URL",
		"OTEL_EXPORTER_OTLP_TIMEOUT=soon":       "milliseconds",
		"OTEL_EXPORTER_OTLP_HEADERS=hunter2":    "percent-encoded",
	} {
		cmd := exec.Command(workerProgram, "version")
		cmd.Env = append(cleanEnvironment(), "OTEL_TRACES_EXPORTER=otlp,console", env)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "hunter2") {
			t.Errorf("%s: %v %s", env, err, out)
		}
	}
}
