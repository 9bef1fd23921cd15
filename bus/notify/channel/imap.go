package channel

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stevedore-bus/stevedore/bus"
)

const (
	// imapTimeout bounds one command.
	imapTimeout = 2 * time.Minute
	// maxMail bounds what is read of a mail, in bytes: files of 20 MB as base64.
	maxMail = 30 << 20
	// maxIMAPLine bounds a line of a response: a mailbox with 8,000 unread mails has one of 64 KiB.
	maxIMAPLine = 1 << 20
)

var errTooLong = errors.New("the response is too long")

// imapClient sends the few commands of IMAP4rev1 (RFC 3501) that reading a mailbox takes, over
// TLS. A library would be 0.3 MB of the program.
type imapClient struct {
	conn net.Conn
	in   *bufio.Reader
	tag  int
	stop func() bool // of the closing when the context ends
}

// dialIMAP connects and selects the mailbox INBOX.
func dialIMAP(ctx context.Context, address string, cfg *tls.Config, user, password string) (*imapClient, error) {
	dialing, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(dialing, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &imapClient{conn: conn, in: bufio.NewReaderSize(conn, maxIMAPLine), stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	_ = conn.SetDeadline(time.Now().Add(imapTimeout))
	greeting, _, err := c.response()
	if err == nil && !strings.HasPrefix(greeting, "* OK") {
		err = errors.New("the server does not greet")
	}
	if err == nil {
		_, err = c.command("LOGIN " + imapQuote(user) + " " + imapQuote(password))
	}
	if err == nil {
		_, err = c.command("SELECT INBOX")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *imapClient) close() {
	c.stop()
	_ = c.conn.Close()
}

// unseen returns the numbers (UID) of the mails without the flag \Seen whose header From
// contains one of the addresses: a mailbox may have thousands of others.
func (c *imapClient) unseen(from []string) (all []uint32, err error) {
	responses, err := c.command("UID SEARCH UNSEEN" + searchFrom(from))
	for _, r := range responses {
		numbers, ok := strings.CutPrefix(r.text, "* SEARCH")
		if !ok {
			continue
		}
		for field := range strings.FieldsSeq(numbers) {
			if n, err := strconv.ParseUint(field, 10, 32); err == nil {
				all = append(all, uint32(n))
			}
		}
	}
	return all, err
}

// searchFrom returns a search key, or "" for all mails if an address is not ASCII: a quoted string
// must be. OR takes two keys, of which the second may be an OR again.
func searchFrom(addresses []string) (key string) {
	for i, address := range addresses {
		if strings.ContainsFunc(address, func(r rune) bool { return r > unicode.MaxASCII }) {
			return ""
		}
		if i < len(addresses)-1 {
			key += " OR"
		}
		key += " FROM " + imapQuote(address)
	}
	return key
}

// fetch returns a part of a mail: HEADER, or all of it if part is empty. The flag \Seen stays.
func (c *imapClient) fetch(uid uint32, part string) ([]byte, error) {
	responses, err := c.command(fmt.Sprintf("UID FETCH %d BODY.PEEK[%s]<0.%d>", uid, part, maxMail))
	for _, r := range responses {
		if strings.Contains(r.text, "FETCH (") && r.literal != nil {
			return r.literal, err
		}
	}
	return nil, err
}

func (c *imapClient) setSeen(uid uint32) error {
	_, err := c.command(fmt.Sprintf(`UID STORE %d +FLAGS.SILENT (\Seen)`, uid))
	return err
}

// imapResponse is a response without a tag.
type imapResponse struct {
	text    string
	literal []byte // the last one
}

// command sends a command and returns the responses to it. If the server refuses it, the error
// is a rejection.
func (c *imapClient) command(line string) (all []imapResponse, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(imapTimeout))
	c.tag++
	tag := fmt.Sprintf("a%d ", c.tag)
	if _, err := io.WriteString(c.conn, tag+line+"\r\n"); err != nil {
		return nil, err
	}
	for {
		text, literal, err := c.response()
		if err != nil {
			return nil, err
		}
		result, ok := strings.CutPrefix(text, tag)
		switch {
		case !ok:
			all = append(all, imapResponse{text, literal})
		case strings.HasPrefix(result, "OK"):
			return all, nil
		default:
			name, _, _ := strings.Cut(line, " ")
			return nil, bus.Reject("refused", fmt.Errorf("%s: %s", name, result))
		}
	}
}

var imapLiteral = regexp.MustCompile(`\{(\d{1,9})\}$`)

// response reads a response, and the last literal in it: a text that follows its length.
func (c *imapClient) response() (text string, literal []byte, err error) {
	for {
		data, err := c.in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return "", nil, errTooLong
		}
		if err != nil {
			return "", nil, err
		}
		line := strings.TrimRight(string(data), "\r\n")
		if text += line; len(text) > maxAnswer {
			return "", nil, errTooLong
		}
		match := imapLiteral.FindStringSubmatch(line)
		if match == nil {
			return text, literal, nil
		}
		size, _ := strconv.Atoi(match[1])
		if size > maxMail {
			return "", nil, errTooLong
		}
		literal = make([]byte, size)
		if _, err := io.ReadFull(c.in, literal); err != nil {
			return "", nil, err
		}
	}
}

func imapQuote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
