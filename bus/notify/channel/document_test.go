package channel

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
)

func newDocument(name string, content io.ReaderAt, size int64) *Document {
	return &Document{Name: FileName(name), Size: size, Content: content, Close: func() error { return nil }, Command: "get it"}
}

func withReport(id string) Notification {
	const content = "a,b\n1,2\n"
	return Notification{ID: id, Text: "Here it is.", At: time.Now(), File: newDocument("report.csv", strings.NewReader(content), int64(len(content)))}
}

func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"report.pdf":                  "report.pdf",
		"../../etc/passwd":            "_.._etc_passwd",
		`C:\x\y.txt`:                  "C:_x_y.txt",
		"a\r\nBcc: x\x00\x1b[2Jb":     "a Bcc: x [2Jb",
		"cod\u202Etxt.exe":            "cod txt.exe",
		`x"; filename="y.exe`:         "x_; filename=_y.exe",
		"\xff\xfe.txt":                "txt",
		"":                            "file",
		"...":                         "file",
		strings.Repeat("ü", 100):      strings.Repeat("ü", 50),
		strings.Repeat("x", 1000):     strings.Repeat("x", 100),
		strings.Repeat("🎉", 99) + "a": strings.Repeat("🎉", 24) + "a",
	} {
		if got := FileName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// The text comes first, once, also if the file fails; a file that the Bot API refuses becomes a
// sentence.
func TestTelegramSendsFiles(t *testing.T) {
	api := newBotAPI(t, `{"ok":true,"result":{}}`, `{"ok":false,"error_code":502,"description":"Bad Gateway"}`)
	tg := newTelegram(t, api, "42")
	if err := tg.Send(t.Context(), withReport("1")); err == nil {
		t.Error("no error of the file")
	}
	if err := tg.Send(t.Context(), withReport("1")); err != nil {
		t.Fatal(err)
	}
	if len(api.got) != 3 || api.got[0]["text"] != "Here it is." || api.got[2]["text"] != "" || api.got[2]["file report.csv"] != "a,b\n1,2\n" || api.got[2]["chat_id"] != "42" {
		t.Errorf("sent %q", api.got)
	}
	api.got, api.answers = nil, []string{`{"ok":true,"result":{}}`, `{"ok":false,"error_code":413,"description":"Request Entity Too Large"}`}
	if err := tg.Send(t.Context(), withReport("2")); err != nil || len(api.got) != 3 || api.got[2]["text"] != "the file report.csv cannot be sent: refused_413; get it" {
		t.Errorf("refused: %v, sent %q", err, api.got)
	}
	// The file is removed before it could be sent, which the next attempt notes.
	api.got, api.answers = nil, []string{`{"ok":true,"result":{}}`, `{"ok":false,"error_code":502,"description":"Bad Gateway"}`}
	gone := withReport("4")
	if err := tg.Send(t.Context(), gone); err == nil {
		t.Error("no error of the file")
	}
	gone.File = nil
	if err := tg.Send(t.Context(), gone.WithNote("it is gone")); err != nil || len(api.got) != 3 || api.got[2]["text"] != "(it is gone)" {
		t.Errorf("gone: %v, sent %q", err, api.got)
	}
	// A long text is a file of its own, once.
	long := withReport("3")
	long.Text = strings.Repeat("word ", 5000)
	api.got, api.answers = nil, []string{`{"ok":true,"result":{}}`, `{"ok":false,"error_code":502,"description":"Bad Gateway"}`}
	if err := tg.Send(t.Context(), long); err == nil {
		t.Error("no error of the file")
	}
	if err := tg.Send(t.Context(), long); err != nil || len(api.got) != 3 || api.got[0]["file message.txt"] == "" || api.got[2]["file report.csv"] == "" {
		t.Errorf("long text: %v, sent %d", err, len(api.got))
	}
	api.got, long.ID, long.File, long.Note = nil, "5", nil, "a note"
	if err := tg.Send(t.Context(), long); err != nil || len(api.got) != 1 {
		t.Errorf("long text with a note: %v, sent %d", err, len(api.got))
	}
}

func TestEmailSendsFiles(t *testing.T) {
	s := newSMTP(t, nil)
	e := newEmail(t, s)
	if err := e.Send(t.Context(), withReport("1")); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.refuse = map[string]string{"DATA": "552 too large"}
	s.mu.Unlock()
	if err := e.Send(t.Context(), withReport("2")); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mails) != 2 || !strings.Contains(s.mails[0], `filename="report.csv"`) || !strings.Contains(s.mails[0], "YSxiCjEsMgo=") ||
		strings.Contains(s.mails[1], "YSxi") || !strings.Contains(s.mails[1], "report.csv cannot be sent: refused_552") {
		t.Errorf("mails %q", s.mails)
	}
}

// zeros is a file of any size that takes no memory.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// The memory of a process does not grow with the size of a file.
func TestFilesAreStreamed(t *testing.T) {
	var size int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, _ = io.Copy(io.Discard, r.Body)
		if size != r.ContentLength {
			t.Errorf("%d bytes of %d", size, r.ContentLength)
		}
		_, _ = fmt.Fprint(w, `{"ok":true,"result":{}}`)
	}))
	t.Cleanup(server.Close)
	tg, err := NewTelegram(testToken, BotConfig{Chat: "1", Server: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	n := Notification{ID: "1", Text: "x", File: newDocument("zeros", zeros{}, tg.MaxFile())}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := tg.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; size < tg.MaxFile() || grown > 4<<20 {
		t.Errorf("%d bytes sent, %d allocated", size, grown)
	}
}

// A file that cannot be read fails the delivery, which is repeated.
func TestUnreadableFile(t *testing.T) {
	n := withReport("1")
	n.File.Content = bytes.NewReader(nil)
	err := newTelegram(t, newBotAPI(t), "1").Send(t.Context(), n)
	if _, refused := consume.Rejected(err); err == nil || refused {
		t.Errorf("error %v", err)
	}
}
