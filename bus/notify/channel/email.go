package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/tools"
)

// EmailConfig configures an e-mail channel. Host, From and To are required.
type EmailConfig struct {
	// Host is HOST:PORT of the SMTP server. The default port is 587, or 465 with
	// TLS "ssl".
	Host string
	// TLS is "starttls" (default; the server must offer it), "ssl" or "none".
	// Without TLS, the channel sends no password.
	TLS string
	// User and Password are the login. Empty means no login.
	User, Password string
	// From is the sender, To the recipients. The ChatID of a notification selects
	// one of them by its address. Other recipients are refused, since any client can set a ChatID.
	From string
	To   []string
}

// Email sends notifications by SMTP. The Message-ID is the same for every
// attempt, so that mail systems which check it show a notification once.
type Email struct {
	chats
	cfg     EmailConfig
	host    string
	opts    []gomail.Option
	roots   *x509.CertPool // nil is the system's
	secrets secrets
}

// NewEmail returns an e-mail channel. It does not connect.
func NewEmail(cfg EmailConfig) (*Email, error) {
	e := &Email{
		chats: chats{kind: "email", toAll: true}, cfg: cfg, opts: []gomail.Option{gomail.WithTimeout(sendTimeout)},
		// The last two are the arguments of AUTH PLAIN and LOGIN.
		secrets: secretsOf(nil, cfg.Password, "\x00"+cfg.User+"\x00"+cfg.Password),
	}
	port := 587
	switch cfg.TLS {
	case "", "starttls":
		e.opts = append(e.opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case "ssl":
		// dial uses TLS, so go-mail treats the connection as secure.
		port = 465
		e.opts = append(e.opts, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	case "none":
		e.opts = append(e.opts, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		return nil, fmt.Errorf("email: tls %q: want starttls, ssl or none", tools.Excerpt(cfg.TLS, 20))
	}
	e.host = cfg.Host
	if host, given, err := net.SplitHostPort(cfg.Host); err == nil {
		e.host = host
		if port, err = strconv.Atoi(given); err != nil {
			return nil, errors.New("email: host: want HOST:PORT")
		}
	}
	e.opts = append(e.opts, gomail.WithPort(port))
	if cfg.User != "" {
		e.opts = append(e.opts, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(cfg.User), gomail.WithPassword(cfg.Password))
	}
	if len(cfg.To) == 0 {
		return nil, errors.New("email: want at least one recipient")
	}
	for i, address := range append([]string{cfg.From}, cfg.To...) {
		parsed, err := mail.ParseAddress(address)
		if err != nil {
			return nil, fmt.Errorf("email: %q is not an address", tools.Excerpt(address, 80))
		}
		if i > 0 { // without a name: it is compared with the senders of mails
			e.allow = append(e.allow, parsed.Address)
		}
	}
	if _, err := gomail.NewClient(e.host, e.opts...); err != nil {
		return nil, fmt.Errorf("email: %s", e.secrets.hide(err.Error()))
	}
	return e, nil
}

// maxSubject bounds a subject, in bytes.
const maxSubject = 200

// MayReceive implements Receiving. Addresses are the same in upper and lower case. Whether a
// sender is authentic is for the program that reads the mailbox.
func (e *Email) MayReceive(address string) (string, bool) {
	i := slices.IndexFunc(e.allow, func(to string) bool { return strings.EqualFold(to, address) })
	if i < 0 {
		return address, false
	}
	return e.allow[i], true
}

// MaxFile implements FileChannel. Many servers take mails of 25 MB.
func (e *Email) MaxFile() int64 { return 20 << 20 }

// Send sends n as one plain text mail, with its file. If the server refuses the file, it sends
// the text alone.
func (e *Email) Send(ctx context.Context, n Notification) error {
	chat, err := e.destination(n)
	if err != nil {
		return err
	}
	to := e.allow
	if chat != "" {
		to = []string{chat}
	}
	m := gomail.NewMsg()
	if err := errors.Join(m.From(e.cfg.From), m.To(to...)); err != nil {
		return consume.Reject("unsendable", fmt.Errorf("send by %s: %w", e.host, err))
	}
	text := chatText(n, false).Plain().Text
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	m.Subject(tools.Excerpt(tools.OneLine(first), maxSubject))
	if call, ok := strings.CutPrefix(n.Call, "message-"); ok && mailID(call) != "" {
		m.SetGenHeader(gomail.HeaderInReplyTo, call)
		m.SetGenHeader(gomail.HeaderReferences, call)
	}
	m.SetDateWithValue(n.At)
	m.SetMessageIDWithValue(tools.Token(n.ID) + "@stevedore." + e.host)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, text+"\n")
	timeout := timeoutOf(0)
	if n.File != nil {
		m.AttachReadSeeker(n.File.Name, n.File.reader())
		timeout = timeoutOf(n.File.Size)
	}

	// go-mail leaves the connection open if the greeting or login fails.
	var raw net.Conn
	defer func() {
		if raw != nil {
			_ = raw.Close() // the outcome is already known
		}
	}()
	client, err := gomail.NewClient(e.host, append(slices.Clone(e.opts), gomail.WithTimeout(timeout),
		gomail.WithDialContextFunc(func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			raw, err = e.dial(ctx, network, address)
			return raw, err
		}))...)
	if err != nil {
		return consume.Reject("unsendable", fmt.Errorf("send by %s: %s", e.host, e.secrets.hide(err.Error())))
	}
	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return e.classify(err)
	}
	if err := client.SendWithSMTPClient(connection, m); err != nil && !m.IsDelivered() { // it may fail behind the mail
		err = e.classify(err)
		if code, refused := consume.Rejected(err); refused && n.File != nil {
			n, n.File = n.WithNote(n.File.refused(code)), nil
			return e.Send(ctx, n)
		}
		return err
	}
	_ = client.CloseWithSMTPClient(connection) // the server already accepted the mail
	return nil
}

// mailID returns a Message-ID in the form of a header, or "" if it has another one.
func mailID(id string) string {
	if id = strings.TrimSpace(id); len(id) > 500 || !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, ">") ||
		strings.ContainsAny(id[1:len(id)-1], "<> \t\r\n") {
		return ""
	}
	return id
}

func (e *Email) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if e.cfg.TLS == "ssl" {
		return (&tls.Dialer{Config: &tls.Config{ServerName: e.host, RootCAs: e.roots}}).DialContext(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// classify turns a 5xx reply to a mail into a rejection. A mail waits while the server refuses the login or the connection.
func (e *Email) classify(err error) error {
	safe := fmt.Errorf("send by %s: %s", e.host, e.secrets.hide(err.Error()))
	if failed, ok := errors.AsType[*gomail.SendError](err); ok && failed.ErrorCode()/100 == 5 {
		return consume.Reject("refused_"+strconv.Itoa(failed.ErrorCode()), safe)
	}
	return safe
}
