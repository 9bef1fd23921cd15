package wrap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/command"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/offload/tables/sqlite"
	"github.com/stevedore-bus/stevedore/tools"
)

// testTimeout ends a wait that has failed. A machine that is slow or busy does not reach it.
const testTimeout = 3 * time.Minute

// roleEnv makes this test program a server.
const roleEnv = "STEVEDORE_WRAP_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		serve(role)
		return
	}
	os.Exit(slow.RunWaiting(m))
}

// session is a client that is connected to a wrapped server.
type session struct {
	*mcp.ClientSession
	dir   string // of the server
	store *disk.Store
	notes chan *mcp.ProgressNotificationParams

	mu      sync.Mutex
	changes int // of the list of tools
	logs    int
}

// wrapServer wraps this test program in a role and connects a client.
func wrapServer(t *testing.T, role string, change ...func(*Config)) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), notes: make(chan *mcp.ProgressNotificationParams, 10_000)}
	store, err := disk.Open(t.TempDir(), offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
	cfg := Config{Name: "test server", Session: "s", Store: store, Reader: offload.ReaderConfig{SQL: sqlite.Engine{}, SQLCache: tables.NewCache(t.TempDir())}, Log: zerolog.New(zerolog.NewTestWriter(t)), Server: startProgram(role, s.dir)}
	for _, f := range change {
		f(&cfg)
	}
	clientIn, proxyOut := io.Pipe()
	proxyIn, clientOut := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- Run(ctx, NewStream(proxyIn, proxyOut, func() { proxyOut.Close() }), cfg) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.notes <- r.Params },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changes++
		},
		//lint:ignore SA1019 many servers still log
		LoggingMessageHandler: func(context.Context, *mcp.LoggingMessageRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.logs++
		},
	})
	s.ClientSession, err = client.Connect(t.Context(), &mcp.IOTransport{Reader: clientIn, Writer: clientOut, MaxLineLength: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(testTimeout):
			t.Error("the proxy does not end after its client")
		}
		cancel()
		store.Close()
	})
	return s
}

// startProgram starts this test program in a role.
func startProgram(role, dir string) func(context.Context) (Link, error) {
	return func(context.Context) (Link, error) {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return StartProgram(command.Config{Argv: []string{exe}, Dir: dir, Env: command.Environment(roleEnv + "=" + role), Stderr: os.Stderr})
	}
}

func (s *session) call(t *testing.T, name string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// texts returns the texts of a result.
func texts(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// linked returns the whole artifact that a result links to.
func (s *session) linked(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	for _, c := range res.Content {
		link, ok := c.(*mcp.ResourceLink)
		if !ok {
			continue
		}
		var all strings.Builder
		for uri := link.URI; uri != ""; {
			page, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(page.Contents[0].Text)
			all.Write(page.Contents[0].Blob)
			uri, _ = page.Contents[0].Meta["stevedore/next"].(string)
		}
		return all.String()
	}
	t.Fatalf("no link in %q", texts(res))
	return ""
}

func checkContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in %.2000q", part, text)
		}
	}
}

// Small messages pass, and the reading tools are added.
func TestPassThrough(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(cfg *Config) { cfg.Family = true })
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range list.Tools {
		names[tool.Name] = true
	}
	for _, name := range []string{"echo", offload.ToolGet, offload.ToolLines, offload.ToolJQ, offload.ToolQuery, offload.ToolInfo} {
		if !names[name] {
			t.Errorf("no tool %q", name)
		}
	}
	if got := texts(s.call(t, "echo", map[string]any{"text": "hello"})); got != "hello" {
		t.Errorf("echo: %q", got)
	}
	// The server has a tool with the name of a reading tool.
	if got := texts(s.call(t, "grep_knowledge", nil)); got != "the server's own" {
		t.Errorf("grep_knowledge: %q", got)
	}
	if !names["stevedore_grep_knowledge"] {
		t.Error("no tool stevedore_grep_knowledge")
	}
	res := s.call(t, "big", map[string]any{"lines": 5000})
	checkContains(t, texts(res), "stevedore_grep_knowledge(")
	id := res.Content[1].(*mcp.ResourceLink).Name
	found := s.call(t, "stevedore_grep_knowledge", map[string]any{"artifact_id": id, "pattern": "\"line\" 4321$"})
	checkContains(t, texts(found), "Found 1 match(es)")

	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"})
	if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "prompt" {
		t.Errorf("prompt: %v %v", prompt, err)
	}
}

// A big text becomes a reference; every byte can be read back.
func TestBigText(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk")
	for _, lines := range []int{5000, 100_000} { // in memory, in a file
		res := s.call(t, "big", map[string]any{"lines": lines})
		if size := len(texts(res)); size > 4000 {
			t.Errorf("%d lines: the text has %d bytes", lines, size)
		}
		checkContains(t, texts(res), "read_result(id, grep|lines|offset)")
		if lines == 5000 {
			if got, want := s.linked(t, res), bigText(lines); got != want {
				t.Errorf("%d lines: read %d bytes, want %d", lines, len(got), len(want))
			}
		}
	}
	res := s.call(t, "media", nil)
	if len(res.Content) != 4 {
		t.Fatalf("%d blocks", len(res.Content))
	}
	if image, ok := res.Content[0].(*mcp.ImageContent); !ok || len(image.Data) != 100_000 {
		t.Error("the image is not preserved")
	}
	if image, ok := res.Content[3].(*mcp.AudioContent); !ok || string(image.Data) != "sound" {
		t.Error("the sound is not preserved")
	}
	if got := s.linked(t, res); got != bigText(3000) {
		t.Errorf("text between media: %d bytes", len(got))
	}
	// Many blocks that are small alone become one artifact.
	res = s.call(t, "blocks", nil)
	if len(res.Content) != 2 || !strings.HasPrefix(s.linked(t, res), "block 0 ") {
		t.Errorf("%d blocks: %.100q", len(res.Content), texts(res))
	}
}

// wideImage is a PNG that is wider than models take.
func wideImage() []byte {
	img := image.NewGray(image.Rect(0, 0, 2000, 60))
	_, _ = rand.NewChaCha8([32]byte{}).Read(img.Pix)
	var file bytes.Buffer
	_ = png.Encode(&file, img)
	return file.Bytes()
}

// A picture that is larger than models take is scaled, and its original can be read back.
func TestPictureIsScaled(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(c *Config) { c.Session = "a name that is no token" })
	res := s.call(t, "picture", nil)
	if len(res.Content) != 3 {
		t.Fatalf("%d blocks: %s", len(res.Content), texts(res))
	}
	checkContains(t, texts(res), "The page:\nThe artifact 'picture_", "scaled from 2000 x 60 to 1568 x 47 pixels")
	scaled, _ := res.Content[2].(*mcp.ImageContent)
	if scaled == nil || scaled.Annotations == nil || scaled.MIMEType != "image/png" {
		t.Fatalf("%+v", res.Content[2])
	}
	if size, err := png.DecodeConfig(bytes.NewReader(scaled.Data)); err != nil || size.Width != 1568 {
		t.Errorf("%+v, %v", size, err)
	}
	_, id, _ := strings.Cut(texts(res), "The artifact '")
	id, _, _ = strings.Cut(id, "'")
	var original []byte
	for uri := artifacts.URI(tools.Token("a name that is no token"), id); uri != ""; {
		page, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		original = append(original, page.Contents[0].Blob...)
		uri, _ = page.Contents[0].Meta["stevedore/next"].(string)
	}
	if !bytes.Equal(original, wideImage()) {
		t.Errorf("the original has %d bytes, want %d", len(original), len(wideImage()))
	}
}

// fullStore is a store that stores nothing.
type fullStore struct{ offload.Store }

func (fullStore) Put(context.Context, offload.Record, io.Reader, func(*offload.Record, offload.Content) error) (offload.Record, error) {
	return offload.Record{}, syscall.ENOSPC
}

// A large picture stays if its original cannot be stored: the tool has run.
func TestPictureStaysIfTheStoreFails(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(cfg *Config) { cfg.Store = fullStore{cfg.Store} })
	res := s.call(t, "picture", nil)
	if len(res.Content) != 2 {
		t.Fatalf("%d blocks: %s", len(res.Content), texts(res))
	}
	if img, ok := res.Content[1].(*mcp.ImageContent); !ok || !bytes.Equal(img.Data, wideImage()) {
		t.Errorf("%+v", res.Content[1])
	}
}

// Results that arrive together and would fill the prompt become references, although none of
// them is big.
func TestMediumResultsTogether(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk", func(cfg *Config) { cfg.Offload.Budget = 100_000 })
	full, want := 0, bigText(1000)
	for range 10 {
		if res := s.call(t, "big", map[string]any{"lines": 1000}); texts(res) == want {
			full++
		} else if got := s.linked(t, res); got != want || len(texts(res)) > 4_000 {
			t.Errorf("a reference of %d characters to %d of %d bytes", len(texts(res)), len(got), len(want))
		}
	}
	if most := 100_000 / len(want); full == 0 || full > most {
		t.Errorf("%d of 10 results of %d characters are shown in full, want at most %d", full, len(want), most)
	}
	if got := texts(s.call(t, "echo", map[string]any{"text": "hello"})); got != "hello" {
		t.Errorf("a short result: %q", got)
	}
}

// Structured content fits its schema before and after; the client checks it.
func TestStructuredContent(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk")
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open", "closed", "text", "numbers", "mixed", "all", "list", "string"} {
		t.Run(name, func(t *testing.T) {
			small := s.call(t, name, map[string]any{"n": 2})
			if data, _ := json.Marshal(small.StructuredContent); len(data) == 0 || strings.Contains(string(data), "Shortened") || small.Meta[shortenedMeta] != nil {
				t.Errorf("small: %s", data)
			}
			res := s.call(t, name, map[string]any{"n": 5000})
			data, err := json.Marshal(res)
			if err != nil || len(data) > 12_000 {
				t.Fatalf("%d bytes: %v", len(data), err)
			}
			checkContains(t, texts(res), "stored as the artifact")
			switch name {
			case "all": // its schema allows no short form
				if !res.IsError || res.StructuredContent != nil {
					t.Errorf("all: %s", data)
				}
				return
			case "text":
				checkContains(t, fmt.Sprint(res.StructuredContent), "stored as the artifact")
				if len(res.Content) != 2 || s.linked(t, res) != bigText(5000) {
					t.Errorf("text: %s", data)
				}
			case "closed", "numbers", "list", "string": // its schema has no place for a notice: the elements are whole
				checkContains(t, fmt.Sprint(res.Meta[shortenedMeta]), "Shortened: the whole structured result")
				whole, _ := json.Marshal(structured(name, 5000))
				short, _ := json.Marshal(res.StructuredContent)
				part, next := strings.TrimSuffix(strings.TrimSuffix(string(short), "]}"), "]"), ","
				if name == "string" {
					part, next = strings.TrimSuffix(part, `…"`), ""
				}
				if len(part) < 50 || !strings.HasPrefix(string(whole), part+next) {
					t.Errorf("%s: %s", name, short)
				}
			default:
				checkContains(t, fmt.Sprint(res.StructuredContent), "Shortened: the whole structured result")
			}
			if err := validates(outputSchemas[name], res.StructuredContent); err != nil || res.IsError {
				t.Errorf("%s does not fit the schema: %v", data, err)
			}
		})
	}
}

// Resources and prompts pass; big ones become references with pages.
func TestResources(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk")
	small, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://small"})
	if err != nil || small.Contents[0].Text != "small" {
		t.Errorf("small: %v %v", small, err)
	}
	for _, uri := range []string{"test://text", "test://blob"} {
		big, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		c := big.Contents[0]
		if c.URI != uri || len(c.Text) > 4000 || len(c.Blob) > 0 {
			t.Errorf("%s: %d bytes, uri %q", uri, len(c.Text)+len(c.Blob), c.URI)
		}
		checkContains(t, c.Text, "as the artifact")
		if strings.Contains(c.Text, "_knowledge") || uri == "test://text" && !strings.Contains(c.Text, "read_result(id, ") {
			t.Errorf("%s: the client has no such tool: %s", uri, c.Text)
		}
		page, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: c.Meta["stevedore/uri"].(string)})
		if err != nil || len(page.Contents) != 2 || utf8.RuneCountInString(page.Contents[0].Text)+len(page.Contents[0].Blob) != 15_000 {
			t.Errorf("%s: first page: %v", uri, err)
		}
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "stevedore://other/artifacts/x"}); err == nil {
		t.Error("an artifact of another session was read")
	}
	prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "big"})
	if err != nil || len(prompt.Messages) != 2 || prompt.Messages[1].Role != "user" {
		t.Fatalf("prompt: %v %v", prompt, err)
	}
	short, long := prompt.Messages[0].Content.(*mcp.TextContent).Text, prompt.Messages[1].Content.(*mcp.TextContent).Text
	if short != "read this:" || len(long) > 4000 {
		t.Errorf("prompt: %q and %d bytes", short, len(long))
	}
	checkContains(t, long, "as the artifact", "read_result(id, ")
}

// A session goes on after its server crashed. A call is repeated if its annotations
// allow it, and only once.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "crashing")
	if got := texts(s.call(t, "safe", nil)); got != "safe done" {
		t.Errorf("safe, after a crash: %q", got)
	}
	if n := s.count(t, "calls of safe"); n != 2 {
		t.Errorf("safe ran %d times, want 2", n)
	}
	s = wrapServer(t, "crashing")
	res := s.call(t, "once", nil)
	checkContains(t, texts(res), "test server ended while it ran once", "may have acted")
	if !res.IsError {
		t.Error("not an error")
	}
	if got := texts(s.call(t, "once", nil)); got != "once done" {
		t.Errorf("once, after the restart: %q", got)
	}
	if n := s.count(t, "calls of once"); n != 2 { // one crashed, one by the client
		t.Errorf("once ran %d times, want 2", n)
	}
	// The ids of the new process may be those of the earlier one.
	if got := texts(s.call(t, "ask", nil)); got != "accept" {
		t.Errorf("elicitation after a restart: %q", got)
	}
	res = s.call(t, "poison", nil)
	checkContains(t, texts(res), "may have acted")
	if got := texts(s.call(t, "safe", nil)); got != "safe done" {
		t.Errorf("safe, after another crash: %q", got)
	}
}

// count returns the size of a file in which the server counts.
func (s *session) count(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0 // it has not happened yet
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A restarted server has the log level and the subscriptions that the client has set.
func TestSettingsAfterRestart(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "patient")
	err := errors.Join(
		//lint:ignore SA1019 many clients still do
		s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}),
		s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "a"}), s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "b"}),
		s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "b"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.call(t, "poison", nil)
	s.call(t, "safe", nil)
	for what, want := range map[string]int64{"logging setLevel debug": 2, "resources subscribe a": 2, "resources subscribe b": 1} {
		if n := s.count(t, what); n != want {
			t.Errorf("%s was requested %d times, want %d", what, n, want)
		}
	}
}

// If a restarted server has other tools, the client is told.
func TestToolsAfterRestart(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "changing")
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "second"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(t, "poison", nil)
	s.await(t, "list_changed", func() bool { return s.changes > 0 })
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 3+1 {
		t.Errorf("%d tools: %v", len(list.Tools), err)
	}
}

func (s *session) await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ok := f()
		s.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("no %s", what)
}

// A server that floods or writes garbage does not break the session.
func TestMisbehaviour(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := wrapServer(t, "raw")
	if got := texts(s.call(t, "garbage", nil)); got != "garbage done" {
		t.Errorf("garbage: %q", got)
	}
	if got := texts(s.call(t, "flood", nil)); got != "flood done" {
		t.Errorf("flood: %q", got)
	}
	s.await(t, "list_changed", func() bool { return s.changes > 0 })
	if limit := noteBurst + float64(noteRate)*time.Since(began).Seconds(); float64(s.logs) > limit {
		t.Errorf("%d log messages reached the client", s.logs)
	}
}

// A server that hangs does not break the session.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "raw", func(cfg *Config) { cfg.CallTimeout = 2 * time.Second })
	res := s.call(t, "hang", nil)
	checkContains(t, texts(res), "did not respond within 2s")
	if !res.IsError {
		t.Error("not an error")
	}
	info, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: artifacts.ReadResult})
	if err != nil || info.IsError {
		t.Errorf("a reading tool while the server hangs: %v %v", info, err)
	}
	for end := time.Now().Add(testTimeout); ; { // it is started again
		if got := texts(s.call(t, "safe", nil)); got == "safe done" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("after a server that hangs: %q", got)
		}
	}
}

// 200 tools pass.
func TestManyTools(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "many")
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 202+1 {
		t.Errorf("%d tools: %v", len(list.Tools), err)
	}
	if list, err := s.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 0 {
		t.Errorf("resources of a server without resources: %v %v", list, err)
	}
}

// A server that does not start gives a clear error, and a program that does not exist
// ends the proxy.
func TestNoServer(t *testing.T) {
	t.Parallel()
	run := func(server func(context.Context) (Link, error), input string) (string, error) {
		store, err := disk.Open(t.TempDir(), offload.StoreConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var out strings.Builder
		in, write := io.Pipe()
		go io.WriteString(write, input)
		defer write.Close()
		r, w := io.Pipe()
		first := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(r).ReadString('\n')
			first <- line
			write.Close()
			io.Copy(&out, r)
		}()
		err = Run(t.Context(), NewStream(in, w, func() { w.Close() }), Config{Name: "broken", Session: "s", Store: store, Server: server})
		select {
		case line := <-first:
			return line, err
		default:
			return "", err
		}
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}` + "\n"
	line, err := run(startProgram("silent exit", t.TempDir()), initialize)
	if err != nil {
		t.Error(err)
	}
	checkContains(t, line, `"id":1`, "broken does not start", "exit status 3", "cannot find the module")
	_, err = run(func(context.Context) (Link, error) { return nil, fmt.Errorf("%w: x", ErrPermanent) }, initialize)
	if !errors.Is(err, ErrPermanent) {
		t.Errorf("a program that does not exist: %v", err)
	}
}
