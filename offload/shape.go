package offload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	shapeBytes  = 1 << 20 // bytes whose values are described; later ones are only counted
	shapeKeys   = 24      // keys of an object that are named
	shapeValue  = 4 << 20 // bytes of the longest string; the description ends there
	shapeNest   = 32      // nesting levels that are described
	sampleRunes = 300     // of the sample element
)

// shapeTime bounds the time of a description. Tests shorten it.
var shapeTime = 5 * time.Second

// shapeNode describes all values at one place of a document, such as the elements of an
// array.
type shapeNode struct {
	path     string   // as jq writes it
	kinds    []string // "number", "string", ... in the order of their first use
	count    int      // values
	min, max int      // elements of arrays
	elem     *shapeNode
	keys     []string
	fields   map[string]*shapeNode
	members  int // the largest number of members of an object
}

// shaper builds the shape of a document.
type shaper struct {
	in       *jsonread.Reader
	deadline time.Time
	counted  int
	partial  bool // the document was not read to its end

	sampleAt   int64 // where the sample begins
	samplePath string
	sampleLen  int // elements of its array
}

var errShapeTime = errors.New("the description takes too long")

// shape describes the structure of a JSON text in about budget runes: exact numbers of
// elements, equal shapes once, and a sample element if sample is true. rows is true for
// NDJSON. It returns jsonread.ErrNotJSON if the text is not JSON.
func shape(src io.ReaderAt, size int64, rows, sample bool, budget int) (string, error) {
	s := &shaper{in: jsonread.New(io.NewSectionReader(src, 0, size), shapeValue), deadline: time.Now().Add(shapeTime), sampleAt: -1}
	root := &shapeNode{}
	n := 0
	var err error
	for {
		if _, err = s.in.Peek(); err != nil {
			break
		}
		if n > 0 && !rows {
			return "", fmt.Errorf("%w: there is text after the value", jsonread.ErrNotJSON)
		}
		if n == 0 && rows {
			s.sampleAt, s.samplePath = s.in.Offset(), "row 1"
		}
		if err = s.value(root, 0); err != nil {
			break
		}
		n++
	}
	switch {
	case err == errShapeTime, errors.Is(err, jsonread.ErrTooLong):
		s.partial = true
		root.count = min(root.count, max(n, 1)) // the last row is not complete
	case err != io.EOF:
		return "", err
	case n == 0:
		return "", fmt.Errorf("%w: there is no value", jsonread.ErrNotJSON)
	}
	head := "JSON of the shape "
	if rows {
		head = fmt.Sprintf("%s rows of JSON, each of the shape ", s.number(n))
		if s.partial {
			if lines, ok := rowLines(src, size, s.in.Offset(), n); ok {
				head = fmt.Sprintf("%d lines, each a row of JSON of the shape ", lines)
			}
		}
	}
	room, example := budget, ""
	if !sample {
		room /= 2
	} else if example, err = s.sample(src, size); err != nil {
		return "", err
	}
	room -= utf8.RuneCountInString(example)
	text := ""
	for depth := 1; depth <= shapeNest; depth++ { // ascending, because all levels may have much text
		w := &shapeWriter{depth: depth, seen: map[string]string{}, number: s.number}
		deeper := w.node(root, 0)
		if depth > 1 && (len(deeper) > room || deeper == text) {
			break
		}
		text = deeper
	}
	return head + tools.Excerpt(text, room) + example, nil
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

func (s *shaper) number(n int) string {
	if s.partial {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

var lineBreak = regexp.MustCompile(`\s*\n\s*`)

// sample returns the start of the sample element.
func (s *shaper) sample(src io.ReaderAt, size int64) (string, error) {
	if s.sampleAt < 0 {
		return "", nil
	}
	data, err := readRange(src, s.sampleAt, min(size-s.sampleAt, 4<<10))
	if err != nil {
		return "", err
	}
	data = bytes.TrimLeft(data, ", \t\r\n")
	value, err := jsonread.New(bytes.NewReader(data), int64(len(data))).Value()
	if err != nil {
		value = wholeRunes(data) // a long element
	}
	text := string(value)
	return fmt.Sprintf("\n%s: %s", s.samplePath, tools.Excerpt(lineBreak.ReplaceAllString(text, " "), sampleRunes)), nil
}

// value adds the next value to a node.
func (s *shaper) value(n *shapeNode, depth int) error {
	if s.counted++; s.counted%4096 == 0 && time.Now().After(s.deadline) {
		return errShapeTime
	}
	c, err := s.in.Peek()
	if err != nil {
		return err
	}
	n.count++
	kind := strings.TrimPrefix(strings.TrimPrefix(jsonread.TypeOf(c), "a "), "an ")
	if !slices.Contains(n.kinds, kind) {
		n.kinds = append(n.kinds, kind)
	}
	switch {
	case depth >= shapeNest:
		return s.in.Skip()
	case c == '[':
		return s.array(n, depth)
	case c == '{':
		return s.object(n, depth)
	}
	return s.in.Skip()
}

func (s *shaper) array(n *shapeNode, depth int) error {
	first := n.elem == nil
	if first {
		n.elem, n.min = &shapeNode{path: n.path + "[]"}, 1<<62
	}
	i, start := 0, int64(-1)
	defer func() {
		n.min, n.max = min(n.min, i), max(n.max, i)
		if first && start >= 0 && i > s.sampleLen && !strings.HasPrefix(s.samplePath, "row") && depth < 4 {
			s.sampleAt, s.samplePath, s.sampleLen = start, n.path+"[0]", i
			if n.path == "" {
				s.samplePath = ".[0]"
			}
		}
	}()
	return s.in.Elements(func(string) error {
		if i == 0 && first {
			start = s.in.Offset()
		}
		i++
		if s.in.Offset() < shapeBytes {
			return s.value(n.elem, depth+1)
		}
		if s.counted++; s.counted%4096 == 0 && time.Now().After(s.deadline) {
			return errShapeTime
		}
		return s.in.Skip()
	})
}

func (s *shaper) object(n *shapeNode, depth int) error {
	if n.fields == nil {
		n.fields = map[string]*shapeNode{}
	}
	members := 0
	defer func() { n.members = max(n.members, members) }()
	return s.in.Elements(func(name string) error {
		members++
		field := n.fields[name]
		if field == nil {
			if len(n.keys) >= 4*shapeKeys {
				return s.in.Skip()
			}
			field = &shapeNode{path: n.path + "." + name}
			n.fields[name] = field
			n.keys = append(n.keys, name)
		}
		return s.value(field, depth+1)
	})
}

// shapeWriter writes a shape down to a depth.
type shapeWriter struct {
	depth  int
	seen   map[string]string // the path of each longer shape
	number func(int) string
}

func (w *shapeWriter) node(n *shapeNode, depth int) string {
	var kinds []string
	for _, kind := range n.kinds {
		switch kind {
		case "object":
			kind = w.once(w.object(n, depth), n.path)
		case "array":
			kind = w.once(w.array(n, depth), n.path)
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return "..."
	}
	return strings.Join(kinds, " or ")
}

// once returns the text of a shape, or where the same text is.
func (w *shapeWriter) once(text, path string) string {
	if len(text) < 40 {
		return text
	}
	if first, ok := w.seen[text]; ok {
		return "as " + first
	}
	if path == "" {
		path = "."
	}
	w.seen[text] = path
	return text
}

func (w *shapeWriter) array(n *shapeNode, depth int) string {
	if n.max == 0 {
		return "[]"
	}
	count := w.number(n.max)
	if n.min < n.max {
		count = fmt.Sprintf("%d to %s", n.min, count)
	}
	if depth >= w.depth {
		return fmt.Sprintf("[%s elements]", count)
	}
	return fmt.Sprintf("[%s elements, each: %s]", count, w.node(n.elem, depth+1))
}

func (w *shapeWriter) object(n *shapeNode, depth int) string {
	objects := n.count // of all kinds; a field is optional if fewer objects have it
	if depth >= w.depth {
		return fmt.Sprintf("{%s keys}", w.number(n.members))
	}
	var fields []string
	last := ""
	for i, name := range n.keys {
		if i == shapeKeys {
			break
		}
		field := n.fields[name]
		text := w.node(field, depth+1)
		optional := ""
		if field.count < objects && len(n.kinds) == 1 {
			optional = "?"
		}
		quoted := tools.Excerpt(name, 60) + optional
		if text == last && len(text) > 12 {
			fields = append(fields, quoted+": same") // the shape of the field before
			continue
		}
		fields = append(fields, quoted+": "+text)
		last = text
	}
	if n.members > shapeKeys || len(n.keys) > shapeKeys {
		fields = append(fields, fmt.Sprintf("... %s keys in all", w.number(max(n.members, len(n.keys)))))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
