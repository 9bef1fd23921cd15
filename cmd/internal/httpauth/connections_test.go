package httpauth_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
)

// listen serves a guarded endpoint as the programs do, and returns its address.
func listen(t *testing.T) string {
	t.Helper()
	g, err := httpauth.New(httpauth.Config{Tokens: map[string]string{alice: "alice"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := httpauth.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpauth.Serve(l, g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})), func(err error) { t.Error(err) }))
	return l.Addr().String()
}

// client is one connection.
type client struct {
	net.Conn
	*bufio.Reader
}

func connect(t *testing.T, address string) client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Skipf("this system allows too few open files: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{c, bufio.NewReader(c)}
}

// ask sends a request with headers that end with "\r\n".
func (c client) ask(headers string) {
	fmt.Fprintf(c.Conn, "GET / HTTP/1.1\r\n%s\r\n", headers) // an error shows in the answer
}

// answer returns the status of the next answer, and whether the server says that it closes the
// connection.
func (c client) answer() (status int, closes bool, err error) {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Close, err
}

const withToken = "Host: localhost\r\nAuthorization: Bearer " + alice + "\r\n"

// The server closes the connection of a client that it refuses, and keeps that of one that it
// serves.
func TestRefusedClientsHoldNoConnection(t *testing.T) {
	address := listen(t)
	for name, c := range map[string]struct {
		headers string
		status  int
	}{
		"no token":      {"Host: localhost\r\n", http.StatusUnauthorized},
		"a wrong token": {"Host: localhost\r\nAuthorization: Bearer x\r\n", http.StatusUnauthorized},
		"another name":  {"Host: evil.example.com\r\n", http.StatusMisdirectedRequest},
		"another page":  {withToken + "Origin: https://evil.example.com\r\nSec-Fetch-Site: cross-site\r\n", http.StatusForbidden},
	} {
		conn := connect(t, address)
		conn.ask(c.headers + "Connection: keep-alive\r\n")
		if status, closes, err := conn.answer(); status != c.status || !closes || err != nil {
			t.Errorf("%s: status %d, closes %t, %v; want status %d and the end of the connection", name, status, closes, err, c.status)
		} else if rest, err := io.ReadAll(conn.Reader); len(rest) > 0 || err != nil {
			t.Errorf("%s: after the answer: %q, %v; want the end of the connection", name, rest, err)
		}
	}
	conn := connect(t, address)
	for range 2 {
		conn.ask(withToken)
		if status, closes, err := conn.answer(); status != http.StatusOK || closes || err != nil {
			t.Errorf("with the token: status %d, closes %t, %v", status, closes, err)
		}
	}
}

// If 1,000 clients are connected, the next one waits until one of them leaves.
func TestConnectionLimit(t *testing.T) {
	address := listen(t)
	var first client
	for i := range 1000 {
		c := connect(t, address)
		c.ask(withToken)
		if status, _, err := c.answer(); status != http.StatusOK {
			t.Fatalf("client %d: status %d, %v", i, status, err)
		}
		if i == 0 {
			first = c
		}
	}
	next := connect(t, address)
	next.ask(withToken)
	_ = next.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := next.Peek(1); err == nil {
		t.Fatal("client 1,001 was served while 1,000 others were connected")
	}
	_ = first.Close()
	next.Reader.Reset(next.Conn)
	if status, _, err := next.answer(); status != http.StatusOK || err != nil {
		t.Errorf("after one left: status %d, %v", status, err)
	}
}
