package builtin

import (
	"io"
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"github.com/stevedore-bus/stevedore/tools"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// text returns the page's text as UTF-8 and its media type without parameters. If the
// page is not text, the error names its type.
func (p *page) text() (r io.Reader, mediaType string, err error) {
	head := make([]byte, sniffLen)
	n, err := p.body.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	head = head[:n]
	declared := mediaTypeOf(p.contentType)
	enc, _, certain := charset.DetermineEncoding(head, p.contentType)
	if !certain && p.validUTF8() {
		enc = encoding.Nop // DetermineEncoding looks at the first 1,024 bytes only
	}
	decoder := func() transform.Transformer {
		return transform.Chain(unicode.BOMOverride(enc.NewDecoder()), runes.ReplaceIllFormed())
	}
	decoded, err := io.ReadAll(transform.NewReader(strings.NewReader(string(head)), decoder()))
	if err != nil {
		return nil, "", err
	}
	found := mimetype.Detect(decoded)
	isText := n == 0 || !strings.ContainsRune(string(decoded), 0) && (textual(declared) || within(found, "text/plain"))
	switch {
	case !isText:
		if textual(declared) {
			declared = "" // the server is wrong
		}
		kind := declared
		if kind == "" || kind == "application/octet-stream" {
			kind = mediaTypeOf(mimetype.Detect(head).String())
		}
		return nil, kind, tools.Errorf(tools.CodeToolFailed, "it is not text: %s, %d bytes", kind, p.body.Size())
	case declared == "" || !textual(declared):
		declared = mediaTypeOf(found.String())
	}
	return transform.NewReader(p.body.Reader(), decoder()), declared, nil
}

// mediaTypeOf returns a Content-Type without its parameters, or "" if it is malformed.
func mediaTypeOf(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil && err != mime.ErrInvalidMediaParameter || len(kind) > 100 {
		return ""
	}
	return kind
}

// textual reports whether a media type is one of text.
func textual(mediaType string) bool {
	return strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+xml") ||
		slices.Contains([]string{"application/json", "application/xml", "application/javascript", "application/yaml",
			"application/x-yaml", "application/toml", "application/x-ndjson", "application/sql"}, mediaType)
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// within reports whether m is mediaType or a subtype of it.
func within(m *mimetype.MIME, mediaType string) bool {
	for ; m != nil; m = m.Parent() {
		if m.Is(mediaType) {
			return true
		}
	}
	return false
}

// validUTF8 reports whether the whole body is UTF-8; one that was cut may end within a rune.
func (p *page) validUTF8() bool {
	body, err := io.ReadAll(p.body.Reader()) // which WebConfig.MaxBytes bounds
	for cut := 0; err == nil && cut < utf8.UTFMax && cut <= len(body); cut++ {
		if utf8.Valid(body[:len(body)-cut]) {
			return cut == 0 || p.truncated
		}
	}
	return false
}
