package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// node is a value of a configuration file. All positions are offsets of bytes.
type node struct {
	kind       kind
	start, end int // the value
	lead       int // where its key, or the dash of a YAML list, begins; start for other items
	name       int // where the last part of its key begins, a.b.NAME in TOML
	key, text  string
	block      bool // of a YAML list: items have dashes; of a map: its members end with the line
	children   []*node
}

type kind byte

const (
	other kind = iota
	text
	list
	table
)

// format is a syntax.
type format struct {
	parse func(data []byte) (*node, error)
	// member returns the text before the value of a member with this plain name.
	member func(name string) string
}

var (
	jsonFormat = format{parseJSON, func(name string) string { return `"` + name + `": ` }}
	tomlFormat = format{parseTOML, func(name string) string { return name + " = " }}
	yamlFormat = format{parseYAML, func(name string) string { return name + ": " }}
)

// maxDepth bounds the recursion of the parsers, which have no bound of their own.
const maxDepth = 1_000

// tree parses a whole file without its byte order mark. Errors contain no values, which
// may be secrets.
func (f format) tree(data []byte) (*node, error) {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("it is not UTF-8 text")
	}
	depth := 0
	for _, b := range data { // brackets in strings count, too; they are hardly so many
		switch b {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if depth > maxDepth {
			return nil, fmt.Errorf("it has more than %d levels", maxDepth)
		}
	}
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	if root.kind != table {
		return nil, errors.New("it is not an object with names and values")
	}
	return root, nil
}

// get returns the member with this key, or nil. Readers of a file differ in which of two
// members with the same key they use, so two are an error.
func (n *node) get(key string) (found *node, err error) {
	if n == nil || n.kind != table {
		return nil, nil
	}
	for _, child := range n.children {
		if child.key == key {
			if found != nil {
				return nil, fmt.Errorf("the key %q is there twice", key)
			}
			found = child
		}
	}
	return found, nil
}

// texts returns the items of a list of strings.
func (n *node) texts() (all []string, ok bool) {
	for _, item := range n.children {
		if item.kind != text {
			return nil, false
		}
		all = append(all, item.text)
	}
	return all, n.kind == list
}

// indent returns the line break and the indentation before at, or false if something else
// is before it on its line.
func indent(data []byte, at int) (string, bool) {
	line := bytes.LastIndexByte(data[:at], '\n') + 1
	if strings.Trim(string(data[line:at]), " \t") != "" {
		return "", false
	}
	end := "\n"
	if line > 1 && data[line-2] == '\r' {
		end = "\r\n"
	}
	return end + string(data[line:at]), true
}
