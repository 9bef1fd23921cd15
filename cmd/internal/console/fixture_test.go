package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

const token = "test-token-0123456789"

// installation is a bus with a worker, its service, a notifier and the page.
type installation struct {
	damaged atomic.Bool // a record of an artifact cannot be read
	t       *testing.T
	bus     *bus.Bus
	url     string // of the page, without the token
	begun   chan string
	end     chan struct{} // closed to end the tools that wait
	notes   string        // the file of the channel "log"
}

// damagedStore is a store in which one more record cannot be read, if damaged is set.
type damagedStore struct {
	offload.Store
	damaged *atomic.Bool
}

func (s damagedStore) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	return func(yield func(offload.Record, error) bool) {
		if !s.damaged.Load() || yield(offload.Record{}, offload.ErrCorrupt) {
			s.Store.List(ctx, session)(yield)
		}
	}
}

// start starts an installation.
func start(t *testing.T, cfg console.Config) *installation {
	t.Helper()
	return startWith(t, cfg, `["big","small"]`)
}

// startWith starts an installation whose worker has models, a JSON array of their names.
func startWith(t *testing.T, cfg console.Config, models string) *installation {
	t.Helper()
	in := &installation{t: t, bus: bustest.New(t), begun: make(chan string, 16), end: make(chan struct{}), notes: filepath.Join(t.TempDir(), "notes.txt")}
	store := mem.New(offload.StoreConfig{})
	reader := offload.NewReader(damagedStore{store, &in.damaged}, offload.ReaderConfig{SQL: sqlite.Engine{}})
	notifier, err := notify.New(in.bus, notify.Config{Channels: map[string]channel.Channel{"log": channel.NewFile(in.notes)}, Default: "log", Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := notifier.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, notifier.Run)
	ready := make(chan struct{})
	w := worker.Config{Name: "quay-1", Queues: []string{"default", "agent"}}
	w.Approvals.Needed = func(call tools.Call) bool { return call.Tool == "deploy" }
	service := rpc.NewService(in.bus, reader, rpc.ServiceConfig{
		OnReady: func() { close(ready) }, Log: bustest.Log(t), Version: "1.2.0", Metadata: map[string]string{"worker": "quay-1", "channels": "log=file", "default_channel": "log", "models": models},
		Stats: func() any {
			return worker.Stats{Worker: "quay-1", Queues: map[string]worker.QueueStats{"default": {Running: 2, Outcomes: map[tools.Outcome]int64{"completed": 41, "failed": 2}}, "agent": {}}}
		},
	})
	workertest.Start(t, in.bus, offload.NewOffloader(store, offload.Config{}), w, in.tools()...)
	bustest.Run(t, service.Run)
	<-ready
	in.serve(cfg)
	return in
}

// serve serves the page of the installation.
func (in *installation) serve(cfg console.Config) {
	t := in.t
	t.Helper()
	cfg.Token, cfg.Version, cfg.Log = token, cmp.Or(cfg.Version, "1.2.0"), bustest.Log(t)
	cfg.Status = func(ctx context.Context) status.Status { return status.Read(ctx, in.bus) }
	page, err := console.New(in.bus, cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := httpauth.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpauth.Serve(l, page, func(err error) { t.Errorf("page: %v", err) }))
	in.url = "http://" + l.Addr().String()
}

type textArgs struct {
	Text  string  `json:"text,omitempty"`
	Done  float64 `json:"done,omitempty"`
	Lines int     `json:"lines,omitempty"`
}

// tools answer with their argument, fail, return many lines, or run until the test ends.
func (in *installation) tools() []tools.Tool {
	make := func(name string, run func(context.Context, tools.Call, textArgs) *tools.Result) tools.Tool {
		tool, err := tools.NewTool(name, "For tests.", run)
		if err != nil {
			in.t.Fatal(err)
		}
		return tool.WithEffect(tools.Idempotent)
	}
	wait := func(ctx context.Context, call tools.Call, a textArgs) *tools.Result {
		tools.ReportProgress(ctx, tools.Progress{Message: a.Text, Done: a.Done, Total: 100})
		in.begun <- call.ID
		select {
		case <-ctx.Done():
			return tools.ErrorResult("stopped")
		case <-in.end:
			return tools.NewToolResult("ended")
		}
	}
	echo := func(_ context.Context, _ tools.Call, a textArgs) *tools.Result { return tools.NewToolResult(a.Text) }
	return []tools.Tool{
		make("read_file", echo), make("grep", echo), make("web_fetch", echo), make("agent", echo), make("deploy", echo),
		make("read_manifest", func(_ context.Context, _ tools.Call, a textArgs) *tools.Result { return tools.ErrorResult(a.Text) }),
		make("shell", wait), make("train", wait),
		make("logs", func(_ context.Context, _ tools.Call, a textArgs) *tools.Result {
			return tools.NewToolResult(logLines(a.Lines))
		}),
		make("photo", func(context.Context, tools.Call, textArgs) *tools.Result { return tools.NewToolResult(noise()) }),
		make("inventory", func(_ context.Context, _ tools.Call, a textArgs) *tools.Result {
			items := []map[string]any{}
			for i := range a.Lines {
				items = append(items, map[string]any{"id": i, "name": fmt.Sprintf("container %d", i), "weight": i * 37 % 1000})
			}
			data, _ := json.MarshalIndent(map[string]any{"items": items}, "", "  ")
			return tools.NewToolResult(string(data))
		}),
	}
}

func logLines(n int) string {
	var b strings.Builder
	levels := []string{"info", "info", "debug", "info", "warn", "info", "info", "error"}
	for i := range n {
		fmt.Fprintf(&b, "2026-11-22T04:%02d:%02dZ %-5s gate=%d crane=%d moved container %07d to bay %d\n", i/60%60, i%60, levels[i*7%8], i%4, i%9, i, i*31%120)
	}
	return b.String()
}

// call runs a tool to its end.
func (in *installation) call(session, id, tool string, args textArgs) tools.ResultEvent {
	in.t.Helper()
	body, err := bus.Encode(args)
	if err != nil {
		in.t.Fatal(err)
	}
	r, err := rpc.Submit(in.t.Context(), in.bus, "", tools.Call{ID: id, Session: session, Tool: tool, Args: body})
	if err != nil {
		in.t.Fatal(err)
	}
	return r
}

// begin starts a tool that waits, and returns when it runs.
func (in *installation) begin(session, id, tool string, args textArgs) {
	in.t.Helper()
	body, err := bus.Encode(args)
	if err != nil {
		in.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = rpc.Submit(ctx, in.bus, "", tools.Call{ID: id, Session: session, Tool: tool, Args: body})
	}()
	for begun := range in.begun {
		if begun == id {
			break
		}
	}
	cancel()
}

// ask submits a call that needs an approval, and waits until it is asked for.
func (in *installation) ask(session, id string, args textArgs) {
	in.t.Helper()
	body, err := bus.Encode(args)
	if err != nil {
		in.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.t.Cleanup(cancel)
	go func() {
		_, _ = rpc.Submit(ctx, in.bus, "", tools.Call{ID: id, Session: session, Tool: "deploy", Args: body})
	}()
	bustest.WaitUntil(in.t, "the question", func() bool {
		_, parked, err := task.ReadParked(in.t.Context(), in.bus, tools.CallKey{Session: session, ID: id})
		return err == nil && parked
	})
}

// deadLetter makes a dead letter of a call that cannot be decoded.
func (in *installation) deadLetter(tool, body string) {
	in.t.Helper()
	before := bustest.Messages(in.t, in.bus, bus.Dead)
	if _, err := in.bus.Publish(in.t.Context(), bus.Message{Subject: bustest.CallSubject(in.bus, "default", tool, []byte(body)), Body: []byte(body)}); err != nil {
		in.t.Fatal(err)
	}
	bustest.WaitUntil(in.t, "the dead letter", func() bool { return bustest.Messages(in.t, in.bus, bus.Dead) > before })
}

// say appends entries to a conversation.
func (in *installation) say(name string, entries ...string) {
	in.t.Helper()
	store := session.New(in.bus)
	_, last, err := store.Read(in.t.Context(), name, 0)
	for _, e := range entries {
		if err == nil {
			last, err = store.Append(in.t.Context(), name, last, []byte(e))
		}
	}
	if err != nil {
		in.t.Fatal(err)
	}
}

func (in *installation) job(name, tool, every string) {
	in.t.Helper()
	_, err := cron.New(in.bus).Do(in.t.Context(), cron.Caller{Operator: true}, "", cron.Request{Action: cron.ActionAdd, Name: name, Tool: tool, Args: map[string]json.RawMessage{"text": json.RawMessage(`"make backup"`)}, Every: every})
	if err != nil {
		in.t.Fatal(err)
	}
}

// heartbeat stores the schedule of a heartbeat and its last run, which had a sub-agent.
func (in *installation) heartbeat() {
	in.t.Helper()
	const due = "heartbeat-main-20261122T040000Z"
	_, err := cron.New(in.bus).Put(in.t.Context(), cron.Job{Kind: bus.Heartbeat, Name: "main", Session: "heartbeat-main", Every: 30 * time.Minute, Tool: "agent"}, true)
	for subject, body := range map[string]string{
		in.bus.RunOf(bus.Heartbeat, "main"):  `{"call":"` + due + `","session":"heartbeat-main","slot":"2026-11-22T04:00:00Z","deadline":"2026-11-22T05:00:00Z"}`,
		in.bus.Result("heartbeat-main", due): `{"id":"` + due + `","session":"heartbeat-main","tool":"agent","outcome":"completed","for_llm":"HEARTBEAT_OK","started_at":"2026-11-22T04:00:00Z","duration_ms":9}`,
	} {
		if err == nil {
			_, err = in.bus.Publish(in.t.Context(), bus.Message{Subject: subject, Body: []byte(body)})
		}
	}
	if err != nil {
		in.t.Fatal(err)
	}
	turn := `"message":{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"subagent","input":{}}]},"usage":{"input_tokens":500,"output_tokens":10,"cost":0.25}}`
	in.say("heartbeat-main", `{"kind":"assistant","run":"earlier",`+turn,
		`{"kind":"user","run":"`+due+`","message":{"role":"user","content":[{"type":"text","text":"look"}]},"call":{"id":"`+due+`","session":"heartbeat-main","tool":"agent"}}`,
		`{"kind":"assistant","run":"`+due+`",`+turn, `{"kind":"end","run":"`+due+`","end":{"reason":"done"}}`)
	in.say(tools.TokenOf("sub/heartbeat-main/"+due+"-t1-0"), `{"kind":"assistant","run":"x","usage":{"input_tokens":40,"output_tokens":2,"cost":0.05},"message":{"role":"assistant","content":[]}}`)
}

// request sends a request with the token.
func (in *installation) request(method, path, body string) (status int, answer string) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, in.url+path, strings.NewReader(body))
	if err != nil {
		in.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		in.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		in.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// get decodes an answer.
func get[T any](in *installation, path string) (v T) {
	in.t.Helper()
	status, body := in.request("GET", path, "")
	if status != http.StatusOK {
		in.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	decode(in.t, body, &v)
	return v
}

func decode(t *testing.T, body string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
}
