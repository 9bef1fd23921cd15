package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strconv"

	gomail "github.com/wneessen/go-mail"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// EmailConfig describes an e-mail channel. Host, From and To are needed.
type EmailConfig struct {
	// Host is HOST:PORT of the SMTP server; the port is 587 by default, 465
	// with TLS "ssl".
	Host string
	// TLS is "starttls" (default; the server must offer it), "ssl" or "none".
	// Without TLS no password is sent.
	TLS string
	// User and Password log in, if set.
	User, Password string
	// From is the sender's address, To those of the readers. A notification may
	// choose among them by its chat id, and nobody else: calls come from
	// anybody.
	From string
	To   []string
}

// Email sends notifications by SMTP. The Message-ID is the same for every
// attempt, so that mail systems that look at it show a notification once.
type Email struct {
	cfg     EmailConfig
	host    string
	opts    []gomail.Option
	roots   *x509.CertPool // nil is the system's
	secrets secrets
}

// NewEmail returns an e-mail channel. It does not connect.
func NewEmail(cfg EmailConfig) (*Email, error) {
	e := &Email{
		cfg: cfg, opts: []gomail.Option{gomail.WithTimeout(sendTimeout)},
		// As a login says it, too.
		secrets: secretsOf(nil, cfg.Password, "\x00"+cfg.User+"\x00"+cfg.Password),
	}
	port := 587
	switch cfg.TLS {
	case "", "starttls":
		e.opts = append(e.opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case "ssl":
		// We dial with TLS ourselves; go-mail then finds the connection secure.
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
		return nil, errors.New("email: nobody to send to")
	}
	for _, address := range append([]string{cfg.From}, cfg.To...) {
		if _, err := mail.ParseAddress(address); err != nil {
			return nil, fmt.Errorf("email: %q is not an address", tools.Excerpt(address, 80))
		}
	}
	if _, err := gomail.NewClient(e.host, e.opts...); err != nil {
		return nil, fmt.Errorf("email: %s", e.secrets.hide(err.Error()))
	}
	return e, nil
}

// Send sends n as one mail of plain text.
func (e *Email) Send(ctx context.Context, n Notification) error {
	to := e.cfg.To
	if n.ChatID != "" {
		if !slices.Contains(to, n.ChatID) {
			return bus.Reject("refused_recipient", fmt.Errorf("send by %s: the channel does not send to %q", e.host, tools.Excerpt(tools.EscapeLine(n.ChatID), 80)))
		}
		to = []string{n.ChatID}
	}
	m := gomail.NewMsg()
	if err := errors.Join(m.From(e.cfg.From), m.To(to...)); err != nil {
		return bus.Reject("unsendable", fmt.Errorf("send by %s: %w", e.host, err))
	}
	m.Subject(title(n))
	m.SetDateWithValue(n.At)
	m.SetMessageIDWithValue(tools.Token(n.ID) + "@stevedore." + e.host)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, chatText(n, false).readable().text+"\n")

	// go-mail leaves the connection open when the greeting or login fails.
	var raw net.Conn
	defer func() {
		if raw != nil {
			_ = raw.Close() // the mail was taken by then, or was not
		}
	}()
	client, err := gomail.NewClient(e.host, append(slices.Clone(e.opts), gomail.WithDialContextFunc(func(ctx context.Context, network, address string) (_ net.Conn, err error) {
		raw, err = e.dial(ctx, network, address)
		return raw, err
	}))...)
	if err != nil {
		return bus.Reject("unsendable", fmt.Errorf("send by %s: %s", e.host, e.secrets.hide(err.Error())))
	}
	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return e.verdict(err)
	}
	if err := client.SendWithSMTPClient(connection, m); err != nil {
		return e.verdict(err)
	}
	_ = client.CloseWithSMTPClient(connection) // whatever the farewell brings, the mail was taken
	return nil
}

func (e *Email) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if e.cfg.TLS == "ssl" {
		return (&tls.Dialer{Config: &tls.Config{ServerName: e.host, RootCAs: e.roots}}).DialContext(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// verdict tells what may heal, 4xx by the protocol, from what will not, 5xx.
func (e *Email) verdict(err error) error {
	if err == nil {
		return nil
	}
	told := fmt.Errorf("send by %s: %s", e.host, e.secrets.hide(err.Error()))
	code := 0
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		code = reply.Code
	}
	if failed, ok := errors.AsType[*gomail.SendError](err); ok && failed.ErrorCode() > 0 {
		code = failed.ErrorCode()
	}
	if code >= 500 && code < 600 {
		return bus.Reject("refused_"+strconv.Itoa(code), told)
	}
	return told
}
