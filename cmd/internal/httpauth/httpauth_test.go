package httpauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
)

const (
	alice = "alice-token-0123456789"
	bob   = "bob-token-0123456789"
)

func serve(t *testing.T) string {
	t.Helper()
	g, err := httpauth.New(httpauth.Config{
		Tokens: map[string]string{alice: "alice", bob: "bob"}, Cookie: "test",
		Hosts: []string{"console.example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", httpauth.Identity(r.Context()))
	})))
	t.Cleanup(server.Close)
	return server.URL
}

func do(t *testing.T, method, url, host string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestGuard(t *testing.T) {
	url := serve(t)
	own := url
	for _, c := range []struct {
		name, method, host string
		header             map[string]string
		status             int
		body               string
	}{
		{"token", "GET", "", map[string]string{"Authorization": "Bearer " + alice}, 200, "hello alice"},
		{"other token", "POST", "", map[string]string{"Authorization": "bearer " + bob}, 200, "hello bob"},
		{"no token", "GET", "", nil, 401, ""},
		{"wrong token", "GET", "", map[string]string{"Authorization": "Bearer " + alice + "x"}, 401, ""},
		{"prefix of a token", "GET", "", map[string]string{"Authorization": "Bearer " + alice[:20]}, 401, ""},
		{"empty token", "GET", "", map[string]string{"Authorization": "Bearer "}, 401, ""},
		{"another scheme", "GET", "", map[string]string{"Authorization": "Basic " + alice}, 401, ""},
		{"token as cookie", "GET", "", map[string]string{"Cookie": "test_" + url[strings.LastIndex(url, ":")+1:] + "=" + alice}, 401, ""},
		{"localhost", "GET", "localhost:1234", map[string]string{"Authorization": "Bearer " + alice}, 200, ""},
		{"IPv6", "GET", "[::1]:1234", map[string]string{"Authorization": "Bearer " + alice}, 200, ""},
		{"allowed name", "GET", "Console.Example.com", map[string]string{"Authorization": "Bearer " + alice}, 200, ""},
		{"rebound name", "GET", "evil.example.com", map[string]string{"Authorization": "Bearer " + alice}, 421, ""},
		{"similar name", "GET", "localhost.evil.example.com", map[string]string{"Authorization": "Bearer " + alice}, 421, ""},
		{"name of digits", "GET", "127.0.0.1.evil.example.com", map[string]string{"Authorization": "Bearer " + alice}, 421, ""},
		{"another address", "GET", "10.0.0.1", map[string]string{"Authorization": "Bearer " + alice}, 421, ""},
		{"own origin", "POST", "", map[string]string{"Authorization": "Bearer " + alice, "Origin": own}, 200, ""},
		{"foreign origin", "POST", "", map[string]string{"Authorization": "Bearer " + alice, "Origin": "https://evil.example.com"}, 403, ""},
		{"foreign origin reads", "GET", "", map[string]string{"Authorization": "Bearer " + alice, "Origin": "https://evil.example.com"}, 403, ""},
		{"null origin", "GET", "", map[string]string{"Authorization": "Bearer " + alice, "Origin": "null"}, 403, ""},
		{"other port", "POST", "", map[string]string{"Authorization": "Bearer " + alice, "Origin": "http://127.0.0.1:1"}, 403, ""},
		{"cross-site", "POST", "", map[string]string{"Authorization": "Bearer " + alice, "Sec-Fetch-Site": "cross-site"}, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, body := do(t, c.method, url, c.host, c.header)
			if resp.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("got %d %q, want %d %q", resp.StatusCode, body, c.status, c.body)
			}
			if c.status != 200 && strings.Contains(body, "hello") {
				t.Errorf("the handler answered: %q", body)
			}
			if resp.Header.Get("Referrer-Policy") != "no-referrer" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers: %v", resp.Header)
			}
		})
	}
}

func TestTwoAuthorizationHeaders(t *testing.T) {
	r, _ := http.NewRequest("GET", serve(t), nil)
	r.Header["Authorization"] = []string{"Bearer " + alice, "Bearer " + bob}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 {
		t.Errorf("got %d, want 401", resp.StatusCode)
	}
}

func TestExchange(t *testing.T) {
	url := serve(t)
	resp, _ := do(t, "GET", url+"//evil.example.com/?view=calls&token="+alice, "", nil)
	if got := resp.Header.Get("Location"); resp.StatusCode != 303 || got != "/?view=calls" {
		t.Fatalf("got %d to %q, want 303 to /?view=calls", resp.StatusCode, got)
	}
	cookie := resp.Header.Get("Set-Cookie")
	if strings.Contains(cookie, alice) || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") {
		t.Errorf("cookie: %s", cookie)
	}
	value, _, _ := strings.Cut(cookie, ";")
	if resp, body := do(t, "GET", url, "", map[string]string{"Cookie": value}); resp.StatusCode != 200 || body != "hello alice" {
		t.Errorf("with the cookie: %d %q", resp.StatusCode, body)
	}
	if resp, _ := do(t, "GET", url+"/?token=wrong", "", nil); resp.StatusCode != 401 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("with a wrong token: %d %v", resp.StatusCode, resp.Header)
	}
	if resp, _ := do(t, "GET", url+"/?token="+alice, "evil.example.com", nil); resp.StatusCode != 421 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("with a rebound name: %d %v", resp.StatusCode, resp.Header)
	}
}

// Browsers send the cookies of a host to all of its ports: signing in to one endpoint must
// not sign the browser out of another one.
func TestTwoEndpointsOfOneHost(t *testing.T) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(url string) string {
		t.Helper()
		resp, err := browser.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	first, second := serve(t), serve(t)
	get(first + "/?token=" + alice)
	get(second + "/?token=" + bob)
	if a, b := get(first), get(second); a != "hello alice" || b != "hello bob" {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestNewRejects(t *testing.T) {
	for _, cfg := range []httpauth.Config{
		{},
		{Tokens: map[string]string{"": "x"}},
		{Tokens: map[string]string{"short": "x"}},
	} {
		if _, err := httpauth.New(cfg); err == nil {
			t.Errorf("New(%+v) succeeded", cfg)
		}
	}
}

func TestListen(t *testing.T) {
	l, err := httpauth.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Errorf("an address without a host listens on %s", l.Addr())
	}
	started := make(chan struct{})
	stop := httpauth.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done() // an endless stream
	}), func(err error) { t.Errorf("server failed: %v", err) })
	go func() { _, _ = http.Get("http://" + l.Addr().String()) }()
	<-started
	stop()
	for _, bad := range []string{"", "8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"} {
		if _, err := httpauth.Listen(t.Context(), bad); err == nil {
			t.Errorf("Listen(%q) succeeded", bad)
		}
	}
}

// Answers without a token are for this machine's own names, if the request arrives on
// loopback: a page whose name points here gets nothing.
func TestPublic(t *testing.T) {
	srv := httptest.NewServer(httpauth.Public(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })))
	defer srv.Close()
	for host, want := range map[string]int{"": 204, "localhost:1": 204, "[::1]": 204, "evil.example": 421, "evil.example:80": 421, "10.0.0.1": 421} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%q: status %d, want %d", host, res.StatusCode, want)
		}
	}
}
