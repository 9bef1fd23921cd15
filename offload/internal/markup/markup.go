// Package markup reads YAML and XML as JSON, for all that reads documents.
//
// A document of YAML is its JSON; several are an array of them. A value with a tag such as !Ref is
// {"!Ref": value}. An element of XML is a string, or an object if one of its path has attributes or
// elements: "@name" for an attribute, "#text" for its own text, and the names of its elements. If
// one of them is repeated anywhere, it is an array everywhere. A property list is its values.
package markup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/offload/describe"
	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
)

// Formats of texts.
const (
	YAML = "YAML"
	XML  = "XML"
)

const (
	// MaxSize is the size in bytes of the largest text that is read: as values, it takes 30 times that.
	MaxSize  = 8 << 20
	maxDepth = 500
)

// ErrTooLarge is the error for a text that has more than MaxSize bytes.
var ErrTooLarge = fmt.Errorf("it has more than %d MiB", MaxSize>>20)

// Read returns the JSON of all of a text. The client can fix its error.
func Read(src io.Reader, format string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(src, MaxSize+1))
	if err != nil {
		return nil, err
	}
	var data []byte
	if err = ErrTooLarge; len(text) <= MaxSize {
		data, err = JSON(text, format, false)
	}
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "it cannot be read as a document of %s (%v); use grep_knowledge or get_knowledge_by_lines", format, err)
	}
	return data, nil
}

// JSON returns the JSON of a text. If cut is true, the text is the start of one, without half a line.
func JSON(text []byte, format string, cut bool) ([]byte, error) {
	var out bytes.Buffer
	text = jsonread.WithoutBOM(text)
	w := &writer{out: jsontext.NewEncoder(&out), left: 4*len(text) + 1<<20}
	var err error
	if format == YAML {
		err = w.yaml(text)
	} else {
		err = w.xml(text, cut)
	}
	return out.Bytes(), errors.Join(err, w.err)
}

// writer writes JSON until its first error.
type writer struct {
	out  *jsontext.Encoder
	left int // values and bytes that may still come: an alias repeats what it names
	err  error
}

// enter counts a value, and reports whether it may be written.
func (w *writer) enter(depth int) bool {
	switch w.left--; {
	case w.err != nil:
	case depth > maxDepth:
		w.err = fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	case w.left < 0:
		w.err = errors.New("what it repeats with aliases is too large")
	}
	return w.err == nil
}

func (w *writer) put(token jsontext.Token) {
	if w.err == nil {
		w.err = w.out.WriteToken(token)
	}
}

func (w *writer) string(text string) {
	w.left -= len(text)
	w.put(jsontext.String(text))
}

// number writes a text that may be a number. One such as 0777 and 1e9 is rather an id.
func (w *writer) number(text string) {
	if !describe.IsInteger(text) && !describe.IsReal(text) || strings.ContainsAny(text, "eE") {
		w.string(text)
	} else if w.err == nil {
		w.err = w.out.WriteValue(jsontext.Value(text))
	}
}
