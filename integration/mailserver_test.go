package integration

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const mailPassword = `mail-"secret\key`

// mailServer has a mailbox of IMAP4rev1 and takes mails by SMTP, both over TLS.
type mailServer struct {
	imap, smtp, roots string

	mu       sync.Mutex
	box      []*boxMail
	sent     []*mail.Message
	bodies   []string
	problems []string
	refuse   bool // the password
	drop     int  // the next commands STORE after which the connection ends without a response
	stores   int
	conns    []net.Conn
}

type boxMail struct {
	uid     int
	raw     string
	seen    bool
	fetched int // how often all of it was read
	headers int // how often its header was read
}

func newMailServer(t *testing.T, dir string) *mailServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	s := &mailServer{roots: filepath.Join(dir, "roots.pem")}
	if err := os.WriteFile(s.roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	listen := func(serve func(net.Conn)) string {
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				s.mu.Lock()
				s.conns = append(s.conns, c)
				s.mu.Unlock()
				go func() { defer c.Close(); serve(c) }()
			}
		}()
		return l.Addr().String()
	}
	s.imap, s.smtp = listen(s.serveIMAP), listen(s.serveSMTP)
	return s
}

// deliver puts a mail into the mailbox.
func (s *mailServer) deliver(header, body string) *boxMail {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &boxMail{uid: 10 + len(s.box), raw: strings.ReplaceAll(header+"\n\n"+body, "\n", "\r\n")}
	s.box = append(s.box, m)
	return m
}

// disconnect ends all connections, so that the bot looks for mails again.
func (s *mailServer) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

var (
	fetchMail = regexp.MustCompile(`^UID FETCH (\d+) \(.*BODY\.PEEK\[(HEADER)?\].*\)$`)
	searchAll = regexp.MustCompile(`^UID SEARCH UNSEEN FROM (\S+)$`)
	storeSeen = regexp.MustCompile(`^UID STORE (\d+) \+FLAGS(?:\.SILENT)? \(\\Seen\)$`)
	listBoxes = regexp.MustCompile(`^LIST "" "?(\w*)"?$`)
)

func (s *mailServer) serveIMAP(c net.Conn) {
	in := bufio.NewReader(c)
	fmt.Fprint(c, "* OK [CAPABILITY IMAP4rev1] ready\r\n")
	login := `LOGIN "me" "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(mailPassword) + `"`
	authenticated, selected := false, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		tag, command, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), " ")
		ok := func(text string) { fmt.Fprintf(c, "%s%s OK done\r\n", text, tag) }
		s.mu.Lock()
		switch search, fetch, store := searchAll.FindStringSubmatch(command), fetchMail.FindStringSubmatch(command), storeSeen.FindStringSubmatch(command); {
		case command == login && s.refuse:
			fmt.Fprintf(c, "%s NO [AUTHENTICATIONFAILED] Invalid credentials\r\n", tag)
		case command == login:
			authenticated = true
			ok("* CAPABILITY IMAP4rev1 IDLE\r\n")
		case command == "SELECT INBOX" && authenticated:
			selected = true
			ok(fmt.Sprintf("* %d EXISTS\r\n* OK [UIDVALIDITY 7] valid\r\n* FLAGS (\\Seen)\r\n", len(s.box)))
		case strings.HasPrefix(command, "LSUB ") && authenticated:
			ok("")
		case listBoxes.MatchString(command) && authenticated:
			ok(fmt.Sprintf("* LIST () \"/\" %q\r\n", listBoxes.FindStringSubmatch(command)[1]))
		case command == "LOGOUT":
			ok("* BYE\r\n")
		case search != nil && selected:
			sender := strings.ToLower(strings.Trim(search[1], `"`))
			var list strings.Builder
			for _, m := range s.box {
				from, _, _ := strings.Cut(m.raw[strings.Index(m.raw, "From: "):], "\r\n")
				if !m.seen && strings.Contains(strings.ToLower(from), sender) {
					list.WriteString(" " + strconv.Itoa(m.uid))
				}
			}
			ok("* SEARCH" + list.String() + "\r\n")
		case fetch != nil && selected:
			uid, _ := strconv.Atoi(fetch[1])
			m := s.box[uid-10]
			text := m.raw
			if fetch[2] != "" {
				m.headers++
				header, _, _ := strings.Cut(m.raw, "\r\n\r\n")
				text = header + "\r\n\r\n"
			} else {
				m.fetched++
			}
			ok(fmt.Sprintf("* %d FETCH (UID %d RFC822.SIZE %d BODY[%s] {%d}\r\n%s FLAGS ())\r\n", uid-9, uid, len(m.raw), fetch[2], len(text), text))
		case store != nil && selected:
			uid, _ := strconv.Atoi(store[1])
			if s.stores++; s.drop > 0 {
				s.drop--
				s.mu.Unlock()
				return
			}
			s.box[uid-10].seen = true
			ok("")
		default:
			s.problems = append(s.problems, "IMAP "+command)
			fmt.Fprintf(c, "%s BAD no\r\n", tag)
		}
		s.mu.Unlock()
	}
}

func (s *mailServer) serveSMTP(c net.Conn) {
	in := bufio.NewReader(c)
	reply := func(text string) { fmt.Fprintf(c, "%s\r\n", text) }
	reply("220 test ESMTP")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch command, rest, _ := strings.Cut(strings.TrimSpace(line), " "); strings.ToUpper(command) {
		case "EHLO":
			reply("250-test\r\n250-8BITMIME\r\n250 AUTH PLAIN")
		case "AUTH":
			if _, login, _ := strings.Cut(rest, " "); login != base64.StdEncoding.EncodeToString([]byte("\x00me\x00"+mailPassword)) {
				reply("535 no")
				continue
			}
			reply("235 welcome")
		case "DATA":
			reply("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(strings.TrimPrefix(line, "."))
			}
			m, err := mail.ReadMessage(strings.NewReader(text.String()))
			s.mu.Lock()
			if err != nil {
				s.problems = append(s.problems, err.Error())
			} else {
				body, _ := io.ReadAll(quotedprintable.NewReader(m.Body))
				s.sent, s.bodies = append(s.sent, m), append(s.bodies, strings.TrimSpace(string(body)))
			}
			s.mu.Unlock()
			reply("250 taken")
		case "QUIT":
			reply("221 bye")
			return
		default:
			reply("250 ok")
		}
	}
}

// await waits until done returns true.
func (s *mailServer) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		ok := done()
		state := fmt.Sprintf("%q, problems %q", s.bodies, s.problems)
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s; sent %s", what, state)
		}
	}
}
