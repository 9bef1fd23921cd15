package channel

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// mailInterval is how often Receive looks for mails.
const mailInterval = 15 * time.Second

// CheckReceive returns an error if the channel cannot receive.
func (e *Email) CheckReceive() error {
	switch {
	case e.cfg.IMAP == "" || e.cfg.User == "" || e.cfg.Password == "":
		return errors.New("the settings imap, user and password are required to receive mails")
	case e.cfg.AuthServ == "":
		return errors.New("the setting authserv is required to receive mails: the name that your mail server writes first into the header Authentication-Results, such as mx.google.com; authserv=none accepts forged senders")
	}
	return nil
}

// Receive passes the unread mails of the recipients (EmailConfig.To) to inbox until ctx ends, and
// marks them as read when inbox has accepted them. Other mails stay as they are.
func (e *Email) Receive(ctx context.Context, inbox Inbox, log zerolog.Logger) error {
	r := newReception(inbox, log)
	return r.again(ctx, func(ctx context.Context, healthy func()) error {
		err := e.receive(ctx, r, healthy)
		safe := fmt.Errorf("receive from %s: %s", e.cfg.IMAP, e.secrets.hide(err.Error()))
		if _, refused := bus.Rejected(err); refused {
			return bus.Reject("refused", safe)
		}
		return safe
	})
}

// receive receives over one connection.
func (e *Email) receive(ctx context.Context, r *reception, healthy func()) error {
	address := e.cfg.IMAP
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host, address = address, net.JoinHostPort(address, "993")
	}
	c, err := dialIMAP(ctx, address, &tls.Config{ServerName: host, RootCAs: e.roots}, e.cfg.User, e.cfg.Password)
	if err != nil {
		return err
	}
	defer c.close()
	ignored := map[uint32]bool{}
	for {
		unseen, err := c.unseen(e.cfg.To)
		if err != nil {
			return err
		}
		for _, uid := range unseen {
			if ignored[uid] {
				continue
			}
			header, err := c.fetch(uid, "HEADER")
			if err != nil {
				return err
			}
			chat, reason := e.sender(header)
			if reason != "" {
				ignored[uid] = true
				r.log.Warn().Str("from", tools.Excerpt(tools.EscapeLine(chat), 80)).Str("reason", reason).Msg("ignored a mail")
				continue
			}
			raw, err := c.fetch(uid, "")
			if err != nil {
				return err
			}
			if m := parseMail(raw); m.Text != "" || m.Files != nil || m.Context != "" {
				m.ChatID = chat
				m.ID = cmp.Or(m.ID, "mail-"+tools.Token(string(header)))
				if err := r.accept(ctx, m); err != nil {
					return err
				}
			}
			if err := c.setSeen(uid); err != nil {
				return err
			}
		}
		healthy()
		if err := tools.Sleep(ctx, e.interval); err != nil {
			return err
		}
	}
}

// sender returns the chat of a mail: its sender, as EmailConfig.To names it. reason says why the
// mail is ignored. A program must not answer what another program sent, or they would write to
// each other for ever.
func (e *Email) sender(header []byte) (chat, reason string) {
	m, err := mail.ReadMessage(bytes.NewReader(header))
	if err != nil {
		return "", "it cannot be read"
	}
	from, err := m.Header.AddressList("From")
	if err != nil || len(from) != 1 || len(m.Header["From"]) != 1 {
		return "", "it has not one sender"
	}
	i := slices.IndexFunc(e.cfg.To, func(to string) bool { return strings.EqualFold(to, from[0].Address) })
	automatic := m.Header.Get("Auto-Submitted")
	switch {
	case i < 0:
		return from[0].Address, "the sender is not in the setting to"
	case automatic != "" && !strings.EqualFold(automatic, "no"), m.Header.Get("Precedence") != "", m.Header.Get("List-Id") != "":
		return from[0].Address, "a program sent it"
	case e.cfg.AuthServ != "none" && !isAuthentic(m.Header["Authentication-Results"], e.cfg.AuthServ):
		return from[0].Address, "the mail server does not say that the sender is authentic (dmarc=pass)"
	}
	return e.cfg.To[i], ""
}

// inert are the parts of a header that its author may have chosen: quoted texts and comments.
var inert = regexp.MustCompile(`"(?:\\.|[^"\\])*"|\((?:\\.|[^()\\])*\)`)

// isAuthentic reports whether a mail server says that the domain of the sender is authentic
// (DMARC, RFC 8601). Only the topmost header counts, because the server adds its own above
// those that came with the mail.
func isAuthentic(results []string, authserv string) bool {
	for _, result := range results {
		for text := ""; text != result; result = inert.ReplaceAllString(result, "") { // comments nest
			text = result
		}
		methods := strings.Split(result, ";")
		if name, _, _ := strings.Cut(strings.TrimSpace(methods[0]), " "); !strings.EqualFold(name, authserv) {
			continue
		}
		passed := false
		for _, method := range methods[1:] {
			method, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(method)), " ")
			if strings.HasPrefix(method, "dmarc=") && method != "dmarc=pass" {
				return false
			}
			passed = passed || method == "dmarc=pass"
		}
		return passed
	}
	return false
}
