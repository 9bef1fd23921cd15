package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// serveStreams starts a provider that answers each request with the next function, and
// repeats the last one. write sends a piece and flushes it.
func serveStreams(t *testing.T, answers ...func(r *http.Request, write func(string))) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := int(requests.Add(1))
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Retry-After-Ms", "10")
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		context.AfterFunc(ctx, func() {})
		go func() {
			select {
			case <-done:
				cancel()
			case <-ctx.Done():
			}
		}()
		answers[min(n, len(answers))-1](r.WithContext(ctx), func(piece string) {
			fmt.Fprint(w, piece)
			w.(http.Flusher).Flush()
		})
	}))
	t.Cleanup(func() { close(done); s.Close() })
	return s.URL, requests
}

// wire is one format of streams, with the same turn: a text and a tool call.
type wire struct {
	kind, start, text, call, stop, end string
	empty                              string // a part of the turn that says nothing
	failure                            func(kind string) string
}

func anthropicEvents(events ...string) string {
	var out strings.Builder
	for _, data := range events {
		var e struct{ Type string }
		if json.Unmarshal([]byte(data), &e) != nil {
			e.Type = "broken"
		}
		fmt.Fprintf(&out, "event: %s\ndata: %s\n\n", e.Type, data)
	}
	return out.String()
}

func openAIEvents(events ...string) string {
	var out strings.Builder
	for _, data := range events {
		fmt.Fprintf(&out, "data: %s\n\n", data)
	}
	return out.String()
}

var wires = []wire{{
	kind:  "anthropic",
	start: anthropicEvents(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-test","stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":7,"output_tokens":1}}}`),
	text: anthropicEvents(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"ping"}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Löok"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ing."}}`,
		`{"type":"content_block_stop","index":0}`),
	call: anthropicEvents(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_a","name":"list_dir","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"pa"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"th\":\".\"}"}}`,
		`{"type":"content_block_stop","index":1}`),
	stop: anthropicEvents(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}`),
	end:  anthropicEvents(`{"type":"message_stop"}`),

	empty: anthropicEvents(`{"type":"content_block_start","index":9,"content_block":{"type":"text","text":""}}`),
	failure: func(kind string) string {
		return anthropicEvents(fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"it failed"}}`, kind))
	},
}, {
	kind:  "openai",
	start: openAIEvents(`{"id":"c","object":"chat.completion.chunk","model":"claude-test","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`),
	text: openAIEvents(`{"choices":[{"index":0,"delta":{"content":"Löok"},"finish_reason":null}]}`) + ": OPENROUTER PROCESSING\n\n" +
		openAIEvents(`{"choices":[{"index":0,"delta":{"content":"ing."},"finish_reason":null}]}`),
	call: openAIEvents(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_a","type":"function","function":{"name":"list_dir","arguments":""}}]},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"pa"}}]},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"th\":\".\"}"}}]},"finish_reason":null}]}`),
	stop: openAIEvents(`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
	end:  openAIEvents(`{"choices":[],"usage":{"prompt_tokens":117,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":100}}}`, `[DONE]`),

	empty: openAIEvents(`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"x"}}]}}]}`),
	failure: func(kind string) string {
		return openAIEvents(fmt.Sprintf(`{"error":{"type":%q,"message":"it failed"}}`, kind))
	},
}}

func (w wire) all() string { return w.start + w.text + w.call + w.stop + w.end }

func (w wire) open(t *testing.T, url string, cfg provider.Config) agent.Provider {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = url, testKey
	model, err := provider.Open(w.kind+":m", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// checkTurn checks that a response is the turn of a wire.
func checkTurn(t *testing.T, res agent.Response) {
	t.Helper()
	uses := agent.ToolUses(res.Content)
	if agent.TextOf(res.Content) != "Löoking." || len(uses) != 1 || uses[0].ID != "toolu_a" || uses[0].Name != "list_dir" ||
		string(uses[0].Input) != `{"path":"."}` || res.StopReason != agent.StopToolUse || res.Model != "claude-test" {
		t.Errorf("response %+v", res)
	}
}

// textWatcher keeps the text that it saw, as a client of the progress events does.
type textWatcher struct {
	t     *testing.T
	text  string
	calls int
}

func (w *textWatcher) request() agent.Request {
	req := lookAround
	req.OnText = func(offset int, text string) {
		w.calls++
		if have := utf8.RuneCountInString(w.text); offset > have {
			w.t.Errorf("offset %d after %d characters", offset, have)
		}
		w.text = string([]rune(w.text)[:offset]) + text
	}
	return req
}

// A turn is the same however the network cuts its events and whichever line ends the
// server uses, and its text arrives in pieces.
func TestStreamedTurn(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for name, send := range map[string]func(write func(string)){
			"at once": func(write func(string)) { write(w.all()) },
			"by bytes": func(write func(string)) {
				for _, b := range []byte(w.all()) {
					write(string([]byte{b}))
				}
			},
			"CR LF": func(write func(string)) { write(strings.ReplaceAll(w.all(), "\n", "\r\n")) },
			"noise": func(write func(string)) { write("\n\n" + ": hello\n\nretry: 3000\nid: 7\n\n" + w.all()) },
			"BOM":   func(write func(string)) { write("\xef\xbb\xbf" + w.all()) },
			"no space": func(write func(string)) {
				write(strings.ReplaceAll(strings.ReplaceAll(w.all(), "data: ", "data:"), "event: ", "event:"))
			},
			"no end": func(write func(string)) { write(strings.TrimRight(w.all(), "\n")) },
		} {
			t.Run(w.kind+"/"+name, func(t *testing.T) {
				url, requests := serveStreams(t, func(_ *http.Request, write func(string)) { send(write) })
				seen := textWatcher{t: t}
				res, err := w.open(t, url, provider.Config{}).Complete(t.Context(), seen.request())
				if err != nil {
					t.Fatal(err)
				}
				checkTurn(t, res)
				if res.Usage != (agent.Usage{Input: 117, Output: 5, CachedInput: 100}) {
					t.Errorf("usage %+v", res.Usage)
				}
				if seen.text != "Löoking." || seen.calls != 2 || requests.Load() != 1 {
					t.Errorf("text %q in %d pieces, %d requests", seen.text, seen.calls, requests.Load())
				}
			})
		}
	}
}

// stallTimeout is short for a stream that stalls only: on a busy machine, each stream pauses.
func stallTimeout(name string) time.Duration {
	if strings.HasPrefix(name, "stalls") || name == "never begins" || name == "pings for ever" {
		return time.Second
	}
	return time.Minute
}

// A turn that is not complete is requested again. The text of the first attempt does
// not remain.
func TestStreamFailuresAreRetried(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		reset := func(*http.Request, func(string)) { panic(http.ErrAbortHandler) }
		hang := func(r *http.Request, _ func(string)) { <-r.Context().Done() }
		send := func(text string, then func(*http.Request, func(string))) func(*http.Request, func(string)) {
			return func(r *http.Request, write func(string)) {
				write(text)
				if then != nil {
					then(r, write)
				}
			}
		}
		for name, first := range map[string]func(*http.Request, func(string)){
			"ends after the start":  send(w.start, nil),
			"ends in the text":      send(w.start+w.text[:len(w.text)/2], nil),
			"ends in the call":      send(w.start+w.text+w.call[:len(w.call)-60], nil),
			"ends before the stop":  send(w.start+w.text+w.call, nil),
			"reset in the text":     send(w.start+w.text, reset),
			"reset at once":         reset,
			"overloaded":            send(w.start+w.text+w.failure("overloaded_error"), nil),
			"overloaded, first":     send(w.failure("overloaded_error"), nil),
			"internal error":        send(w.start+w.text+w.failure("api_error"), nil),
			"server error":          send(w.start+w.text+w.failure("server_error"), nil),
			"rate limit":            send(w.start+w.failure("rate_limit_error"), nil),
			"timeout":               send(w.start+w.failure("timeout_error"), nil),
			"unknown error":         send(w.start+w.text+w.failure("surprise"), nil),
			"malformed event":       send(w.start+"data: {\"choices\":[{\"del\n\n"+w.text, nil),
			"event of another type": send(w.start+"data: [1]\n\n"+w.text, nil),
			"null block": send(w.start+`data: {"type":"content_block_start","index":7,"content_block":null}`+"\n\n"+
				`data: {"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}`+"\n\n"+w.text+w.call+w.stop, nil),
			"stalls in the text": send(w.start+w.text, hang),
			"stalls in a line":   send(w.start+w.text+"data: {", hang),
			"never begins":       hang,
			"pings for ever": send(w.start+w.text, func(r *http.Request, write func(string)) {
				for r.Context().Err() == nil {
					write("event: ping\ndata: {\"type\":\"ping\"}\n\n: comment\n\n")
					time.Sleep(5 * time.Millisecond)
				}
			}),
		} {
			if w.kind == "openai" && (name == "pings for ever" || name == "null block") {
				continue // its pings are comments only, and it has no blocks
			}
			t.Run(w.kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				url, requests := serveStreams(t, first, send(w.all(), nil))
				seen := textWatcher{t: t}
				res, err := w.open(t, url, provider.Config{StallTimeout: stallTimeout(name), RetryTimeout: time.Minute}).Complete(t.Context(), seen.request())
				if err != nil {
					t.Fatal(err)
				}
				checkTurn(t, res)
				if seen.text != "Löoking." || requests.Load() != 2 {
					t.Errorf("text %q, %d requests", seen.text, requests.Load())
				}
			})
		}
	}
}

// A turn that the model has completed is never requested again, whatever happens to the
// connection before its last event.
func TestCompleteTurnIsKept(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for name, then := range map[string]func(r *http.Request, write func(string)){
			"ends":      func(*http.Request, func(string)) {},
			"reset":     func(*http.Request, func(string)) { panic(http.ErrAbortHandler) },
			"stalls":    func(r *http.Request, _ func(string)) { <-r.Context().Done() },
			"error":     func(_ *http.Request, write func(string)) { write(w.failure("overloaded_error")) },
			"malformed": func(_ *http.Request, write func(string)) { write("data: {\n\n") },
		} {
			t.Run(w.kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				url, requests := serveStreams(t, func(r *http.Request, write func(string)) {
					write(w.start + w.text + w.call + w.stop)
					then(r, write)
				})
				res, err := w.open(t, url, provider.Config{StallTimeout: stallTimeout(name)}).Complete(t.Context(), lookAround)
				if err != nil {
					t.Fatal(err)
				}
				checkTurn(t, res)
				if requests.Load() != 1 {
					t.Errorf("%d requests", requests.Load())
				}
			})
		}
	}
}

// Failures that a retry cannot fix end the turn at once. A stream that is cut off again
// and again fails too.
func TestStreamErrors(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for name, c := range map[string]struct {
			answer   string
			code     string
			min, max int32 // requests
		}{
			"rejected key":   {w.start + w.failure("authentication_error"), agent.CodeBadKey, 1, 1},
			"no credit":      {w.start + w.failure("billing_error"), agent.CodeNoCredit, 1, 1},
			"bad request":    {w.failure("invalid_request_error"), agent.CodeBadRequest, 1, 1},
			"unknown model":  {w.failure("not_found_error"), agent.CodeUnknownModel, 1, 1},
			"not this API":   {"event: hello\ndata: {\"x\":1}\n\n", agent.CodeBadAnswer, 1, 1},
			"no event":       {": nothing\n\n", agent.CodeBadAnswer, 1, 1},
			"too large":      {w.start + "data: " + strings.Repeat(" ", 64<<20), agent.CodeBadAnswer, 1, 1},
			"many parts":     {w.start + strings.Repeat(w.empty, 10_001), agent.CodeBadAnswer, 1, 1},
			"always cut off": {w.start + w.text, agent.CodeUnreachable, 2, 12},
		} {
			t.Run(w.kind+"/"+name, func(t *testing.T) {
				if name == "too large" && !slow.Run() {
					t.Skip("it reads 64 MiB")
				}
				url, requests := serveStreams(t, func(_ *http.Request, write func(string)) { write(c.answer) })
				cfg := provider.Config{RetryTimeout: 2 * time.Second}
				_, err := w.open(t, url, cfg).Complete(t.Context(), lookAround)
				var failure *agent.ProviderError
				if !errors.As(err, &failure) || failure.Code != c.code {
					t.Fatalf("error %v, want %s", err, c.code)
				}
				if _, ok := err.(*agent.ProviderError); !ok {
					t.Errorf("the error is a %T", err)
				}
				if n := requests.Load(); n < c.min || n > c.max {
					t.Errorf("%d requests, want %d to %d", n, c.min, c.max)
				}
			})
		}
	}
}

// A slow stream is not a stalled one, however long it takes.
func TestSlowStream(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const pause, stall = 200 * time.Millisecond, 3 * time.Second // a busy machine pauses, too
	for _, w := range wires {
		t.Run(w.kind, func(t *testing.T) {
			t.Parallel()
			url, requests := serveStreams(t, func(_ *http.Request, write func(string)) {
				for line := range strings.Lines(w.all()) {
					write(line)
					time.Sleep(pause)
				}
			})
			if all := time.Duration(strings.Count(w.all(), "\n")) * pause; all < stall {
				t.Fatalf("the stream takes only %s", all)
			}
			res, err := w.open(t, url, provider.Config{StallTimeout: stall}).Complete(t.Context(), lookAround)
			if err != nil || requests.Load() != 1 {
				t.Fatalf("%v after %d requests", err, requests.Load())
			}
			checkTurn(t, res)
		})
	}
}

// A cancelled run does not wait for its stream.
func TestCancelledStream(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		url, _ := serveStreams(t, func(r *http.Request, write func(string)) {
			write(w.start + w.text)
			<-r.Context().Done()
		})
		req := lookAround
		req.OnText = func(int, string) { cancel(why) }
		if _, err := w.open(t, url, provider.Config{}).Complete(ctx, req); !errors.Is(err, why) {
			t.Errorf("%s: %v", w.kind, err)
		}
	}
}

// A server that rejects streams, the option for the usage, or max_tokens, as OpenAI's newer models behind any address do, gets the
// same request without them, and later requests do not have them.
func TestServerWithoutStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rejects, says string
		want          []bool // whether each request asks for a stream
	}{
		"the option": {`"stream_options"`, "Unsupported value: stream_options", []bool{true, true, true}},
		"any stream": {`"stream"`, "Unsupported value: stream", []bool{true, false, false}},
		"max_tokens": {`"max_tokens"`, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", []bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []bool
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = append(got, strings.Contains(string(body), `"stream":true`))
				if strings.Contains(string(body), c.rejects) {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":%q}}`, c.says)
					return
				}
				fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"}}]}`)
			}))
			defer s.Close()
			model, err := provider.NewOpenAI("m", provider.Config{BaseURL: s.URL})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if res, err := model.Complete(t.Context(), lookAround); err != nil || agent.TextOf(res.Content) != "hi" {
					t.Fatalf("%+v, %v", res, err)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("requests for streams: %v, want %v", got, c.want)
			}
		})
	}
}

// A request that is refused for another reason, with an error that contains the word, takes no streams from the later ones.
func TestRefusalThatOnlyNamesAStream(t *testing.T) {
	t.Parallel()
	refused := reply{400, nil, `{"error":{"type":"invalid_request_error","message":"the upstream found messages.1 invalid"}}`}
	p := serve(t, "/chat/completions", refused, refused, reply{200, nil, `{"choices":[{"message":{"content":"hi"}}]}`})
	model, err := provider.NewOpenAI("m", provider.Config{BaseURL: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Complete(t.Context(), lookAround); err == nil {
		t.Fatal("the refused request succeeded")
	}
	if _, err := model.Complete(t.Context(), lookAround); err != nil {
		t.Fatal(err)
	}
	if got := p.received(); len(got) != 3 || !strings.Contains(got[2], `"stream":true`) {
		t.Errorf("%d requests, the last one %s", len(got), got[len(got)-1])
	}
}

// Blocks keep all fields of their stream, also those of unknown types.
func TestAnthropicStreamedBlocks(t *testing.T) {
	t.Parallel()
	stream := anthropicEvents(`{"type":"message_start","message":{"model":"m"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm & "}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"<hm>"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln+/=="}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"eA=="}}`,
		`{"type":"surprise","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"cited"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"a":1}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"surprise_delta","x":1}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"next"}}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"a","name":"n","input":{}}}`,
		`{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"b","name":"n","input":{}}}`,
		`{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"{\"big\":12345678901234567890"}}`,
		`{"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":"}"}}`,
		`{"type":"content_block_start","index":6,"content_block":{"type":"tool_use","id":"c","name":"n","input":{}}}`,
		`{"type":"content_block_delta","index":6,"delta":{"type":"input_json_delta","partial_json":"{\"cut"}}`,
		`{"type":"content_block_start","index":7,"content_block":{"type":"text","text":""}}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":"many"}}`,
		`{"type":"message_stop"}`)
	url, _ := serveStreams(t, func(_ *http.Request, write func(string)) { write(stream) })
	seen := textWatcher{t: t}
	res, err := wires[0].open(t, url, provider.Config{}).Complete(t.Context(), seen.request())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"signature":"c2ln+/==","thinking":"hm & <hm>","type":"thinking"}`,
		`{"type":"redacted_thinking","data":"eA=="}`,
		`{"citations":[{"a":1}],"text":"cited","type":"text"}`,
		`{"text":"next","type":"text"}`,
		`{"type":"tool_use","id":"a","name":"n","input":{}}`,
		`{"id":"b","input":{"big":12345678901234567890},"name":"n","type":"tool_use"}`,
		`{"id":"c","input":"{\"cut","name":"n","type":"tool_use"}`,
	}
	if len(res.Content) != len(want) || res.StopReason != agent.StopMaxTokens {
		t.Fatalf("response %+v", res)
	}
	for i, b := range res.Content {
		if got, err := jsonform.Encode(b); err != nil || string(got) != want[i] {
			t.Errorf("block %d: %s, %v; want %s", i, got, err, want[i])
		}
	}
	if seen.text != agent.TextOf(res.Content) {
		t.Errorf("streamed %q, want %q", seen.text, agent.TextOf(res.Content))
	}
}

// Servers of chat completions number the chunks of tool calls in different ways.
func TestOpenAIStreamedCalls(t *testing.T) {
	t.Parallel()
	for name, chunks := range map[string][]string{
		"an index for each": {`{"index":0,"id":"a","function":{"name":"n","arguments":"{"}}`, `{"index":1,"id":"b","function":{"name":"n","arguments":"{"}}`, `{"index":0,"function":{"arguments":"}"}}`, `{"index":1,"function":{"arguments":"}"}}`},
		"the same index":    {`{"index":0,"id":"a","function":{"name":"n","arguments":"{}"}}`, `{"index":0,"id":"b","function":{"name":"n","arguments":"{}"}}`},
		"no index":          {`{"id":"a","function":{"name":"n","arguments":"{"}}`, `{"function":{"arguments":"}"}}`, `{"id":"b","function":{"name":"n","arguments":"{}"}}`},
		"the name in each":  {`{"index":0,"id":"a","function":{"name":"n","arguments":"{"}}`, `{"index":0,"id":"a","function":{"name":"n","arguments":"}"}}`, `{"index":1,"id":"b","function":{"name":"n","arguments":"{}"}}`},
		"no arguments":      {`{"index":0,"id":"a","function":{"name":"n"}}`, `{"index":1,"id":"b","function":{"name":"n","arguments":""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var stream strings.Builder
			for _, chunk := range chunks {
				fmt.Fprintf(&stream, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[%s]}}]}\n\n", chunk)
			}
			stream.WriteString("data: [DONE]\n\n")
			url, _ := serveStreams(t, func(_ *http.Request, write func(string)) { write(stream.String()) })
			res, err := wires[1].open(t, url, provider.Config{}).Complete(t.Context(), lookAround)
			if err != nil {
				t.Fatal(err)
			}
			uses := agent.ToolUses(res.Content)
			if len(uses) != 2 || uses[0].ID != "a" || uses[1].ID != "b" || string(uses[0].Input) != "{}" || string(uses[1].Input) != "{}" || uses[0].Name != "n" {
				t.Errorf("calls %+v", uses)
			}
		})
	}
}

// Some servers number all calls alike and give them no id, or the same one: what follows complete arguments is another call.
func TestOpenAICallsThatLookAlike(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"no id": "", "the same id": "a"} {
		t.Run(name, func(t *testing.T) {
			var stream strings.Builder
			for _, chunk := range []string{
				`"name":"read_file","arguments":"{\"path\":"`, `"name":"read_file","arguments":"\"{}\"}"`, `"name":"read_file","arguments":""`,
				`"name":"list_dir","arguments":"{\"path\":\".\"}"`,
			} {
				fmt.Fprintf(&stream, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":%q,\"function\":{%s}}]}}]}\n\n", id, chunk)
			}
			stream.WriteString("data: [DONE]\n\n")
			url, _ := serveStreams(t, func(_ *http.Request, write func(string)) { write(stream.String()) })
			res, err := wires[1].open(t, url, provider.Config{}).Complete(t.Context(), lookAround)
			if err != nil {
				t.Fatal(err)
			}
			uses := agent.ToolUses(res.Content)
			if len(uses) != 2 || uses[0].Name != "read_file" || string(uses[0].Input) != `{"path":"{}"}` || uses[1].Name != "list_dir" ||
				string(uses[1].Input) != `{"path":"."}` || uses[1].ID != id {
				t.Errorf("calls %+v", uses)
			}
		})
	}
}
