package channel

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A command for another bot of the group is not for this one. If the server does not know
// getMe, all commands are; while it is down, nobody decides.
func TestCommandsForOtherBots(t *testing.T) {
	answer := ""
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/bot"+testToken+"/getMe" {
			t.Errorf("request for %s", r.URL.Path)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(api.Close)
	tg, err := NewTelegram(testToken, BotConfig{Server: api.URL, Chat: "42"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string, want, fails bool) {
		t.Helper()
		if other, err := tg.isForOtherBot(t.Context(), text); other != want || (err != nil) != fails {
			t.Errorf("%q with %s: %v, %v", text, answer, other, err)
		}
	}
	answer = `{"ok":false,"error_code":502,"description":"Bad Gateway"}`
	check("/stop@other_bot", false, true)
	check("/stop", false, false) // without a request
	answer = `{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":300}}`
	check("/stop@other_bot", false, true)
	for _, answer = range []string{`{"ok":false,"error_code":404,"description":"Not Found: method not found"}`, `{"ok":true,"result":true}`} {
		check("/stop@other_bot", false, false)
	}
	answer = `{"ok":true,"result":{"id":1,"is_bot":true,"username":"The_Bot"}}`
	check("/stop@other_bot", true, false)
	check("/new@other_bot an idea", true, false)
	answer = "the name is known now"
	check("/stop@the_bot", false, false)
	check("/stop@other_bot", true, false)
	for _, text := range []string{"/stop", "write to me@example.com", "/dir/x@other_bot", "/new ask @other_bot", ""} {
		check(text, false, false)
	}
}
