package channel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxMailParts = 100
	maxMailDepth = 8
)

// mailParts collects the text and the files of a mail.
type mailParts struct {
	text, html string
	files      []Attachment
	parts      int
}

var headerWords = mime.WordDecoder{CharsetReader: charset.NewReaderLabel}

// parseMail returns what the inbox gets of a mail, without the chat. A mail that begins a
// conversation has its subject as the context. A part that cannot be decoded is left out.
func parseMail(raw []byte) Incoming {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Incoming{}
	}
	var p mailParts
	p.add(textproto.MIMEHeader(m.Header), m.Body, 0)
	in := Incoming{ID: mailID(m.Header.Get("Message-Id")), Text: unquoted(p.text), Files: p.files}
	if p.text == "" && p.html != "" {
		in.Files = append(in.Files, memoryFile("message.html", []byte(p.html)))
	}
	if subject := decodeHeader(m.Header.Get("Subject")); subject != "" && m.Header.Get("In-Reply-To") == "" {
		in.Context = "Subject: " + tools.Excerpt(tools.OneLine(subject), maxQuoted)
	}
	return in
}

// mailID returns a Message-ID in the form of a header, or "" if it has another one.
func mailID(id string) string {
	if id = strings.TrimSpace(id); len(id) > 500 || !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, ">") || strings.ContainsAny(id[1:len(id)-1], "<> \t\r\n") {
		return ""
	}
	return id
}

func decodeHeader(text string) string {
	if decoded, err := headerWords.DecodeHeader(text); err == nil {
		return strings.TrimSpace(decoded)
	}
	return strings.TrimSpace(text)
}

func memoryFile(name string, content []byte) Attachment {
	return Attachment{Name: name, Open: func(context.Context) (io.ReadCloser, error) {
		if len(content) == 0 {
			return nil, bus.Reject("no_file", io.ErrUnexpectedEOF)
		}
		return io.NopCloser(bytes.NewReader(content)), nil
	}}
}

func (p *mailParts) add(header textproto.MIMEHeader, body io.Reader, depth int) {
	if p.parts++; p.parts > maxMailParts || depth > maxMailDepth {
		return
	}
	media, params, err := mime.ParseMediaType(cmp.Or(header.Get("Content-Type"), "text/plain"))
	if err != nil {
		media = "application/octet-stream"
	}
	if strings.HasPrefix(media, "multipart/") {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if err != nil {
				return
			}
			p.add(part.Header, part, depth+1)
		}
	}
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return
	}
	disposition, about, _ := mime.ParseMediaType(header.Get("Content-Disposition"))
	name := decodeHeader(cmp.Or(about["filename"], params["name"]))
	switch {
	case media == "text/plain" && p.text == "" && disposition != "attachment":
		p.text = decodeText(content, params["charset"])
	case media == "text/html" && name == "":
		p.html = cmp.Or(p.html, decodeText(content, params["charset"]))
	case name != "" || disposition == "attachment":
		p.files = append(p.files, memoryFile(cmp.Or(name, "file"+fileEnding(media)), content))
	}
}

func decodeText(content []byte, label string) string {
	if reader, err := charset.NewReaderLabel(cmp.Or(label, "utf-8"), bytes.NewReader(content)); err == nil {
		if decoded, err := io.ReadAll(reader); err == nil {
			content = decoded
		}
	}
	return strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(string(content), "\ufffd"), "\r\n", "\n"))
}

// unquoted returns the text without the mail that it answers, which programs quote at its end
// below a line such as "On Monday, Ann wrote:".
func unquoted(text string) string {
	lines := strings.Split(text, "\n")
	end := len(lines)
	for end > 0 && (strings.HasPrefix(lines[end-1], ">") || strings.TrimSpace(lines[end-1]) == "") {
		end--
	}
	if end == len(lines) || end == 0 {
		return text
	}
	if strings.HasSuffix(strings.TrimSpace(lines[end-1]), ":") {
		end--
	}
	if own := strings.TrimSpace(strings.Join(lines[:end], "\n")); own != "" {
		return own
	}
	return text
}
