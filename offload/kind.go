package offload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/offload/internal/markup"
	"github.com/stevedore-bus/stevedore/offload/jq"
	"github.com/stevedore-bus/stevedore/offload/tables"
	"github.com/stevedore-bus/stevedore/tools/charset"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
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
	mediaLog    = "text/x-log; charset=utf-8" // a text with JSON in its lines
	mediaYAML   = "application/yaml; charset=utf-8"
	mediaXML    = "text/xml; charset=utf-8"
)

const (
	sniffBytes    = 4 << 10
	wholeJSONSize = 1 << 20 // of larger JSON, only the start and the end are checked
)

// kind detects the type and the media type of a content from its ends, and the form of a table.
func kind(src io.ReaderAt, size int64) (typ, mediaType string, form describe.Form, err error) {
	head, err := readRange(src, 0, min(size, sniffBytes))
	if err != nil {
		return "", "", form, err
	}
	if isJSON, err := looksLikeJSON(src, size, head); err != nil || isJSON {
		return TypeJSON, mediaJSON, form, err
	}
	m := mimetype.Detect(head)
	if !charset.IsText(m, head) {
		return TypeBinary, m.String(), form, nil
	}
	few := int64(rowBytes)
	if beginsJSON(head) {
		few = wholeJSONSize // a row of JSON may be long
	}
	if head, err = readRange(src, 0, min(size, few)); err != nil {
		return "", "", form, err
	}
	if flowYAML.Match(head) {
		return TypeText, mediaYAML, form, nil
	}
	if mediaType, form = rowsKind(head, int64(len(head)) == size); mediaType == mediaText && !form.Certain {
		head = jsonread.WithoutBOM(head[:min(len(head), sniffBytes)])
		switch {
		case beginsXML.Match(head) && !m.Is("text/html") && !m.Is("image/svg+xml"):
			mediaType = mediaXML
		case beginsYAML.Match(head) && (nestedYAML.Match(head) || isFlatYAML(head)):
			mediaType = mediaYAML
		}
	}
	return TypeText, mediaType, form, nil
}

// beginsXML, beginsYAML and nestedYAML match texts that may be XML, or YAML with a value of several lines, and flowYAML
// a list of YAML whose commas are not between cells.
var (
	beginsXML  = lazyregexp.New(`^\s*<(?:[?]xml|!--|!DOCTYPE|[A-Za-z])`)
	beginsYAML = lazyregexp.New(`^(?:\s*(?:[#%].*)?\n)*(?:---|["']?[A-Za-z_][^:\n]{0,100}:(?:\s|$)|- ["']?[A-Za-z_][^:\n]{0,100}:.*\n +["'A-Za-z_])`)
	nestedYAML = lazyregexp.New(`(?m)^ *(?:- | \S)`)
	flowYAML   = lazyregexp.New(`^(?:\s*(?:#.*)?\n)*(?:---\n)?- \{["']?[A-Za-z_][\w. -]*["']?: .*\}\s*(?:\n- \{|$)`)
	memberYAML = lazyregexp.New(`^(?:["']?([A-Za-z_][\w.-]*)["']?:(?:\s.*)?|(?:#|---).*|\s*)$`)
)

// isFlatYAML reports whether each line of a text has a key and a value, and none has the key of another one, as
// those of a log have.
func isFlatYAML(head []byte) bool {
	keys := map[string]bool{}
	for line := range bytes.Lines(head) {
		m := memberYAML.FindSubmatch(bytes.TrimRight(line, "\r\n"))
		key := ""
		if m != nil {
			key = string(m[1])
		}
		if complete := line[len(line)-1] == '\n'; complete && m == nil || key != "" && keys[key] {
			return false
		}
		keys[key] = true
	}
	delete(keys, "")
	return len(keys) > 1
}

// rowBytes is how much of a text decides whether it has rows.
const rowBytes = describe.SampleBytes

// rowsKind returns the media type of a text that begins with head, and its form if it is a table.
func rowsKind(head []byte, complete bool) (string, describe.Form) {
	if isNDJSON(head, complete) {
		return mediaNDJSON, describe.Form{}
	}
	form := describe.Table(head, complete, describe.Hints{})
	switch {
	case !form.Certain || form.Kind != describe.Cells || form.Comma == ' ':
	case form.Comma == '\t':
		return mediaTSV, form
	default:
		return mediaCSV, form
	}
	if !complete {
		head = head[:bytes.LastIndexByte(head[:min(len(head), rowBytes)], '\n')+1] // whole lines
	}
	if !(form.Certain && form.Kind == describe.Aligned) && jq.InLines(head, !complete) {
		return mediaLog, describe.Form{}
	}
	return mediaText, form
}

// isNDJSON reports whether a text is JSON objects and arrays, one after the other. They may
// be indented, as some commands print them; jq reads them all the same. If the text is not
// complete, its last value may be cut.
func isNDJSON(text []byte, complete bool) bool {
	rows, nested, err := jsonread.Values(text)
	return nested && (err == io.EOF && rows > 1 || errors.Is(err, io.ErrUnexpectedEOF) && !complete && rows > 0)
}

// beginsJSON reports whether a text begins like an object or an array.
func beginsJSON(text []byte) bool {
	text = bytes.TrimLeft(jsonread.WithoutBOM(text), " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// looksLikeJSON is exact for small contents. A large content is JSON if its start has no syntax error
// and no second value, as NDJSON has, and if it ends like an object or an array.
func looksLikeJSON(src io.ReaderAt, size int64, head []byte) (bool, error) {
	if !beginsJSON(head) {
		return false, nil
	}
	last, err := readRange(src, max(size-sniffBytes, 0), min(size, sniffBytes))
	if err != nil {
		return false, err
	}
	first, last := bytes.TrimLeft(jsonread.WithoutBOM(head), " \t\r\n"), bytes.TrimRight(last, " \t\r\n")
	if len(last) == 0 || last[len(last)-1] != first[0]+2 { // '{'+2 is '}', '['+2 is ']'
		return false, nil
	}
	bom := int64(len(head) - len(jsonread.WithoutBOM(head)))
	dec := jsontext.NewDecoder(io.NewSectionReader(src, bom, wholeJSONSize), jsonread.Lenient...)
	if err := dec.SkipValue(); err != nil {
		return size > wholeJSONSize && errors.Is(err, io.ErrUnexpectedEOF), nil
	}
	_, err = dec.ReadToken()
	return err == io.EOF, nil
}

// summarize returns an argument for Store.Put, which sets type, media type and
// preview, and of a text in another charset its size in characters and lines.
func summarize(ctx context.Context) func(*Record, Content) error {
	return func(rec *Record, c Content) error {
		if err := rec.summarize(ctx, c); err != nil {
			return fmt.Errorf("summarize %q: %w", rec.ID, err)
		}
		return nil
	}
}

func (rec *Record) summarize(ctx context.Context, c Content) error {
	name, err := charset.Of(c, c.Size(), !c.Index().ASCII() && c.Index().TotalChars() == c.Size())
	if name != "" {
		text, err := decode(ctx, c, c.Size(), name)
		if err != nil {
			return err
		}
		defer text.Close()
		c = text
		rec.Chars = c.Index().TotalChars()
		rec.Tokens = TokensOfRunes(rec.Chars)
	}
	if err != nil {
		return err
	}
	var form describe.Form
	if rec.Type, rec.MediaType, form, err = kind(c, c.Size()); err != nil {
		return err
	}
	if rec.Lines, err = countLines(c); err != nil {
		return err
	}
	if err := rec.summarizeContent(c, form); err != nil {
		return err
	}
	if name != "" && rec.Type != TypeBinary {
		rec.MediaType = inCharset(rec.MediaType, name)
	}
	return nil
}

// summarizeContent sets the preview. It corrects the type of a text that only looks
// like JSON.
func (rec *Record) summarizeContent(c Content, form describe.Form) (err error) {
	switch rows := rec.MediaType == mediaNDJSON; {
	case c.Size() <= 2*previewRunes: // is shown whole
	case rows, rec.MediaType == mediaJSON:
		rec.Summary, err = shape(c, c.Size(), rows, 2*previewRunes)
		if !rows && errors.Is(err, jsonread.ErrNotJSON) { // rows too long to be seen as such
			if rec.Summary, err = shape(c, c.Size(), true, 2*previewRunes); err == nil {
				rec.Type, rec.MediaType = TypeText, mediaNDJSON
			}
		}
		if !errors.Is(err, jsonread.ErrNotJSON) {
			return err
		}
		if rec.Type, rec.MediaType = TypeText, mediaText; rows { // one of them is no JSON
			rec.MediaType = mediaLog
		}
	}
	if rec.Type == TypeBinary {
		return nil
	}
	if rec.markup() != "" {
		text, err := markupShape(c, rec.markup(), 2*previewRunes)
		switch {
		case err != nil: // it only looks like that, or jq and SQL refuse its size
			rec.MediaType = mediaText
		case c.Size() > 2*previewRunes:
			rec.Summary = text
			return nil
		}
	}
	if form.Certain && c.Size() > 2*previewRunes {
		head, err := readRange(c, 0, min(c.Size(), sniffBytes))
		if err != nil {
			return err
		}
		if rec.Summary = stripANSI(tables.Preview(head, int64(len(head)) == c.Size(), form)); rec.Summary != "" && form.Kind != describe.Ruled {
			return nil
		}
		if columns, _, ok := strings.Cut(rec.Summary, "\n"); ok { // of a table in a document
			rec.Summary, err = preview(c, c.Size(), c.Index().TotalChars(), previewRunes/4)
			rec.Summary = columns + "\n" + stripANSI(rec.Summary)
			return err
		}
	}
	rec.Summary, err = previewOf(c, c.Size(), c.Index().TotalChars(), rec.Lines)
	return err
}

// markup returns the format of a document that package markup reads, or "".
func (rec Record) markup() string {
	switch {
	case isMedia(rec.MediaType, mediaYAML):
		return markup.YAML
	case isMedia(rec.MediaType, mediaXML):
		return markup.XML
	}
	return ""
}

// tableForm returns the form of a table. It is not certain for other texts, and that of no table for
// what is JSON. It corrects the media type that earlier versions gave rows of JSON of which one is broken.
func (rec *Record) tableForm(c io.ReaderAt, size int64, known describe.Hints) (form describe.Form, err error) {
	if rec.Type == TypeJSON || isMedia(rec.MediaType, mediaNDJSON, mediaLog, mediaYAML, mediaXML) {
		return form, nil
	}
	head, err := readRange(c, 0, min(size, describe.SampleBytes))
	if err != nil {
		return form, err
	}
	complete := int64(len(head)) == size
	form = describe.Table(head, complete, known)
	if form.Certain || known != (describe.Hints{}) || !beginsJSON(head) {
		return form, nil
	}
	_, _, err = jsonread.Values(head) // the first cells of a table may be values, too
	switch {
	case isNDJSON(head, complete), jq.InLines(head, !complete):
		rec.MediaType, form = mediaLog, describe.Form{}
	case errors.Is(err, io.ErrUnexpectedEOF):
		form = describe.Form{} // the reader of JSON says what is wrong with it
	}
	return form, nil
}
