package describe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	shapeKeys = 24 // keys of an object that are named
	shapeNest = 32 // nesting levels that are described
)

// Shape describes the structure of the values in at most about room characters: exact numbers of
// elements, and equal shapes once.
func (d *Document) Shape(room int) string {
	text := ""
	for depth := 1; depth <= shapeNest; depth++ { // ascending, because all levels may have much text
		w := &shapeWriter{depth: depth, seen: map[string]string{}, number: d.Number}
		deeper := w.node(d.root, 0)
		if depth > 1 && (len(deeper) > room || deeper == text) {
			break
		}
		text = deeper
	}
	return tools.Excerpt(text, room)
}

// Number returns a count, which may be more if the document was not read to its end.
func (d *Document) Number(n int) string {
	if d.Partial {
		return fmt.Sprintf("%d+", n)
	}
	return fmt.Sprint(n)
}

// shapeWriter writes a shape down to a depth.
type shapeWriter struct {
	depth  int
	seen   map[string]string // the path of each longer shape
	number func(int) string
}

func (w *shapeWriter) node(n *node, depth int) string {
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
	w.seen[text] = cmp.Or(path, ".")
	return text
}

func (w *shapeWriter) array(n *node, depth int) string {
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

func (w *shapeWriter) object(n *node, depth int) string {
	objects := n.count // of all kinds; a field is optional if fewer objects have it
	if depth >= w.depth {
		return fmt.Sprintf("{%s keys}", w.number(n.members))
	}
	if n.member != nil {
		return fmt.Sprintf("{%s keys such as %q, each: %s}", w.number(n.members), tools.Excerpt(n.example, 60), w.node(n.member, depth+1))
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
