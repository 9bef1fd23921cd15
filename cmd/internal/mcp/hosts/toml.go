package hosts

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxTOML is the maximum size of a file: the library's check for duplicate keys takes 0.5 s for 5,000
// tables in 160 kB, and 17 s for 30,000.
const maxTOML = 256 << 10

// parseTOML reads TOML. The members of a table may be in several places of the file.
func parseTOML(data []byte) (*node, error) {
	if len(data) > maxTOML {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are read", len(data), maxTOML)
	}
	var valid map[string]any // the parser below does not see duplicate keys
	if err := toml.Unmarshal(data, &valid); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: it is not valid TOML", line, column)
		}
		return nil, errors.New("it is not valid TOML")
	}
	t := tomlTree{data: data}
	t.parser.Reset(data)
	root := &node{kind: table, block: true}
	in := root
	for t.parser.NextExpression() {
		switch e := t.parser.Expression(); e.Kind {
		case unstable.Table:
			in = root
			for keys := e.Key(); keys.Next(); {
				in = in.child(string(keys.Node().Data))
			}
		case unstable.ArrayTable:
			in = &node{kind: table} // no list of tables contains servers
		case unstable.KeyValue:
			t.add(in, e, true)
		}
	}
	return root, t.parser.Error()
}

type tomlTree struct {
	data   []byte
	parser unstable.Parser
}

// child returns the table of this name, which it adds if necessary.
func (n *node) child(key string) *node {
	for _, c := range n.children {
		if c.key == key {
			return c
		}
	}
	c := &node{kind: table, block: true, key: key}
	n.children = append(n.children, c)
	return c
}

// add adds the value of a line, or of a member of an inline table, to in. block tells
// that its line ends after it.
func (t *tomlTree) add(in *node, e *unstable.Node, block bool) {
	var parts []*unstable.Node
	for keys := e.Key(); keys.Next(); {
		parts = append(parts, keys.Node())
	}
	for _, part := range parts[:len(parts)-1] {
		in = in.child(string(part.Data))
	}
	in.block = block
	last := parts[len(parts)-1]
	key := int(last.Raw.Offset + last.Raw.Length)
	start := key + bytes.IndexByte(t.data[key:], '=') + 1
	start += len(t.data[start:]) - len(bytes.TrimLeft(t.data[start:], " \t"))
	v := t.value(e.Value(), start)
	v.key, v.lead, v.name = string(last.Data), int(parts[0].Raw.Offset), int(last.Raw.Offset)
	if v.kind == list {
		v.end = len(bytes.TrimRight(t.data[:e.Raw.Offset+e.Raw.Length], " \t"))
	}
	in.children = append(in.children, v)
}

// value returns the node of a value that begins at start. The end of a list in a list, and
// of a table, stays unknown.
func (t *tomlTree) value(v *unstable.Node, start int) *node {
	n := &node{start: start, lead: start, end: start + int(v.Raw.Length)}
	switch v.Kind {
	case unstable.String:
		n.kind, n.text = text, string(v.Data)
	case unstable.Array:
		n.kind = list
		for items := v.Children(); items.Next(); {
			n.children = append(n.children, t.value(items.Node(), int(items.Node().Raw.Offset)))
		}
	case unstable.InlineTable:
		n.kind = table
		for members := v.Children(); members.Next(); {
			t.add(n, members.Node(), false)
		}
	}
	return n
}
