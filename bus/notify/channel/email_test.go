package channel

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
)

// smtpServer accepts mail as in RFC 5321, except for the commands in refuse.
type smtpServer struct {
	addr   string
	refuse map[string]string // command to reply, used once

	mu     sync.Mutex
	mails  []string
	logins []string
}

func newSMTP(t *testing.T, refuse map[string]string) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveSMTP(t, l, refuse)
}

func serveSMTP(t *testing.T, l net.Listener, refuse map[string]string) *smtpServer {
	t.Helper()
	s := &smtpServer{addr: l.Addr().String(), refuse: refuse}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends Accept
		group.Wait()
	})
	return s
}

func (s *smtpServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(c)
	reply := func(text string) { _, _ = fmt.Fprintf(c, "%s\r\n", text) }
	reply("220 test ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		command := strings.ToUpper(strings.Fields(line + " x")[0])
		s.mu.Lock()
		refusal, refused := s.refuse[command]
		delete(s.refuse, command)
		s.mu.Unlock()
		switch {
		case refused && refusal == "":
			return // hangs up
		case refused:
			reply(refusal)
		case command == "EHLO":
			reply("250-test\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN")
		case command == "DATA":
			reply("354 go on")
			var mail strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				mail.WriteString(strings.TrimPrefix(line, "."))
			}
			s.mu.Lock()
			s.mails = append(s.mails, mail.String())
			s.mu.Unlock()
			reply("250 taken")
		case command == "AUTH":
			s.mu.Lock()
			s.logins = append(s.logins, strings.TrimSpace(line))
			s.mu.Unlock()
			reply("235 welcome")
		case command == "QUIT":
			reply("221 bye")
			return
		default:
			reply("250 ok")
		}
	}
}

func newEmail(t *testing.T, s *smtpServer) *Email {
	t.Helper()
	e, err := NewEmail(EmailConfig{Host: s.addr, TLS: "none", From: "stevedore@example.com", To: []string{"me@example.com", "you@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEmailSends(t *testing.T) {
	s := newSMTP(t, map[string]string{"RSET": "421 going down", "QUIT": ""}) // they fail after the server accepted the mail
	e := newEmail(t, s)
	n := Notification{ID: "result.s.c", Call: "message-<1@x>\r\nBcc: evil@example.com", Text: " \nline\tone\r\n.\nline two ü\rBcc: x@example.com", At: time.Now()}
	for range 2 {
		if err := e.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	n.ChatID, n.Call = "you@example.com", "message-<1@x>"
	if err := e.Send(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mails) != 3 {
		t.Fatalf("%d mails", len(s.mails))
	}
	header, body, _ := strings.Cut(s.mails[0], "\r\n\r\n")
	for _, want := range []string{"To: <me@example.com>, <you@example.com>", "Auto-Submitted: auto-generated", "Subject: line one\r\n"} {
		if !strings.Contains(header, want) {
			t.Errorf("header lacks %q:\n%s", want, header)
		}
	}
	if strings.Contains(header, "\nBcc:") || strings.Contains(header, "In-Reply-To") || !strings.HasPrefix(body, "=20\r\nline\tone\r\n.\r\nline two =C3=BCBcc:") {
		t.Errorf("mail:\n%s", s.mails[0])
	}
	if !strings.Contains(s.mails[2], "\nIn-Reply-To: <1@x>\r\n") || !strings.Contains(s.mails[2], "\nReferences: <1@x>\r\n") {
		t.Errorf("the mail does not answer another one:\n%s", s.mails[2])
	}
	if id := messageID(s.mails[0]); id == "" || id != messageID(s.mails[1]) {
		t.Errorf("message ids %q, %q", id, messageID(s.mails[1]))
	}
	if !strings.Contains(s.mails[2], "To: <you@example.com>\r\n") {
		t.Errorf("mail:\n%s", s.mails[2])
	}
}

func messageID(mail string) string {
	_, rest, _ := strings.Cut(mail, "Message-ID: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	return id
}

func TestEmailClassifies(t *testing.T) {
	for _, test := range []struct{ command, reply, want string }{
		{"RCPT", "550 no such user", "refused_550"},
		{"RCPT", "451 try later", "again"},
		{"DATA", "552 too much mail", "refused_552"},
		{"MAIL", "421 going down", "again"},
		{"DATA", "", "again"},
	} {
		s := newSMTP(t, map[string]string{test.command: test.reply})
		e := newEmail(t, s)
		err := e.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()})
		got := "again"
		if code, ok := consume.Rejected(err); ok {
			got = code
		}
		if err == nil || got != test.want {
			t.Errorf("%s %s: %s, want %s (%v)", test.command, test.reply, got, test.want, err)
		}
		if err := e.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()}); err != nil {
			t.Errorf("%s: again: %v", test.command, err)
		}
	}
	s := newSMTP(t, nil)
	if code, _ := consume.Rejected(newEmail(t, s).Send(t.Context(), Notification{Text: "x", ChatID: "victim@example.com"})); code != "refused_chat" {
		t.Errorf("to another address: %q", code)
	}
	// The channel sends no password without TLS.
	for _, tls := range []string{"none", "starttls"} {
		e, err := NewEmail(EmailConfig{Host: s.addr, TLS: tls, User: "me", Password: "hook-secret-key", From: "a@example.com", To: []string{"b@example.com"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Send(t.Context(), Notification{Text: "x"}); err == nil || strings.Contains(err.Error(), "hook-secret-key") {
			t.Errorf("%s: %v", tls, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mails) > 0 {
		t.Errorf("sent %q", s.mails)
	}
}

// With TLS "ssl", the login is encrypted. A mail waits for a password that is accepted.
func TestEmailLogsInOverTLS(t *testing.T) {
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	s := serveSMTP(t, l, map[string]string{"AUTH": "534 5.7.9 application-specific password required"})
	e, err := NewEmail(EmailConfig{Host: s.addr, TLS: "ssl", User: "me", Password: "hook-secret-key", From: "a@example.com", To: []string{"b@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()}); err == nil {
		t.Error("sent to a server with an unknown certificate")
	}
	e.roots = x509.NewCertPool()
	e.roots.AddCert(certified.Certificate())
	err = e.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()})
	if _, refused := consume.Rejected(err); err == nil || refused {
		t.Errorf("a mail whose password is refused does not wait for another one: %v", err)
	}
	if err := e.Send(t.Context(), Notification{ID: "1", Text: "x", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00me\x00hook-secret-key")); len(s.mails) != 1 || len(s.logins) != 1 || s.logins[0] != want {
		t.Errorf("mails %q, logins %q", s.mails, s.logins)
	}
}

// Only an id that is safe in a header is one.
func TestMailIDs(t *testing.T) {
	for id, want := range map[string]bool{" <a.b@x> ": true, "a@x": false, "<a@x>\r\nBcc: <y@z>": false, "<a b@x>": false, "<" + strings.Repeat("x", 600) + ">": false, "": false} {
		if got := mailID(id) != ""; got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
