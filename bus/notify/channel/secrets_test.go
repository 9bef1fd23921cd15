package channel

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// echo fails every request with a response that contains the request in many
// encodings, after a number of other characters.
func echo(t *testing.T, before int) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var said strings.Builder
		said.WriteString(strings.Repeat("-", before))
		all := []string{r.URL.String(), r.URL.Path, fmt.Sprint(r.Header), string(body)}
		for _, values := range r.Header {
			all = append(all, values...)
		}
		if user, password, ok := r.BasicAuth(); ok {
			all = append(all, user+":"+password, password)
		}
		for _, text := range all {
			quoted, _ := json.Marshal(text)
			for _, form := range []string{text, string(quoted), html.EscapeString(text), url.QueryEscape(text), base64.StdEncoding.EncodeToString([]byte(text))} {
				said.WriteString(form + " ")
			}
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, said.String())
	}))
	t.Cleanup(s.Close)
	return s
}

// No channel's error contains a credential, wherever the request had it and
// however the receiver repeats it.
func TestNoErrorNamesASecret(t *testing.T) {
	const secret = `s3cr3t&<k"ey>/+`
	env := Env{
		LookupEnv: func(name string) (string, bool) {
			return map[string]string{"SECRET": secret, "SHORT": "12345:AAs3cr3t-key", "WHSEC": testSecret}[name], true
		},
	}
	for _, before := range []int{0, 200, 270, 280, 285, 290, 295} { // the error is cut within a credential
		s := echo(t, before)
		host := strings.TrimPrefix(s.URL, "http://")
		hookURL := s.URL + "/services/" + url.PathEscape(secret) + "?key=" + url.QueryEscape(secret)
		env.ReadFile = func(name string) ([]byte, error) {
			if name == "template" {
				return []byte(`{"token":"s3cr3t-in-the-template","text":{{json .Text}}}`), nil
			}
			return []byte(hookURL), nil
		}
		withUser := "http://me:" + url.QueryEscape(secret) + "@" + host
		for _, spec := range []string{
			"webhook:url=" + withUser + "/in,secret=env:WHSEC", "webhook:url=file:url", "slack:url=file:url", "discord:url=file:url", "mattermost:url=file:url",
			"ntfy:url=" + s.URL + "/topic,token=env:SECRET", "ntfy:url=" + withUser + "/topic", "gotify:url=" + s.URL + ",token=env:SECRET",
			"http:url=" + s.URL + "/in?auth=" + url.QueryEscape(secret) + ",token=env:SECRET,template=template",
			"telegram:token=env:SHORT,chat=1,server=" + s.URL,
		} {
			c, err := Open(spec, env)
			if err != nil {
				t.Fatalf("%s: %v", spec, err)
			}
			err = c.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()})
			if err == nil {
				t.Fatalf("%s: no error", spec)
			}
			checkNoSecret(t, spec, err.Error())
			if len(err.Error()) > 1000 {
				t.Errorf("%s: an error of %d bytes", spec, len(err.Error()))
			}
		}
	}
}

func checkNoSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, part := range []string{"s3cr3t", base64.StdEncoding.EncodeToString([]byte("me:s3cr3t")), "czNjcjN0", strings.TrimPrefix(testSecret, "whsec_")} {
		if strings.Contains(text, part) {
			t.Errorf("%s: %q is in %s", what, part, text)
		}
	}
}

// A mail server may repeat the login.
func TestNoMailErrorNamesTheLogin(t *testing.T) {
	login := base64.StdEncoding.EncodeToString([]byte("\x00me\x00s3cr3t-key"))
	for _, said := range []string{"s3cr3t-key", login, "AUTH PLAIN " + login, base64.StdEncoding.EncodeToString([]byte("s3cr3t-key"))} {
		e, err := NewEmail(EmailConfig{Host: "mail.example:25", User: "me", Password: "s3cr3t-key", From: "a@example.com", To: []string{"b@example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		if text := e.classify(fmt.Errorf("535 no: %s", said)).Error(); strings.Contains(text, "s3cr3t") || strings.Contains(text, said) || !strings.Contains(text, "535 no") {
			t.Errorf("%q becomes %s", said, text)
		}
	}
}
