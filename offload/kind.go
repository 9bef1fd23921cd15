package offload

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"

	"github.com/stevedore-bus/stevedore/tools"
)

// Types of artifacts.
const (
	TypeText   = "TEXT"
	TypeJSON   = "JSON"
	TypeBinary = "BINARY"
)

// Media types that decide which tools can read a content.
const (
	mediaText   = "text/plain; charset=utf-8"
	mediaJSON   = "application/json"
	mediaCSV    = "text/csv; charset=utf-8"
	mediaTSV    = "text/tab-separated-values; charset=utf-8"
	mediaNDJSON = "application/x-ndjson"
)

const (
	sniffBytes    = 4 << 10
	wholeJSONSize = 1 << 20 // of larger JSON, only both ends are checked
)

// kind detects the type and the media type of a content from its ends. The exit code
// that follows the output of a command does not change the media type, because jq skips
// it; but JSON and an exit code are of the type TEXT.
func kind(src io.ReaderAt, size int64) (typ, mediaType string, err error) {
	typ = TypeJSON
	body, err := sizeWithoutExitCode(src, size)
	if err != nil {
		return "", "", err
	}
	if body < size {
		size, typ = body, TypeText
	}
	head, err := readRange(src, 0, min(size, sniffBytes))
	if err != nil {
		return "", "", err
	}
	if isJSON, err := looksLikeJSON(src, size, head); err != nil || isJSON {
		return typ, mediaJSON, err
	}
	m := mimetype.Detect(head)
	if !isText(m, head) {
		return TypeBinary, m.String(), nil
	}
	if head, err = readRange(src, 0, min(size, rowBytes)); err != nil {
		return "", "", err
	}
	return TypeText, rowsKind(head, int64(len(head)) == size), nil
}

// rowBytes is how much of a text decides whether it is a table.
const rowBytes = 64 << 10

// rowsKind returns the media type of a text that begins with head. If it is a table,
// all rows in head are like the first one.
func rowsKind(head []byte, complete bool) string {
	if !complete {
		head = head[:bytes.LastIndexByte(head, '\n')+1] // whole lines
	}
	if isNDJSON(head) {
		return mediaNDJSON
	}
	for media, comma := range map[string]rune{mediaCSV: ',', mediaTSV: '\t'} {
		if isTable(head, comma) {
			return media
		}
	}
	return mediaText
}

// isNDJSON reports whether each line is a JSON object or array, and there are several.
func isNDJSON(text []byte) bool {
	rows := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if line[0] != '{' && line[0] != '[' || !json.Valid(line) {
			return false
		}
		rows++
	}
	return rows > 1
}

// isTable reports whether a text has a row of column names and at least two rows with
// as many cells.
func isTable(text []byte, comma rune) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if bytes.IndexByte(first, byte(comma)) < 0 {
		return false
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = comma
	rows := 0
	names := map[string]bool{}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return rows > 2
		}
		if err != nil && rows > 100 { // a quoted cell may be cut
			return true
		}
		if err != nil {
			return false
		}
		if rows++; rows > 1 {
			continue
		}
		for _, name := range cells {
			_, notNumber := strconv.ParseFloat(name, 64)
			if name == "" || len(name) > 60 || name != strings.TrimSpace(name) || names[name] || notNumber == nil || strings.ContainsAny(name, "=:{}()[]<>;") {
				return false
			}
			names[name] = true
		}
	}
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
	if invalidBytes(head) > len(head)/4 {
		return false // an encoding that is shown as escapes only
	}
	for ; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			return true
		}
	}
	return false
}

// invalidBytes counts the bytes that are not UTF-8.
func invalidBytes(text []byte) (n int) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			n++
		}
		text = text[size:]
	}
	return n
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

// tokensParse reports whether the start of a JSON text has no syntax error, and no second
// value, as NDJSON has.
func tokensParse(r io.Reader) bool {
	dec := json.NewDecoder(r)
	dec.UseNumber()
	for depth, values := 0, 0; ; {
		token, err := dec.Token()
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 && err == nil {
			values++
		}
		if values > 1 || values == 1 && depth > 0 {
			return false
		}
		if err != nil {
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
		if plain != nil && typ != TypeBinary {
			var chars int64
			if chars, err = countChars(plain, plain.Size()); err == nil {
				rec.Summary, err = previewOf(plain, plain.Size(), chars, 0)
			}
		} else {
			err = rec.summarizeContent(c)
		}
		if err != nil {
			return fmt.Errorf("summarize %q: %w", rec.ID, err)
		}
		rec.Summary = neutralise(rec.Summary)
		return nil
	}
}

// summarizeContent sets the preview. It corrects the type of a text that only looks
// like JSON.
func (rec *Record) summarizeContent(c Content) (err error) {
	rows := rec.MediaType == mediaNDJSON
	if rec.MediaType == mediaJSON && c.Size() > 2*previewRunes || rows {
		var body int64
		if body, err = sizeWithoutExitCode(c, c.Size()); err != nil {
			return err
		}
		oneLine := c.Index().Lines() <= 2 // the second may be empty, or the exit code
		rec.Summary, err = shape(c, body, rows, oneLine, 2*previewRunes)
		if err == nil && oneLine {
			var code []byte
			code, err = readRange(c, body, c.Size()-body)
			rec.Summary += string(code)
		}
		if err == nil && !oneLine {
			var ends string
			ends, err = preview(c, c.Size(), c.Index().TotalChars(), previewRunes/2)
			rec.Summary = tools.Excerpt(rec.Summary, previewRunes) + "\n" + ends
		}
		if !errors.Is(err, errNotJSON) {
			return err
		}
		rec.Type, rec.MediaType = TypeText, mediaText
	}
	if rec.Type == TypeBinary {
		return nil
	}
	rec.Summary, err = previewOf(c, c.Size(), c.Index().TotalChars(), c.Index().Lines())
	if comma := map[string]string{mediaCSV: ",", mediaTSV: "\t"}[rec.MediaType]; comma != "" && err == nil {
		var header []byte
		if header, err = readRange(c, 0, min(c.Size(), sniffBytes)); err == nil {
			rec.Summary = columns(header, comma) + rec.Summary
		}
	}
	return err
}

// columns returns a line with the names of the columns of a table.
func columns(head []byte, comma string) string {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = rune(comma[0])
	names, err := r.Read()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("a table with %d columns: %s\n", len(names), tools.Excerpt(strings.Join(names, ", "), previewRunes))
}
