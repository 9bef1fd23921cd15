package channel

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// The agent gets the text of a mail and its files, from whatever program sent it.
func TestMailParts(t *testing.T) {
	parts := "Content-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: multipart/alternative; boundary=\"A A\"\n\n" +
		"--A A\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nGr=FC=DFe=\n!\n" +
		"--A A\nContent-Type: text/html\n\n<b>no</b>\n--A A--\n" +
		"--B\nContent-Type: text/csv; name=\"=?utf-8?q?pr=C3=A4.csv?=\"\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\nYSxi\n--B\nContent-Type: image/png\nContent-Disposition: attachment\n\nX\n--B--\n"
	for name, test := range map[string]struct {
		raw, text, context string
		files              []string // name=content
	}{
		"plain":         {"Subject: =?utf-8?b?SGkg8J+YgA==?=\n\nhello\nyou", "hello\nyou", "Subject: Hi 😀", nil},
		"reply":         {"Subject: Re: x\nIn-Reply-To: <1@x>\n\nyes\n\nOn Monday, the bot wrote:\n> May it run?\n>\n> more\n", "yes", "", nil},
		"inline reply":  {"In-Reply-To: <1@x>\n\n> first?\n\nno\n\n> second?\n\nyes", "> first?\n\nno\n\n> second?\n\nyes", "", nil},
		"only a quote":  {"In-Reply-To: <1@x>\n\n> first?\n", "> first?", "", nil},
		"parts":         {parts, "Grüße!", "", []string{"prä.csv=a,b", "file.png=X"}},
		"only HTML":     {"Content-Type: text/html\n\n<b>hi</b>", "", "", []string{"message.html=<b>hi</b>"}},
		"bad charset":   {"Content-Type: text/plain; charset=klingon\n\nh\xffi", "h\ufffdi", "", nil},
		"bad base64":    {"Content-Transfer-Encoding: base64\n\n!!!", "", "", nil},
		"no boundary":   {"Content-Type: multipart/mixed\n\nhello", "", "", nil},
		"bad type":      {"Content-Type: ;;;\n\nhello", "", "", nil},
		"a long header": {"Subject: " + strings.Repeat("x", 5000) + "\n\nhi", "hi", "", nil},
		"nested too deep": {strings.Repeat("Content-Type: multipart/mixed; boundary=B\n\n--B\n", 20) + "\n\nhi",
			"", "", nil},
		"no mail": {"hello", "", "", nil},
	} {
		m := parseMail([]byte(strings.ReplaceAll(test.raw, "\n", "\r\n")))
		var files []string
		for _, f := range m.Files {
			content, err := f.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			data, _ := io.ReadAll(content)
			files = append(files, f.Name+"="+string(data))
		}
		if test.context == "" && strings.HasPrefix(m.Context, "Subject: xxx") && len(m.Context) < 1100 {
			m.Context = ""
		}
		if m.Text != test.text || m.Context != test.context || !slices.Equal(files, test.files) {
			t.Errorf("%s: text %q, context %q, files %q", name, m.Text, m.Context, files)
		}
	}
	many := "Content-Type: multipart/mixed; boundary=B\r\n\r\n" + strings.Repeat("--B\r\nContent-Disposition: attachment\r\n\r\nx\r\n", 10_000)
	if n := len(parseMail([]byte(many)).Files); n > maxMailParts {
		t.Errorf("%d files", n)
	}
}

// Only the server of the mailbox says whether a sender is authentic, and its author cannot
// make it say so.
func TestSenders(t *testing.T) {
	e, err := NewEmail(EmailConfig{Host: "mail.example.com", From: "bot@example.com", To: []string{"Ann Smith <Ann@example.com>"}, AuthServ: "mx.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.CheckChat("Ann@example.com"); err != nil {
		t.Error(err)
	}
	for header, want := range map[string]string{
		"From: Ann <ann@EXAMPLE.com>\nAuthentication-Results: mx.example.com; spf=fail; dmarc=pass (p=none; x (y)) header.from=example.com": "",
		"From: ann@example.com\nAuthentication-Results: MX.example.com 1;\n  dmarc=pass":                                                    "",
		"From: ann@example.com": "dmarc=pass",
		"From: ann@example.com\nAuthentication-Results: mx.example.com; dmarc=fail\nAuthentication-Results: mx.example.com; dmarc=pass": "dmarc=pass",
		"From: ann@example.com\nAuthentication-Results: evil.example; dmarc=pass":                                                       "dmarc=pass",
		"From: ann@example.com\nAuthentication-Results: mx.example.com; dmarc=fail; dmarc=pass":                                         "dmarc=pass",
		"From: ann@example.com\nAuthentication-Results: mx.example.com; spf=pass (; dmarc=pass)":                                        "dmarc=pass",
		"From: ann@example.com\nAuthentication-Results: mx.example.com; spf=pass smtp.mailfrom=\"a;\\\"; dmarc=pass\"@x":                "dmarc=pass",
		"From: ann@example.com, eve@example.com\nAuthentication-Results: mx.example.com; dmarc=pass":                                    "one sender",
		"From: ann@example.com\nFrom: eve@evil.example\nAuthentication-Results: mx.example.com; dmarc=pass":                             "one sender",
		"From: \"ann@example.com\" <eve@evil.example>\nAuthentication-Results: mx.example.com; dmarc=pass":                              "not in the setting to",
		"Precedence: bulk\nFrom: ann@example.com\nAuthentication-Results: mx.example.com; dmarc=pass":                                   "a program sent it",
		"List-Id: <x>\nFrom: ann@example.com\nAuthentication-Results: mx.example.com; dmarc=pass":                                       "a program sent it",
		"Auto-Submitted: auto-generated\nFrom: ann@example.com\nAuthentication-Results: mx.example.com; dmarc=pass":                     "a program sent it",
		"hello": "cannot be read",
	} {
		chat, reason := e.sender([]byte(strings.ReplaceAll(header+"\n\n", "\n", "\r\n")))
		if want == "" && (reason != "" || chat != "Ann@example.com") || want != "" && !strings.Contains(reason, want) {
			t.Errorf("%q: %q, %q, want %q", header, chat, reason, want)
		}
	}
}

func TestMailIDs(t *testing.T) {
	for id, want := range map[string]bool{" <a.b@x> ": true, "a@x": false, "<a@x>\r\nBcc: <y@z>": false, "<a b@x>": false, "<" + strings.Repeat("x", 600) + ">": false, "": false} {
		if got := mailID(id) != ""; got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

func TestSearchFrom(t *testing.T) {
	for want, addresses := range map[string][]string{
		` FROM "a@x"`: {"a@x"},
		` OR FROM "a@x" OR FROM "b@x" FROM "c@x"`: {"a@x", "b@x", "c@x"},
		` FROM "\"a\\\\b\"@x"`:                    {`"a\\b"@x`},
		"":                                        {"a@x", "jörg@x"},
	} {
		if got := searchFrom(addresses); got != want {
			t.Errorf("%q: %s, want %s", addresses, got, want)
		}
	}
}
