package describe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	shapeBytes = 1 << 20 // bytes whose values are described; later elements are only counted
	shapeValue = 4 << 20 // bytes of the longest string of a description that is bounded; it ends there
	maxNodes   = 20_000  // places that are described; half of them if an object has more than maxKeys
	maxKeys    = 1_000   // keys of an object that are described, unless they have arrays or objects
	mapKeys    = 16      // from this number of keys on, an object of like objects is a map
)

// Document is the structure of a text of JSON values.
type Document struct {
	Values  int
	Partial bool  // the text was not read to its end
	Sampled bool  // elements behind the first MiB were counted, and not described
	Unnamed bool  // arrays or objects behind too many others were not described
	Read    int64 // bytes

	root *node
}

// node describes all values at one place of a document, such as the elements of an array.
type node struct {
	path     string   // as jq writes it
	kinds    []string // "number", "string", ... in the order of their first use
	count    int      // values
	min, max int      // elements of arrays
	elements int      // of all arrays
	elem     *node
	keys     []string
	fields   map[string]*node
	members  int // the largest number of members of an object
	all      int // members of all objects
	member   *node
	example  string // a key of a map, whose values are all described by member
	first    int64  // where the first element or member begins, white space and commas before it
}

// reader builds the structure of a document.
type reader struct {
	in       *jsonread.Reader
	deadline time.Time
	counted  int
	nodes    int
	sampled  bool
	unnamed  bool
}

var errTime = errors.New("the description takes too long")

// JSON describes a text of JSON values in at most about the time of limit; 0 means that all of it is
// described, or jsonread.ErrTooLong is returned. It returns jsonread.ErrNotJSON if the text is not JSON.
func JSON(src io.Reader, limit time.Duration) (*Document, error) {
	r, longest := &reader{}, int64(MaxRow)
	if limit != 0 {
		r.deadline, longest = time.Now().Add(limit), shapeValue
	}
	r.in = jsonread.New(src, longest)
	d := &Document{root: &node{}}
	var err error
	for ; ; d.Values++ {
		if _, err = r.in.Peek(); err != nil {
			break
		}
		if d.Values > 0 && r.in.Offset() > shapeBytes {
			err = r.skip()
		} else {
			err = r.value(d.root, 0)
		}
		if err != nil {
			break
		}
	}
	d.Read, d.Sampled, d.Unnamed = r.in.Offset(), r.sampled, r.unnamed
	switch {
	case err == errTime, limit != 0 && errors.Is(err, jsonread.ErrTooLong):
		d.Partial = true
		d.root.count = min(d.root.count, max(d.Values, 1)) // the last row is not complete
	case err != io.EOF:
		return nil, err
	case d.Values == 0:
		return nil, fmt.Errorf("%w: there is no value", jsonread.ErrNotJSON)
	}
	return d, nil
}

// Arrays reports whether a text has several arrays of objects, such as the pages of an answer.
func (d *Document) Arrays() bool {
	return d.Values > 1 && slices.Equal(d.root.kinds, []string{"array"}) && d.root.elem != nil && slices.Equal(d.root.elem.kinds, []string{"object"})
}

// late counts a value, and reports whether the time is over.
func (r *reader) late() bool {
	r.counted++
	return r.counted%4096 == 0 && !r.deadline.IsZero() && time.Now().After(r.deadline)
}

// value adds the next value to a node.
func (r *reader) value(n *node, depth int) error {
	if r.late() {
		return errTime
	}
	c, err := r.in.Peek()
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
	case c == '[':
		return r.array(n, depth)
	case c == '{':
		return r.object(n, depth)
	}
	return r.in.Skip()
}

func (r *reader) array(n *node, depth int) error {
	if n.elem == nil {
		n.elem, n.min = &node{path: n.path + "[]"}, 1<<62
	}
	i := 0
	defer func() {
		n.min, n.max, n.elements = min(n.min, i), max(n.max, i), n.elements+i
	}()
	return r.in.Elements(func(string) error {
		if i++; i == 1 && n.elements == 0 {
			n.first = r.in.Offset()
		}
		if i == 1 || r.in.Offset() < shapeBytes {
			return r.value(n.elem, depth+1)
		}
		return r.skip()
	})
}

// skip skips an element that is only counted.
func (r *reader) skip() error {
	if r.sampled = true; r.late() {
		return errTime
	}
	return r.in.Skip()
}

func (r *reader) object(n *node, depth int) error {
	if n.fields == nil {
		n.fields = map[string]*node{}
	}
	members := 0
	defer func() { n.members, n.all = max(n.members, members), n.all+members }()
	return r.in.Elements(func(name string) error {
		if members++; members == 1 && n.all == 0 {
			n.first, n.example = r.in.Offset(), name
		}
		if n.member != nil {
			return r.value(n.member, depth+1)
		}
		field := n.fields[name]
		if field == nil {
			kind, _ := r.in.Peek()
			nested := kind == '[' || kind == '{'
			if len(n.keys) >= maxKeys && (!nested || r.nodes >= maxNodes/2) || r.nodes >= maxNodes {
				r.unnamed = r.unnamed || nested
				return r.in.Skip()
			}
			r.nodes++
			field = &node{path: n.path + Step(name)}
			n.fields[name] = field
			n.keys = append(n.keys, name)
		}
		err := r.value(field, depth+1)
		if err == nil && len(n.keys) == mapKeys && n.isMap() {
			n.member = &node{path: n.path + "[]"}
			for _, key := range n.keys {
				n.member.merge(n.fields[key])
			}
			n.keys, n.fields = nil, nil
		}
		return err
	})
}

// isMap reports whether the members of the objects are objects that have most of their keys in
// common, such as the packages of a lock file by their names.
func (n *node) isMap() bool {
	if n.member != nil {
		return true
	}
	filled, keys := 0, map[string]bool{}
	for _, field := range n.fields {
		if !slices.Equal(field.kinds, []string{"object"}) {
			return false
		}
		filled += len(field.keys)
		for _, key := range field.keys {
			keys[key] = true
		}
	}
	return len(n.fields) > 1 && filled*3 >= len(keys)*4
}

// merge adds the values at another place.
func (n *node) merge(other *node) {
	for _, kind := range other.kinds {
		if !slices.Contains(n.kinds, kind) {
			n.kinds = append(n.kinds, kind)
		}
	}
	n.count += other.count
	n.first = cmp.Or(n.first, other.first)
	if other.elem != nil {
		if n.elem == nil {
			n.elem, n.min = &node{path: n.path + "[]"}, 1<<62
		}
		n.min, n.max, n.elements = min(n.min, other.min), max(n.max, other.max), n.elements+other.elements
		n.elem.merge(other.elem)
	}
	n.members, n.all, n.example = max(n.members, other.members), n.all+other.all, cmp.Or(n.example, other.example)
	if other.member != nil {
		if n.member == nil {
			n.member = &node{path: n.path + "[]"}
		}
		n.member.merge(other.member)
	}
	for _, key := range other.keys {
		if n.fields == nil {
			n.fields = map[string]*node{}
		}
		if n.fields[key] == nil {
			n.keys = append(n.keys, key)
			n.fields[key] = &node{path: n.path + Step(key)}
		}
		n.fields[key].merge(other.fields[key])
	}
}

// Place is a place in a document that is a table.
type Place struct {
	// Path is written as in jq, with "[]" for each element or member; "." is the document.
	Path string `json:"path"`
	Rows int    `json:"rows"`
	// AtLeast is true if there may be more rows, because not all of a large document was described.
	AtLeast bool `json:"at_least,omitempty"`
	Columns int  `json:"columns"`
	// First is the path of the first row, and Offset where it begins, with white space and commas.
	First  string `json:"-"`
	Offset int64  `json:"-"`

	objects bool // rows are objects
}

// String returns the form for a model.
func (p Place) String() string {
	more := ""
	if p.AtLeast {
		more = "+"
	}
	return fmt.Sprintf("%s (%d%s rows, %d columns)", p.Path, p.Rows, more, p.Columns)
}

// List returns places with commas between them.
func List(places []Place) string {
	texts := make([]string, len(places))
	for i, p := range places {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// Places returns the tables of a document, the one that is meant first: the largest array of
// objects or map of objects, before those that are parts of several rows.
func (d *Document) Places() (all []Place) {
	d.root.places("", 0, d.Partial, &all)
	rank := func(p Place) int {
		switch {
		case p.objects && !strings.Contains(p.Path, "[]"):
			return 0
		case strings.Contains(p.Path, "[]"):
			return 3
		case p.Columns > 1: // arrays
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Rows, a.Rows))
	})
	return all
}

// places adds the tables at a place and below it. partial is true if not all of its values were described.
func (n *node) places(path string, depth int, partial bool, all *[]Place) {
	if depth > shapeNest {
		return
	}
	path = cmp.Or(path, ".")
	add := func(rows int, of *node, first string) {
		objects := slices.Contains(of.kinds, "object")
		if !objects && strings.Contains(path, "[]") {
			return // cells rather than a table
		}
		*all = append(*all, Place{Path: path, Rows: rows, Columns: max(len(of.keys), of.max, 1), First: join(path, first), Offset: n.first,
			AtLeast: partial, objects: objects})
	}
	if n.elements > 0 {
		add(n.elements, n.elem, "[0]")
		inner := "[]"
		if n.elements == 1 {
			inner = "[0]"
		}
		n.elem.places(join(path, inner), depth+1, partial || n.elem.count < n.elements, all)
	}
	if n.member != nil {
		add(n.all, n.member, Step(n.example))
		n.member.places(join(path, "[]"), depth+1, partial, all)
		return
	}
	if n.isMap() {
		like := &node{}
		for _, key := range n.keys {
			like.merge(n.fields[key])
		}
		add(n.all, like, Step(n.example))
		like.places(join(path, "[]"), depth+1, partial, all)
		return
	}
	for _, key := range n.keys {
		n.fields[key].places(join(path, Step(key)), depth+1, partial, all)
	}
}

// join adds a step to a path. jq writes .[0] and .a, but .a[0].
func join(path, step string) string {
	if path == "." && step[0] == '.' {
		return step
	}
	return path + step
}

var plainKey = lazyregexp.New(`^[A-Za-z_][A-Za-z_0-9]*$`)

// Step returns the part of a path, as in jq, that leads to a member.
func Step(name string) string {
	if plainKey.MatchString(name) {
		return "." + name
	}
	text, _ := json.Marshal(name) // a string always has a JSON form
	return "[" + string(text) + "]"
}
