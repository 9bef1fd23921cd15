package channel

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stevedore-bus/stevedore/bus/consume"
)

const testToken = "123456:AAhook-secret-key"

// botAPI answers sendMessage and sendDocument as the Bot API does.
type botAPI struct {
	*httptest.Server
	mu      sync.Mutex // a response may still be running after the client has given up
	got     []map[string]string
	answers []string // used up one by one; then success
}

func newBotAPI(t *testing.T, answers ...string) *botAPI {
	t.Helper()
	api := &botAPI{answers: answers}
	api.Server = httptest.NewServer(api)
	t.Cleanup(api.Close)
	return api
}

func (api *botAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/bot"+testToken+"/sendMessage" && r.URL.Path != "/bot"+testToken+"/sendDocument" {
		http.Error(w, `{"ok":false,"error_code":404,"description":"Not Found"}`, http.StatusNotFound)
		return
	}
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fields := map[string]string{}
	for name, values := range r.MultipartForm.Value {
		fields[name] = values[0]
	}
	for _, files := range r.MultipartForm.File {
		file, err := files[0].Open()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		data, _ := io.ReadAll(file)
		_ = file.Close() // it was only read
		fields["file "+files[0].Filename] = string(data)
	}
	api.mu.Lock()
	defer api.mu.Unlock()
	api.got = append(api.got, fields)
	if len(api.answers) > 0 {
		answer := api.answers[0]
		api.answers = api.answers[1:]
		if answer == "" {
			panic(http.ErrAbortHandler)
		}
		var code struct {
			ErrorCode int `json:"error_code"`
		}
		if err := json.Unmarshal([]byte(answer), &code); err == nil && code.ErrorCode > 0 {
			w.WriteHeader(code.ErrorCode)
		}
		_, _ = fmt.Fprint(w, answer)
		return
	}
	_, _ = fmt.Fprintf(w, `{"ok":true,"result":{"message_id":%d,"date":1,"chat":{"id":42,"type":"private"}}}`, len(api.got))
}

func newTelegram(t *testing.T, api *botAPI, chat string) *Telegram {
	t.Helper()
	tg, err := NewTelegram(testToken, BotConfig{Chat: chat, Allow: "*", Server: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

func TestTelegramSends(t *testing.T) {
	api := newBotAPI(t)
	tg := newTelegram(t, api, "42")
	text := strings.Repeat("😀 *not markup* <b>\n", 600)
	if err := tg.Send(t.Context(), Notification{ID: "1", Text: text}); err != nil {
		t.Fatal(err)
	}
	if err := tg.Send(t.Context(), Notification{ID: "2", Text: "hi", ChatID: "@mine"}); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range api.got[:len(api.got)-1] {
		if units := len(utf16.Encode([]rune(m["text"]))); units > telegramLimit || m["chat_id"] != "42" || m["parse_mode"] != "" {
			t.Errorf("%d units to %q, %q", units, m["chat_id"], m["parse_mode"])
		}
		all = append(all, m["text"])
	}
	if strings.Join(all, "\n")+"\n" != text {
		t.Error("the parts are not the text")
	}
	if last := api.got[len(api.got)-1]; last["chat_id"] != "@mine" || last["text"] != "hi" {
		t.Errorf("last %v", last)
	}
}

func TestTelegramClassifies(t *testing.T) {
	for answer, want := range map[string]string{
		`{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}`:                                                  "refused_403",
		`{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`:                                                             "refused_400",
		`{"ok":false,"error_code":401,"description":"Unauthorized"}`:                                                                            "again",
		`{"ok":false,"error_code":404,"description":"Not Found"}`:                                                                               "again",
		`{"ok":false,"error_code":404,"description":"Not Found: method not found"}`:                                                             "refused_404",
		`{"ok":false,"error_code":400,"description":"Bad Request: group upgraded","parameters":{"migrate_to_chat_id":-100}}`:                    "chat_moved",
		`{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 5","parameters":{"retry_after":5}}`:                         "after 5s",
		`{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 9999999999999","parameters":{"retry_after":9999999999999}}`: "after 1h0m0s",
		`{"ok":false,"error_code":502,"description":"Bad Gateway"}`:                                                                             "again",
		`<html>`: "again",
		``:       "again",
	} {
		api := newBotAPI(t, answer)
		tg := newTelegram(t, api, "42")
		err := tg.Send(t.Context(), Notification{ID: "1", Text: "x"})
		if err == nil {
			t.Errorf("%s: no error", answer)
			continue
		}
		got := "again"
		if code, ok := consume.Rejected(err); ok {
			got = code
		} else if pause, ok := consume.Postponed(err); ok {
			got = "after " + pause.Round(time.Second).String()
		}
		if got != want || strings.Contains(err.Error(), "hook-secret-key") {
			t.Errorf("%s: %s, want %s (%v)", answer, got, want, err)
		}
		if err := tg.Send(t.Context(), Notification{ID: "1", Text: "x"}); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	api := newBotAPI(t)
	if err := newTelegram(t, api, "").Send(t.Context(), Notification{Text: "x"}); err == nil {
		t.Error("sent without a chat")
	}
	api.Close()
	if err := newTelegram(t, api, "1").Send(t.Context(), Notification{Text: "x"}); err == nil || strings.Contains(err.Error(), "hook-secret-key") {
		t.Errorf("unreachable: %v", err)
	}
}

// Each request to the Bot API ends, also if the server never answers.
func TestTelegramRequestsHaveATimeout(t *testing.T) {
	api := newBotAPI(t)
	tg := newTelegram(t, api, "42")
	limits := map[string]time.Duration{}
	tg.api.client = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if deadline, ok := r.Context().Deadline(); ok {
			limits[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]] = time.Until(deadline).Round(time.Second)
		}
		return transport.RoundTrip(r)
	})}
	_, _ = tg.ShowDraft(t.Context(), "42", "", Draft{})
	_, _ = tg.ShowDraft(t.Context(), "42", "7", Draft{Text: "x"})
	_ = tg.RemoveDraft(t.Context(), "42", "7")
	_, _ = tg.updates(t.Context(), 0)
	want := map[string]time.Duration{"sendChatAction": sendTimeout, "editMessageText": sendTimeout, "deleteMessage": sendTimeout, "getUpdates": sendTimeout + pollTimeout}
	if !maps.Equal(limits, want) {
		t.Errorf("limits %v, want %v", limits, want)
	}
}

// The transport of a bot sends all its requests, downloads too.
func TestTelegramOverATransport(t *testing.T) {
	t.Parallel()
	var paths []string
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		paths = append(paths, r.URL.Path)
		body := `{"ok":true,"result":{"file_path":"a.txt"}}`
		if strings.HasPrefix(r.URL.Path, "/file/") {
			body = "hello"
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})
	tg, err := NewTelegram("token", BotConfig{Chat: "1", Server: "http://bots.invalid", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	files := tg.files(&telegramMessage{Document: &telegramFile{ID: "1", Name: "a.txt"}})
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	data, err := files[0].Read(t.Context())
	if want := []string{"/bottoken/getFile", "/file/bottoken/a.txt"}; err != nil || string(data) != "hello" || !slices.Equal(paths, want) {
		t.Errorf("%q, %v, over %q", data, err, paths)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
