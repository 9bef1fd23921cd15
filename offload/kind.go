package offload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// Types of artifacts.
const (
	TypeText   = "TEXT"
	TypeJSON   = "JSON"
	TypeBinary = "BINARY"
)

// Media types of tables and of several JSON values.
const (
	mediaCSV    = "text/csv; charset=utf-8"
	mediaTSV    = "text/tab-separated-values; charset=utf-8"
	mediaNDJSON = "application/x-ndjson"
)

const (
	sniffBytes    = 4 << 10
	wholeJSONSize = 1 << 20 // of larger JSON, only both ends are checked
)

// kind detects the type and the media type of a content from its ends.
func kind(src io.ReaderAt, size int64) (typ, mediaType string, err error) {
	head, err := readRange(src, 0, min(size, sniffBytes))
	if err != nil {
		return "", "", err
	}
	if isJSON, err := looksLikeJSON(src, size, head); err != nil || isJSON {
		return TypeJSON, "application/json", err
	}
	m := mimetype.Detect(head)
	if isText(m, head) {
		return TypeText, "text/plain; charset=utf-8", nil
	}
	return TypeBinary, m.String(), nil
}

// isText corrects the library, which says that UTF-16 is text, though models cannot
// read it, and that a content with a NUL is not, though tools separate with NUL
// (find -print0, git ls-files -z).
func isText(m *mimetype.MIME, head []byte) bool {
	valid := utf8.Valid(wholeRunes(head))
	if nuls := bytes.Count(head, []byte{0}); nuls > 0 {
		return valid && nuls <= len(head)/4 && m.Is("application/octet-stream")
	}
	if valid {
		return true
	}
	for ; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			return true
		}
	}
	return false
}

// looksLikeJSON is exact for small contents. A large content is JSON if it starts and
// ends like an object or an array.
func looksLikeJSON(src io.ReaderAt, size int64, head []byte) (bool, error) {
	first := bytes.TrimLeft(head, " \t\r\n")
	if len(first) == 0 || first[0] != '{' && first[0] != '[' {
		return false, nil
	}
	if size <= wholeJSONSize {
		all, err := readRange(src, 0, size)
		return err == nil && json.Valid(all), err
	}
	last, err := readRange(src, size-64, 64)
	if err != nil {
		return false, err
	}
	last = bytes.TrimRight(last, " \t\r\n")
	if len(last) == 0 || last[len(last)-1] != first[0]+2 { // '{'+2 is '}', '['+2 is ']'
		return false, nil
	}
	return tokensParse(io.NewSectionReader(src, 0, wholeJSONSize/4)), nil
}

// tokensParse reports whether the start of a JSON text has no syntax error.
func tokensParse(r io.Reader) bool {
	dec := json.NewDecoder(r)
	dec.UseNumber()
	for {
		if _, err := dec.Token(); err != nil {
			_, bad := err.(*json.SyntaxError)
			return !bad || err.Error() == "unexpected end of JSON input"
		}
	}
}

// summarize returns an argument for Store.Put, which sets type, media type and
// preview. If plain is not nil, it makes the preview from plain.
func summarize(plain *io.SectionReader) func(*Record, Content) error {
	return func(rec *Record, c Content) error {
		typ, mediaType, err := kind(c, c.Size())
		if err != nil {
			return fmt.Errorf("summarize %q: %w", rec.ID, err)
		}
		rec.Type, rec.MediaType = typ, mediaType
		oneLine := c.Index().Lines() <= 2 // the second may be empty
		switch {
		case typ == TypeBinary:
		case plain != nil:
			var chars int64
			if chars, err = countChars(plain, plain.Size()); err == nil {
				rec.Summary, err = preview(plain, plain.Size(), chars, previewRunes)
			}
		case typ == TypeJSON && oneLine && c.Size() > 2*previewRunes:
			rec.Summary, err = shape(io.NewSectionReader(c, 0, c.Size()))
		default:
			rec.Summary, err = preview(c, c.Size(), c.Index().TotalChars(), previewRunes)
		}
		if err != nil {
			return fmt.Errorf("summarize %q: %w", rec.ID, err)
		}
		rec.Summary = neutralise(rec.Summary)
		return nil
	}
}
