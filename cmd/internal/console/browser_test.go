package console_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
)

// browser is a tab of a real Chromium. Errors and warnings of the page fail the test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// needBrowser skips the test if there is no Chromium. A test calls it before it stores what the page
// shows.
func needBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: leaves out the browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Skip("chromium is not installed")
}

// chromium starts the browser of all tests; each test has a profile and a window of its own in it.
var chromium = sync.OnceValues(func() (browser context.Context, stop func()) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-dev-shm-usage", true))
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		panic(err)
	}
	started.Store(true)
	return browser, func() { stopBrowser(); stopAllocator() }
})

// started says that there is a browser to stop.
var started atomic.Bool

func TestMain(m *testing.M) {
	code := slow.RunWaiting(m)
	if started.Load() {
		_, stop := chromium()
		stop()
	}
	os.Exit(code)
}

// browse opens the page in Chromium.
func browse(t *testing.T, in *installation, width, height int64) *browser {
	t.Helper()
	needBrowser(t)
	parent, _ := chromium()
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	ctx, cancelTimeout := context.WithTimeout(ctx, 3*bustest.Timeout)
	t.Cleanup(cancelTimeout)
	b := &browser{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return // the browser was closed
			}
			switch m.Type {
			case chromedp.ConsoleException, "error", "warning", "assert":
				if m.Source != "network" { // a test may ask for errors of the API
					t.Errorf("%s:%d: the page logged %s: %s", m.URL, m.Line+1, m.Type, m.Text)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.EmulateViewport(width, height), chromedp.Navigate(in.url+"/?token="+token))
	b.until("!!document.querySelector('nav a[aria-current]')")
	return b
}

func (b *browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression as text.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// until waits until an expression is true. The policy of the page forbids polling inside
// of it, because that needs eval.
func (b *browser) until(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(bustest.Timeout); b.eval(expression) != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("timeout: %s; the page has: %.2000s", expression, b.text())
		}
	}
}

// text is what a user reads.
func (b *browser) text() string { return b.eval("document.body.innerText") }

// open opens a view and waits until it shows a text.
func (b *browser) open(hash, text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("location.hash = %q", "#/"+hash))
	b.shows(text)
}

func (b *browser) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// search types into the search box. The driver types "/" even though the page consumes
// the key, which a browser does not.
func (b *browser) search(text string) {
	b.t.Helper()
	b.press("/")
	b.until("document.activeElement.matches('[data-search]')")
	b.eval("document.activeElement.value = ''")
	b.press(text)
}

// screenshot writes a picture if STEVEDORE_SCREENSHOTS names a directory.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("STEVEDORE_SCREENSHOTS")
	if dir == "" {
		return
	}
	b.run(chromedp.Sleep(400 * time.Millisecond))
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), smaller(b.t, data), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// smaller reduces a picture to its 128 most frequent colours; the page has few.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	uses := map[color.RGBA]int{}
	r := picture.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			uses[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(uses), func(a, b color.RGBA) int {
		return cmp.Or(uses[b]-uses[a], cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
	var palette color.Palette
	for _, c := range colours[:min(128, len(colours))] {
		palette = append(palette, c)
	}
	reduced := image.NewPaletted(r, palette)
	draw.Draw(reduced, r, picture, r.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, reduced); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// media emulates a feature of the screen.
func (b *browser) media(name, value string) {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// fill gives an installation some of everything.
func fill(in *installation) {
	for i := range 60 {
		switch i % 6 {
		case 0, 3:
			in.call("harbour", fmt.Sprintf("toolu_%02d", i), "read_file", textArgs{Text: "package main\n\nfunc main() {}\n"})
		case 1:
			in.call("harbour", fmt.Sprintf("toolu_%02d", i), "grep", textArgs{Text: "bus/publish.go:21: // ErrSubjectExists means that the subject already holds a message."})
		case 2, 5:
			in.call("night-watch", fmt.Sprintf("toolu_%02d", i), "web_fetch", textArgs{Text: "Tides for Hamburg: high water 05:12, low water 11:48."})
		case 4:
			in.call("night-watch", fmt.Sprintf("toolu_%02d", i), "read_manifest", textArgs{Text: "open manifest.csv: no such file or directory"})
		}
	}
	in.call("harbour", "toolu_logs", "logs", textArgs{Lines: 60_000})
	in.call("harbour", "toolu_inventory", "inventory", textArgs{Lines: 4_000})
	in.begin("harbour", "toolu_train", "train", textArgs{Text: "epoch 7 of 10", Done: 68})
	in.begin("night-watch", "toolu_build", "shell", textArgs{Text: "go test ./...", Done: 31})
	in.ask("harbour", "toolu_deploy", textArgs{Text: "Release the new berth plan to all cranes"})
	in.deadLetter("move_crane", `{"id": 17, "args": "not an object"`)
	in.job("backup", "shell", "6h")
	in.job("tides", "web_fetch", "30m")
	in.heartbeat()
	in.say("harbour",
		`{"kind":"user","run":"r1","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":"Which containers were moved with errors last night?"}]}}`,
		`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:03Z","model":"sonnet","usage":{"input_tokens":1000,"output_tokens":100,"cost":0.01},"message":{"role":"assistant","content":[{"type":"text","text":"I read the log of the cranes first."},{"type":"tool_use","id":"u1","name":"logs","input":{"lines":60000}}]}}`,
		`{"kind":"results","run":"r1","at":"2026-11-22T04:00:05Z","answers":[{"call":"toolu_logs","tool":"logs","outcome":"completed","for_llm":"[60,000 lines, 4.6 MB; stored as toolu_logs]","artifact":{"artifact_id":"toolu_logs","type":"TEXT","size":4680000,"chars":4680000,"tokens":1872000,"lines":60001,"digest":""}}]}`,
		`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:09Z","model":"sonnet","usage":{"input_tokens":2120,"output_tokens":114,"cost":0.02},"message":{"role":"assistant","content":[{"type":"text","text":"7,500 moves were logged as errors. All of them are moves of crane 3 to bay 41; the other cranes had none.\n\nThe full log is stored as an artifact, so I read only the lines that match."}]}}`,
		`{"kind":"end","run":"r1","at":"2026-11-22T04:00:09Z","end":{"reason":"end_turn","turns":2,"usage":{"input_tokens":3120,"output_tokens":214}},"total":{"turns":2,"input_tokens":3120,"output_tokens":214}}`)
	in.say("night-watch", `{"kind":"user","run":"r2","at":"2026-11-22T04:01:00Z","message":{"role":"user","content":[{"type":"text","text":"Watch the tides."}]}}`)
}

// Every view shows what the installation has, at the width of a desk and of a phone.
func TestViews(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	fill(in)
	desk := browse(t, in, 1280, 800)
	if strings.Contains(desk.eval("location.href"), "token") {
		t.Error("the token is still in the address")
	}
	for _, v := range []struct{ name, hash, text string }{
		{"now", "now", "worker answers"},
		{"calls", "calls", "lines: 60000"},
		{"call", "calls/night-watch/toolu_04", "no such file"},
		{"artifacts", "artifacts", "inventory"},
		{"artifact", "artifacts/harbour/toolu_logs", "crane"},
		{"conversation", "conversations/harbour", "crane 3"},
		{"usage", "usage?by=tool", "logs"},
		{"approvals", "approvals", "berth plan"},
		{"schedules", "schedules", "make backup"},
		{"dead", "dead/1", "unexpected"},
		{"channels", "channels", "file"},
		{"system", "system", "quay-1"},
	} {
		desk.open(v.hash, v.text)
		desk.screenshot(v.name)
		desk.accessible()
	}
	desk.media("prefers-color-scheme", "dark")
	desk.open("now", "epoch 7 of 10")
	desk.screenshot("now-dark")
	desk.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, hash := range []string{"now", "calls", "artifacts/harbour/toolu_logs", "conversations", "conversations/harbour", "calls/night-watch/toolu_04", "approvals", "schedules", "dead", "dead/1", "channels", "usage", "system"} {
		desk.open(hash, "")
		desk.until("document.querySelector('main').innerText.length > 40")
		if wide := desk.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
			t.Errorf("%s is wider than a phone", hash)
		}
		desk.accessible()
		desk.screenshot("phone-" + strings.ReplaceAll(strings.SplitN(hash, "/", 2)[0], "/", "-"))
	}
}

// hostile is a text that tries everything that a text can try in a page.
const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><svg onload="window.pwned=1">` +
	`"'</textarea></title></pre><a href="javascript:window.pwned=1">x</a>{{7*7}}${window.pwned=1}` + "\u202egpj.exe\u202c\u200b\x1b[31m\x00"

// Hostile texts in every field that a tool, a model or a client can choose stay texts.
func TestHostileTexts(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	in.call(hostile, hostile, "read_file", textArgs{Text: hostile})
	in.call("s", "bad", "read_manifest", textArgs{Text: hostile})
	in.call("s", "big", "web_fetch", textArgs{Text: strings.Repeat(hostile+"\n", 2000)})
	in.begin("s", "runs", "shell", textArgs{Text: hostile, Done: 3})
	in.ask("s", "asks", textArgs{Text: hostile})
	in.deadLetter("x", hostile)
	bustest.Consumers(t, in.bus, in.bus.WorkerConsumer("gpu"))
	if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: in.bus.Call("gpu", "train", tools.Token(hostile), tools.Token(hostile)), Body: fmt.Appendf(nil, `{"id":%[1]s,"session":%[1]s}`, quoted)}); err != nil {
		t.Fatal(err)
	}
	in.say("s", fmt.Sprintf(`{"kind":"user","message":{"content":[{"type":"text","text":%[1]s}]}}`, quoted),
		fmt.Sprintf(`{"kind":"assistant","model":%[1]s,"usage":{"input_tokens":1,"output_tokens":1},"message":{"content":[{"type":"text","text":%[1]s},{"type":"tool_use","name":%[1]s,"input":{"x":%[1]s}},{"type":%[1]s}]}}`, quoted),
		fmt.Sprintf(`{"kind":"results","answers":[{"call":%[1]s,"tool":%[1]s,"outcome":%[1]s,"for_llm":%[1]s,"artifact":{"artifact_id":%[1]s,"tokens":1}}]}`, quoted),
		fmt.Sprintf(`{"kind":"compacted","usage":{"input_tokens":1,"output_tokens":1},"compaction":{"turns":2,"summary":%[1]s}}`, quoted), fmt.Sprintf(`{"kind":%s}`, quoted), `"a string"`, "[]", "not JSON",
		fmt.Sprintf(`{"kind":"end","end":{"reason":%[1]s,"error":{"message":%[1]s}}}`, quoted))
	b := browse(t, in, 1280, 800)
	for _, hash := range []string{
		"now", "calls", "calls/" + tools.TokenOf(hostile) + "/" + tools.TokenOf(hostile), "calls/s/bad", "calls/s/runs", "artifacts", "artifacts/s/big",
		"conversations", "conversations/s", "conversations/s/trace", "approvals", "schedules", "dead", "dead/1", "channels", "usage?by=model", "usage?by=tool", "system",
	} {
		b.open(hash, "")
		b.until("document.querySelector('main').innerText.length > 60 && !document.querySelector('main').innerText.trim().endsWith('\u2026')")
		if strings.Contains(hash, "/") && hash != "artifacts/s/big" || hash == "approvals" || hash == "now" {
			b.shows("window.pwned=1")
		}
		if hash == "now" {
			b.shows("queue gpu") // the call that waits
		}
		if found := b.eval(`[...document.querySelectorAll("main script, main img, main iframe, main svg, a[href^='javascript:'], [onerror], [onload]")].length + " " + window.pwned`); found != "0 undefined" {
			t.Errorf("%s: elements and effects of the text: %s", hash, found)
		}
		if invisible := b.eval(`/[\u202a-\u202e\u2066-\u2069\u200b\u001b\u0000]/.test(document.querySelector("main").textContent)`); invisible != "false" {
			t.Errorf("%s: a text has invisible characters", hash)
		}
	}
	b.open("artifacts/s/big", "")
	b.shows("window.pwned=1")
	b.open("%00/../..//evil", "Now")
	b.open("calls/"+strings.Repeat("%ff", 50)+"/x", "Calls")
}

// The keyboard alone reaches every view and row, opens and closes them, and lists its
// shortcuts; the focus is visible.
func TestKeyboard(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	fill(in)
	b := browse(t, in, 1280, 800)
	b.press("?")
	b.shows("next or previous row")
	b.press(kb.Escape)
	b.until("!document.querySelector('dialog')")
	for key, view := range map[string]string{"c": "calls", "a": "artifacts", "v": "conversations", "p": "approvals", "s": "schedules", "d": "dead", "n": "channels", "u": "usage", "y": "system", "o": "now"} {
		bustest.WaitUntil(t, view, func() bool {
			b.press("g")
			b.press(key) // on a slow machine, perhaps too late after the other key
			return b.eval(fmt.Sprintf("location.hash === '#/%s' && document.querySelector('main').className === 'view-%[1]s'", view)) == "true"
		})
	}
	b.open("calls", "lines: 60000")
	b.until("document.querySelectorAll('.scroller .row').length > 5")
	for range 5 {
		b.press("j")
	}
	b.until("document.activeElement.closest('[data-index]')?.dataset.index === '4'")
	if outline := b.eval("getComputedStyle(document.activeElement).outlineStyle"); outline != "solid" {
		t.Errorf("the focus is not visible: %s", outline)
	}
	b.press("k")
	b.press(kb.Enter)
	b.until("location.hash.split('/').length === 4")
	b.shows("Attempt")
	b.press(kb.Escape)
	b.until("location.hash === '#/calls' && document.activeElement.id === 'main'") // the change of the view moves the focus
	b.search("night-watch")
	b.until("document.querySelectorAll('.scroller .row').length > 0 && ![...document.querySelectorAll('.scroller .row')].some(r => r.innerText.includes('read_file'))")
	b.press(kb.Escape)
	b.open("artifacts/harbour/toolu_logs", "crane")
	b.search("container 0055555" + kb.Enter)
	b.until("document.querySelector('.marked') && document.querySelector('.marked').innerText.includes('0055555')")
	b.open("approvals", "berth plan")
	b.eval("document.querySelector('.approve input').focus()")
	b.press("because" + kb.Tab + kb.Enter) // Deny
	b.shows("No call waits for an approval")
	b.until("document.activeElement.id === 'main'")
	bustest.WaitUntil(t, "the denial", func() bool {
		status, body := in.request("GET", "/api/calls/harbour/toolu_deploy", "")
		return status == 200 && strings.Contains(body, "because")
	})
}

// A read-only page has no buttons that change something.
// A message appears once, however many events say that there are new entries, and although
// pieces of it arrive after it was stored.
func TestMessagesAppearOnce(t *testing.T) {
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("twice", `{"kind":"user","run":"r1","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":"question-one"}]}}`)
	b := browse(t, in, 1000, 700)
	b.open("conversations/twice", "question-one")
	in.say("twice", `{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:01Z","message":{"role":"assistant","content":[{"type":"text","text":"answer-one"}]}}`)
	event := `import("/static/live.js").then(m => { for (let i = 0; i < 5; i++) m.live.dispatchEvent(new CustomEvent("frame", {detail: %s})) })`
	b.eval(fmt.Sprintf(event, `{sessions: ["twice"], connected: true}`))
	b.shows("answer-one")
	b.eval(fmt.Sprintf(event, `{progress: {"twice.r1": {activity: [{type: "text", turn: 1, offset: 0, text: "answer-one"}]}}, connected: true}`))
	b.eval(fmt.Sprintf(event, `{progress: {"twice.r1": {activity: [{type: "text", turn: 2, offset: 0, text: "answer-two"}]}}, connected: true}`))
	b.shows("answer-two")
	time.Sleep(time.Second) // for requests that are still on their way
	for _, text := range []string{"question-one", "answer-one", "answer-two"} {
		if n := strings.Count(b.eval(`document.querySelector(".log").innerText`), text); n != 1 {
			t.Errorf("%q appears %d times:\n%s", text, n, b.text())
		}
	}
}

// The Markdown of a model is styled. HTML and hidden characters in it stay text, a link shows its
// address and leads nowhere, and what a user wrote is not parsed.
func TestMarkdownOfAModel(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.say("styled", `{"kind":"user","run":"r1","message":{"role":"user","content":[{"type":"text","text":"**mine**"}]}}`)
	in.say("styled", `{"kind":"assistant","run":"r1","message":{"role":"assistant","content":[{"type":"text","text":"It is **done**: see [the log](https://evil.example/x), <img src=x onerror=document.title=1>\n\n`+"```"+`\nrm -r build\n`+"```"+`\n\n| a | b |\n|---|---|\n| 1 | 2 |"},{"type":"text","text":"**hidden** \u202e"}]}}`)
	b := browse(t, in, 390, 700)
	b.open("conversations/styled", "rm -r build")
	var got struct {
		Bold, Block, Text string
		Links, Images     int
	}
	if err := json.Unmarshal([]byte(b.eval(`JSON.stringify({bold: document.querySelector(".md-bold").textContent, block: document.querySelector(".md-block").textContent, text: document.querySelector(".message.assistant").textContent,
		links: document.querySelectorAll(".message a").length, images: document.querySelectorAll(".message img").length})`)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Bold != "done" || !strings.Contains(got.Block, "rm -r build") || got.Links+got.Images > 0 {
		t.Errorf("%+v", got)
	}
	for _, want := range []string{"the log (https://evil.example/x)", "<img src=x", "**hidden** ⟨202E⟩"} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("the text has no %q: %s", want, got.Text)
		}
	}
	if !strings.Contains(b.text(), "**mine**") {
		t.Error("the user's message was parsed")
	}
}

// The filters of calls and artifacts are in the URL.
func TestFiltersAreInTheURL(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	in.call("s", "logs", "logs", textArgs{Lines: 20_000})
	in.call("s2", "items", "inventory", textArgs{Lines: 3000})
	b := browse(t, in, 1000, 700)
	b.open("calls?tool=inventory", "1 call")
	if text := b.text(); strings.Contains(text, "logs") {
		t.Errorf("not filtered:\n%s", text)
	}
	b.open("now", "Just ended")
	b.open("calls?text=%22CONTAINER+0%22&last=3600", "1 call")
	if text := b.text(); strings.Contains(text, "logs") {
		t.Errorf("the text does not filter:\n%s", text)
	}
	in.call("s2", "new", "read_file", textArgs{Text: `the "container 0"`})
	b.shows("2 calls") // a new call appears in the search
	b.open("artifacts/s", "s / logs")
	if text := b.text(); strings.Contains(text, "s2 / items") {
		t.Errorf("not filtered:\n%s", text)
	}
	b.open("artifacts", "s2 / items")
	in.damaged.Store(true)
	b.open("now", "Just ended")
	b.open("artifacts", "Damaged records of artifacts, which are not in this list: 1")
}

func TestReadOnlyPage(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{ReadOnly: true})
	fill(in)
	b := browse(t, in, 1280, 800)
	for hash, text := range map[string]string{
		"now": "epoch 7", "calls/harbour/toolu_train": "Running for", "conversations/harbour": "read-only", "approvals": "berth plan",
		"schedules": "backup", "dead/1": "Message", "channels": "log",
	} {
		b.open(hash, text)
		if found := b.eval(`[...document.querySelectorAll("main button")].map(x => x.innerText).filter(x => /cancel|send|retry|remove|disable|approve|deny|test/i.test(x)).join()`); found != "" {
			t.Errorf("%s has the buttons %s", hash, found)
		}
	}
}

// A long list and a big artifact stay a few elements, wherever the user scrolls.
func TestLongListsAreBounded(t *testing.T) {
	slow.Test(t)
	needBrowser(t)
	t.Parallel()
	in := start(t, console.Config{})
	for i := range 3000 {
		body := fmt.Appendf(nil, `{"id":"c%d","session":"s","tool":"x","outcome":"completed","for_llm":"text %[1]d","started_at":"2026-01-01T00:00:00Z","attempt":1}`, i)
		if _, err := in.bus.JetStream().PublishAsync(in.bus.Result("s", fmt.Sprint("c", i)), body, jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	<-in.bus.JetStream().PublishAsyncComplete()
	in.call("s", "big", "logs", textArgs{Lines: 600_000}) // 12 million pixels, more than an element has
	b := browse(t, in, 1280, 800)
	b.open("calls", "calls loaded")
	for last := ""; ; {
		b.eval("document.querySelector('.scroller').scrollTop = 1e9")
		b.until("document.querySelectorAll('.scroller .row').length > 5")
		if n := b.eval("document.querySelectorAll('.scroller .row').length < 60"); n != "true" {
			t.Fatal("the list has too many elements")
		}
		if b.eval("document.querySelector('.master .hint').innerText") == "3,001 calls" {
			break
		}
		if at := b.eval("document.querySelector('.scroller').scrollHeight"); at != last {
			last = at
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.until("[...document.querySelectorAll('.scroller .row')].at(-1).innerText.includes('text 0')")

	b.open("artifacts/s/big", "container 0000000")
	b.eval("document.querySelector('.scroller').scrollTop = 1e9")
	b.shows("container 0599999")
	b.eval("document.querySelector('.scroller').scrollTop = document.querySelector('.scroller').scrollHeight / 2")
	b.until("/container 0(29|30)/.test(document.querySelector('.scroller').innerText)")
	// Small steps move by lines, not by parts of the list.
	first := "+document.querySelector('.scroller .row .n').innerText"
	before := b.eval(first)
	b.eval("document.querySelector('.scroller').scrollTop += 100")
	b.until(fmt.Sprintf("%s - %s === 5", first, before))
	b.eval("document.querySelector('.short').focus()")
	b.press("123456" + kb.Enter)
	b.until("document.querySelector('.marked') && document.querySelector('.marked').innerText.includes('container 0123455')")
	if n := b.eval("document.querySelectorAll('.scroller .row').length < 80"); n != "true" {
		t.Error("the viewer has too many elements")
	}
}

// TestScale opens the page with 100,000 calls and an artifact of 100 MB while calls end,
// and reports how long it takes, its frames and its memory.
//
//	STEVEDORE_SCALE=1 go test -run TestScale -v ./cmd/internal/console
func TestScale(t *testing.T) {
	if os.Getenv("STEVEDORE_SCALE") == "" {
		t.Skip("set STEVEDORE_SCALE to run it")
	}
	in := start(t, console.Config{})
	publish := func(i int) {
		body := fmt.Appendf(nil, `{"id":"c%d","session":"s%d","tool":"read_file","outcome":"completed","for_llm":"text %[1]d %[3]s","started_at":"2026-01-01T00:00:00Z","duration_ms":12,"attempt":1,"worker":"w"}`, i, i%500, strings.Repeat("x", 200))
		if _, err := in.bus.JetStream().PublishAsync(in.bus.Result(fmt.Sprint("s", i%500), fmt.Sprint("c", i)), body, jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Error(err)
		}
	}
	for i := range 100_000 {
		publish(i)
		if i%2000 == 0 {
			<-in.bus.JetStream().PublishAsyncComplete()
		}
	}
	<-in.bus.JetStream().PublishAsyncComplete()
	in.call("s", "big", "logs", textArgs{Lines: 1_300_000})
	b := browse(t, in, 1280, 800)
	timed := func(what string, f func()) {
		begin := time.Now()
		f()
		t.Logf("%-45s %s", what, time.Since(begin).Round(time.Millisecond))
	}
	b.run(chromedp.Navigate("about:blank"))
	timed("first view, with data", func() {
		b.run(chromedp.Navigate(in.url))
		b.until("document.querySelectorAll('main li').length > 10")
	})
	timed("calls", func() { b.open("calls", "calls loaded") })
	timed("calls of one session", func() {
		b.search("s77")
		b.until("[...document.querySelectorAll('.scroller .row')].length > 10 && document.querySelector('main').innerText.includes('text 99577 ')")
	})
	timed("artifact of 100 MB", func() { b.open("artifacts/s/big", "container 0000000") })
	timed("its end", func() {
		b.eval("document.querySelector('.scroller').scrollTop = 1e9")
		b.shows("container 1299999")
	})
	timed("search in it", func() {
		b.search("container 12999[0-9]9" + kb.Enter)
		b.shows("10 matches")
	})
	b.open("now", "Just ended")
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for i := 200_000; ; i++ {
			select {
			case <-stop:
				return
			case <-ticker.C:
				publish(i)
			}
		}
	}()
	b.eval(`(() => { let last = performance.now(), from = last; window.frames_ = { n: 0, worst: 0 };
		const f = now => { frames_.n++; frames_.worst = Math.max(frames_.worst, now - last); last = now; frames_.rate = 1000 * frames_.n / (now - from); requestAnimationFrame(f); };
		requestAnimationFrame(f); })()`)
	time.Sleep(8 * time.Second)
	t.Logf("live, 1,000 calls/s: %s frames/s, longest pause %s ms, heap %s MB, %s elements", b.eval("Math.round(frames_.rate)"), b.eval("Math.round(frames_.worst)"),
		b.eval("Math.round(performance.memory.usedJSHeapSize / 1e6)"), b.eval("document.querySelectorAll('*').length"))
	close(stop)
}
