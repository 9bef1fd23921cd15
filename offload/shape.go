package offload

import (
	"bytes"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/offload/internal/markup"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	sampleRunes = 300 // characters of the sample element
	firstRunes  = 100 // of its place
	placesRunes = 300 // of the list of tables
)

// shapeTime bounds the time of a description. Tests shorten it.
var shapeTime = 5 * time.Second

// shape describes the structure of a JSON text in about budget runes: exact numbers of
// elements, equal shapes once, and the first row of its table. rows is true for
// NDJSON. It returns jsonread.ErrNotJSON if the text is not JSON.
func shape(src io.ReaderAt, size int64, rows bool, budget int) (string, error) {
	d, err := describe.JSON(io.NewSectionReader(src, 0, size), shapeTime)
	if err != nil {
		return "", err
	}
	if d.Values > 1 && !rows {
		return "", fmt.Errorf("%w: there is text after the value", jsonread.ErrNotJSON)
	}
	return shapeOf(d, src, size, rows, budget)
}

// markupBytes is how much of a text of YAML or XML is described.
const markupBytes = 512 << 10

// markupShape is shape for a text of YAML or XML.
func markupShape(c Content, format string, budget int) (string, error) {
	if c.Size() > markup.MaxSize {
		return "", markup.ErrTooLarge
	}
	text, err := readRange(c, 0, min(c.Size(), markupBytes))
	if err != nil {
		return "", err
	}
	cut := c.Size() > markupBytes
	if cut {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	data, err := markup.JSON(text, format, cut)
	if err != nil {
		return "", err
	}
	d, err := describe.JSON(bytes.NewReader(data), shapeTime)
	if err != nil {
		return "", err
	}
	how := format + ", which jq and SQL read as "
	if format == markup.XML && bytes.Contains(data, []byte(`"@`)) {
		how = `XML, which jq and SQL read with ."@name" for attributes and ."#text" for text beside them, as `
	}
	d.Partial = d.Partial || cut
	described, err := shapeOf(d, bytes.NewReader(data), int64(len(data)), false, budget-len(how))
	return how + described, err
}

// shapeOf is shape for a document.
func shapeOf(d *describe.Document, src io.ReaderAt, size int64, rows bool, budget int) (string, error) {
	head, first := "JSON of the shape ", describe.Place{Offset: -1}
	tables := ""
	if places := d.Places(); rows {
		head, first = fmt.Sprintf("%s rows of JSON, each of the shape ", d.Number(d.Values)), describe.Place{First: "row 1"}
		if d.Partial {
			if lines, ok := rowLines(src, size, d.Read, d.Values); ok {
				head = fmt.Sprintf("%d lines, each a row of JSON of the shape ", lines)
			}
		}
	} else if len(places) > 0 {
		first = places[0]
		if len(places) > 1 {
			tables = "\ntables: " + tools.Excerpt(describe.List(places), placesRunes)
		}
	}
	example, err := sample(src, size, first)
	if err != nil {
		return "", err
	}
	tables += example
	switch {
	case d.Partial, d.Unnamed:
		tables = "\nnot all of it is described: it may have other fields and tables" + tables
	case d.Sampled:
		tables = "\nelements behind the first MiB may have other fields" + tables
	}
	return head + d.Shape(budget-utf8.RuneCountInString(tables)) + tables, nil
}

// rowLines returns the lines of the first size bytes of a text, if the lines of its first
// used bytes have one row each. The index has counted the lines, so that is exact for a text
// that is not read to its end.
func rowLines(src io.ReaderAt, size, used int64, rows int) (int64, bool) {
	c, ok := src.(Content)
	if !ok {
		return 0, false
	}
	line, err := c.Index().LineAt(c, used)
	if err != nil || line < int64(rows) || line > int64(rows)+1 {
		return 0, false
	}
	lines, err := c.Index().LineAt(c, size-1)
	return lines, err == nil
}

var lineBreak = lazyregexp.New(`\s*\n\s*`)

// sample returns the start of the first row of a table.
func sample(src io.ReaderAt, size int64, table describe.Place) (string, error) {
	if table.Offset < 0 {
		return "", nil
	}
	data, err := readRange(src, table.Offset, min(size-table.Offset, 4<<10))
	if err != nil {
		return "", err
	}
	data = bytes.TrimLeft(data, ",: \t\r\n")
	value, err := jsonread.New(bytes.NewReader(data), int64(len(data))).Value()
	if err != nil {
		value = wholeRunes(data) // a long element
	}
	return fmt.Sprintf("\n%s: %s", tools.Excerpt(table.First, firstRunes), tools.Excerpt(lineBreak.ReplaceAllString(string(value), " "), sampleRunes)), nil
}
