package console_test

import (
	"bytes"
	"cmp"
	"context"
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
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stevedore-bus/stevedore/bus/console"
)

// browser is a tab of a real Chromium. Errors and warnings of the page fail the test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// browse opens the page in Chromium, or skips the test if there is none.
func browse(t *testing.T, in *installation, width, height int64) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("chromium is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(int(width), int(height)))
	ctx, cancelTimeout := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancelTimeout)
	ctx, cancelAllocator := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancelAllocator)
	ctx, cancel := chromedp.NewContext(ctx)
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
					t.Errorf("the page logged %s: %s", m.Type, m.Text)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); reading.Wait() })
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
	for deadline := time.Now().Add(20 * time.Second); b.eval(expression) != "true"; time.Sleep(20 * time.Millisecond) {
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

// smaller reduces a picture to its 64 most frequent colours; the page has few.
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
	for _, c := range colours[:min(64, len(colours))] {
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

func (b *browser) dark() {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
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
			in.call("night-watch", fmt.Sprintf("toolu_%02d", i), "fail", textArgs{Text: "open manifest.csv: no such file or directory"})
		}
	}
	in.call("harbour", "toolu_logs", "logs", textArgs{Lines: 60_000})
	in.call("harbour", "toolu_inventory", "inventory", textArgs{Lines: 4_000})
	in.begin("harbour", "toolu_train", "train", textArgs{Text: "epoch 7 of 10", Done: 68})
	in.begin("night-watch", "toolu_build", "shell", textArgs{Text: "go test ./...", Done: 31})
	in.deadLetter("move_crane", `{"id": 17, "args": "not an object"`)
	in.job("backup", "shell", "6h")
	in.job("tides", "web_fetch", "30m")
	in.say("harbour",
		`{"kind":"user","run":"r1","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":"Which containers were moved with errors last night?"}]}}`,
		`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:03Z","message":{"role":"assistant","content":[{"type":"text","text":"I read the log of the cranes first."},{"type":"tool_use","id":"u1","name":"logs","input":{"lines":60000}}]}}`,
		`{"kind":"results","run":"r1","at":"2026-11-22T04:00:05Z","answers":[{"call":"toolu_logs","tool":"logs","outcome":"completed","for_llm":"[60,000 lines, 4.6 MB; stored as toolu_logs]","artifact":{"artifact_id":"toolu_logs","type":"TEXT","size":4680000,"chars":4680000,"tokens":1872000,"lines":60001,"digest":""}}]}`,
		`{"kind":"assistant","run":"r1","at":"2026-11-22T04:00:09Z","message":{"role":"assistant","content":[{"type":"text","text":"7,500 moves were logged as errors. All of them are moves of crane 3 to bay 41; the other cranes had none.\n\nThe full log is stored as an artifact, so I read only the lines that match."}]}}`,
		`{"kind":"end","run":"r1","at":"2026-11-22T04:00:09Z","end":{"reason":"end_turn","turns":2,"usage":{"input_tokens":3120,"output_tokens":214}},"total":{"turns":2,"input_tokens":3120,"output_tokens":214}}`)
	in.say("night-watch", `{"kind":"user","run":"r2","at":"2026-11-22T04:01:00Z","message":{"role":"user","content":[{"type":"text","text":"Watch the tides."}]}}`)
}

// Every view shows what the installation has, at the width of a desk and of a phone.
func TestViews(t *testing.T) {
	in := start(t, console.Config{})
	fill(in)
	desk := browse(t, in, 1280, 800)
	if strings.Contains(desk.eval("location.href"), "token") {
		t.Error("the token is still in the address")
	}
	for _, v := range []struct{ name, hash, text string }{
		{"now", "now", "epoch 7 of 10"},
		{"calls", "calls", "toolu"},
		{"call", "calls/night-watch/toolu_04", "no such file"},
		{"artifacts", "artifacts", "inventory"},
		{"artifact", "artifacts/harbour/toolu_logs", "crane"},
		{"conversations", "conversations", "night-watch"},
		{"conversation", "conversations/harbour", "crane 3"},
		{"schedules", "schedules", "backup"},
		{"dead", "dead", "move_crane"},
		{"channels", "channels", "log"},
		{"system", "system", "quay-1"},
	} {
		desk.open(v.hash, v.text)
		desk.screenshot(v.name)
	}
	desk.dark()
	desk.open("now", "epoch 7 of 10")
	desk.screenshot("now-dark")
	desk.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, hash := range []string{"now", "calls", "artifacts/harbour/toolu_logs", "conversations/harbour", "schedules", "dead", "channels", "system"} {
		desk.open(hash, "")
		desk.until("document.querySelector('main').innerText.length > 40")
		if wide := desk.eval("document.documentElement.scrollWidth > innerWidth"); wide != "false" {
			t.Errorf("%s is wider than a phone", hash)
		}
		desk.screenshot("phone-" + strings.ReplaceAll(strings.SplitN(hash, "/", 2)[0], "/", "-"))
	}
}
