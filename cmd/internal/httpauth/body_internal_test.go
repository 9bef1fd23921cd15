package httpauth

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A body that does not arrive holds no connection, with and without a token. A request whose
// body arrived may take any time.
func TestSlowBodies(t *testing.T) {
	bodyGrace = 300 * time.Millisecond
	t.Cleanup(func() { bodyGrace = 30 * time.Second })
	const token = "alice-token-0123456789"
	g, err := New(Config{Tokens: map[string]string{token: "alice"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	readErr := make(chan error, 2)
	stop := Serve(l, g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		readErr <- err
		if string(body) != "whole" {
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(3 * bodyGrace):
			_, _ = io.WriteString(w, "answered")
		}
	})), func(err error) { t.Error(err) })
	defer stop()

	send := func(token string, length int, body string) (answer string, err error) {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute)) // a TCP connection has deadlines
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", token, length, body)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			_, err = io.Copy(io.Discard, c) // until the server closes the connection
		}
		return resp.Status + " " + string(text), err
	}
	if answer, err := send("wrong-token-0123456789", 100, "{"); err != nil || !strings.HasPrefix(answer, "401") {
		t.Errorf("without a token: %q, %v; want 401 and the end of the connection", answer, err)
	}
	if answer, err := send(token, 100, "{"); err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Errorf("a part of the body: %q, %v; want the end of the connection", answer, err)
	}
	if err := <-readErr; err == nil {
		t.Error("the handler got a part of the body as the whole")
	}
	if answer, err := send(token, 5, "whole"); err != nil || !strings.HasSuffix(answer, "answered") {
		t.Errorf("the whole body: %q, %v", answer, err)
	}
	if err := <-readErr; err != nil {
		t.Error(err)
	}
}
